from __future__ import annotations

from tests.frameworks.contracts import told, written_for


def test_processes_meet_at_the_first_worker_under_both_families_of_names() -> None:
    assert told(written_for("jax", Worker=3), "Worker", 2) == {
        "COORDINATOR_ADDRESS": "bert-worker-0",
        "COORDINATOR_PORT": "6666",
        "NUM_PROCESSES": "3",
        "PROCESS_ID": "2",
        "JAX_COORDINATOR_ADDRESS": "bert-worker-0:6666",
        "JAX_NUM_PROCESSES": "3",
        "JAX_PROCESS_ID": "2",
    }


def test_a_group_that_leads_by_name_comes_first() -> None:
    job = written_for("jax", worker=2, coordinator=1)
    assert told(job, "coordinator")["PROCESS_ID"] == "0"
    assert told(job, "worker", 1)["PROCESS_ID"] == "2"
    assert told(job, "worker")["COORDINATOR_ADDRESS"] == "bert-coordinator-0"
