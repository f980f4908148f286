from __future__ import annotations

from tests.frameworks.contracts import told, written_for


def test_the_tracker_is_at_the_master_and_workers_are_numbered_after_it() -> None:
    assert told(written_for("xgboost", Master=1, Worker=2), "Worker", 1) == {
        "MASTER_ADDR": "bert-master-0",
        "MASTER_PORT": "9999",
        "WORLD_SIZE": "3",
        "RANK": "2",
        "DMLC_TRACKER_URI": "bert-master-0",
        "DMLC_TRACKER_PORT": "9999",
        "DMLC_NUM_WORKER": "3",
        "DMLC_TASK_ID": "2",
        "WORKER_ADDRS": "bert-worker-0,bert-worker-1",
        "WORKER_PORT": "9999",
    }


def test_without_a_master_the_first_worker_tracks() -> None:
    found = told(written_for("lightgbm", worker=2), "worker")
    assert (found["DMLC_TRACKER_URI"], found["DMLC_TASK_ID"]) == ("bert-worker-0", "0")


def test_one_who_is_alone_gets_no_list() -> None:
    assert "WORKER_ADDRS" not in told(written_for("xgboost", worker=1), "worker")
