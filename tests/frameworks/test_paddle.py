from __future__ import annotations

import pytest

from pliant.model.job import Port, ResizeMode
from tests.builders import make_group
from tests.frameworks.contracts import told, written_for


def test_trainers_find_each_other_and_meet_at_the_first() -> None:
    assert told(written_for("paddle", worker=2), "worker", 1) == {
        "PADDLE_JOB_ID": "bert",
        "PADDLE_MASTER": "bert-worker-0.team:36543",
        "PADDLE_NNODES": "2",
        "PADDLE_TRAINERS_NUM": "2",
        "PADDLE_TRAINERS": "bert-worker-0.team,bert-worker-1.team",
        "PADDLE_TRAINER_ENDPOINTS": "bert-worker-0.team:36000,bert-worker-1.team:36000",
        "TRAINER_PORTS_NUM": "20",
        "POD_IP": "bert-worker-1.team",
        "PADDLE_PORT": "36000",
        "PADDLE_CURRENT_IP": "bert-worker-1.team",
        "PADDLE_CURRENT_ENDPOINT": "bert-worker-1.team:36000",
        "PADDLE_TRAINER_ID": "1",
        "TRAINING_ROLE": "TRAINER",
        "PADDLE_TRAINING_ROLE": "TRAINER",
    }


def test_the_old_word_chooses_the_same_contract() -> None:
    new, old = written_for("paddle", worker=2), written_for("paddlepaddle", worker=2)
    assert told(old, "worker") == told(new, "worker")


@pytest.mark.parametrize("servers", ["pserver", "ps", "Server"])
def test_servers_are_listed_and_know_themselves_in_the_list(servers: str) -> None:
    job = written_for("paddle", make_group(servers, 2), trainer=2)
    found = told(job, servers, 1)
    assert found["TRAINING_ROLE"] == "PSERVER"
    listed = found["PADDLE_PSERVERS_IP_PORT_LIST"].split(",")
    assert listed.index(f"{found['POD_IP']}:{found['PADDLE_PORT']}") == 1
    assert (found["PADDLE_TRAINERS_NUM"], found["PADDLE_TRAINER_ID"]) == ("2", "1")
    assert (found["PADDLE_MASTER"], found["PADDLE_NNODES"]) == (f"bert-{servers.lower()}-0.team:36543", "4")


def test_more_servers_than_trainers_have_no_number_that_trainers_lack() -> None:
    job = written_for("paddle", pserver=3, trainer=2)
    assert [told(job, "pserver", index)["PADDLE_TRAINER_ID"] for index in range(3)] == ["0", "1", "0"]


def test_servers_that_are_called_masters_are_left_to_the_launch_module() -> None:
    job = written_for("paddle", Master=1, Worker=2)
    assert told(job, "Master") == {
        "PADDLE_JOB_ID": "bert",
        "PADDLE_MASTER": "bert-master-0.team:36543",
        "PADDLE_NNODES": "3",
        "PADDLE_SERVER_NUM": "1",
        "TRAINER_PORTS_NUM": "20",
        "POD_IP": "bert-master-0.team",
    }
    assert told(job, "Worker", 1)["PADDLE_TRAINER_NUM"] == "1"


def test_the_words_of_fluid_are_there() -> None:
    job = written_for("paddle", pserver=2, trainer=3, options={"fluid": True})
    found = told(job, "trainer", 2)
    assert (found["PADDLE_TRAINERS"], found["PADDLE_PSERVERS"]) == ("3", "2")
    assert found["PADDLE_PSERVER_IPS"] == "bert-pserver-0.team,bert-pserver-1.team"
    assert (found["PADDLE_PSERVER_PORT"], found["PADDLE_CURRENT_IP"]) == ("36000", "bert-trainer-2.team")


def test_heterogeneous_trainers_are_listed_apart() -> None:
    found = told(written_for("paddle", pserver=1, heter=1, trainer=1), "heter")
    assert found["TRAINING_ROLE"] == "HETER"
    assert found["PADDLE_HETER_ENDPOINTS"] == "bert-heter-0.team:36000"


def test_gloo_meets_at_another_port_of_the_first_server() -> None:
    found = told(written_for("paddle", pserver=1, trainer=1, options={"with_gloo": 1}), "trainer")
    assert (found["PADDLE_WITH_GLOO"], found["PADDLE_GLOO_RENDEZVOUS"]) == ("1", "3")
    assert found["PADDLE_GLOO_HTTP_ENDPOINT"] == "bert-pserver-0.team:36018"


def test_trainers_that_come_and_go_have_bounds_and_no_numbers() -> None:
    trainers = make_group("worker", 2, min_size=1, max_size=4, is_elastic=True)
    found = told(written_for("paddle", trainers, options={"elastic_server": "etcd:2379", "max_restarts": 5}), "worker")
    assert found["PADDLE_NNODES"] == "1:4"
    assert (found["PADDLE_ELASTIC_JOB_ID"], found["PADDLE_ELASTIC_NP"]) == ("team-bert", "2")
    assert (found["PADDLE_MASTER"], found["PADDLE_ELASTIC_SERVER"]) == ("etcd://etcd:2379", "etcd:2379")
    assert found["PADDLE_MAX_RESTART"] == "5"
    assert not {"PADDLE_TRAINER_ID", "PADDLE_TRAINERS_NUM", "PADDLE_TRAINER_ENDPOINTS"} & found.keys()


def test_trainers_of_servers_keep_their_numbers_even_if_they_come_and_go() -> None:
    trainers = make_group("trainer", 2, min_size=1, max_size=4, is_elastic=True)
    assert told(written_for("paddle", trainers, pserver=1), "trainer", 1)["PADDLE_TRAINER_ID"] == "1"


def test_ports_of_the_template_are_used() -> None:
    workers = make_group("worker", 2, ports=(Port("aitj-7164", 7164), Port("master", 40000)))
    found = told(written_for("paddle", workers), "worker")
    assert found["PADDLE_CURRENT_ENDPOINT"] == "bert-worker-0.team:7164"
    assert found["PADDLE_MASTER"] == "bert-worker-0.team:40000"


@pytest.mark.parametrize("way", [ResizeMode.RESTART, ResizeMode.FIXED])
def test_trainers_that_cannot_come_and_go_are_told_their_number_within_bounds_too(way: ResizeMode) -> None:
    trainers = make_group("worker", 2, min_size=1, max_size=4, is_elastic=True, resize_mode=way)
    found = told(written_for("paddle", trainers), "worker", 1)
    assert (found["PADDLE_NNODES"], found["PADDLE_TRAINERS_NUM"], found["PADDLE_TRAINER_ID"]) == ("2", "2", "1")
    assert not any(name.startswith("PADDLE_ELASTIC") for name in found)


def test_programs_of_old_find_numbers_and_names() -> None:
    trainers = make_group("trainer", 3, min_size=2, max_size=6, is_elastic=True)
    job = written_for("paddle", trainers, pserver=2, options={"fluid": True})
    assert (
        told(job, "trainer", 2).items()
        >= {
            "TRAINERS": "2",
            "PSERVERS": "2",
            "PADDLE_TRAINERS": "3",
            "PADDLE_TRAINERS_NUM": "3",
            "PADDLE_INIT_NUM_GRADIENT_SERVERS": "2",
            "PADDLE_INIT_PSERVERS": "bert-pserver-0.team,bert-pserver-1.team",
            "PADDLE_INIT_TRAINER_ID": "2",
            "PADDLE_TRAINER_ID": "2",
        }.items()
    )


def test_a_master_of_old_serves_tasks_and_is_no_meeting_place() -> None:
    job = written_for("paddle", make_group("master", 1), pserver=1, trainer=2, options={"fluid": True})
    found = told(job, "trainer", 1)
    assert (found["MASTER_IP"], found["ETCD_IP"]) == ("bert-master-0.team", "bert-master-0.team")
    assert (found["PADDLE_MASTER"], found["PADDLE_NNODES"]) == ("bert-pserver-0.team:36543", "3")
    assert told(job, "master")["POD_IP"] == "bert-master-0.team"
    assert "TRAINING_ROLE" not in told(job, "master")


def test_trainers_of_old_without_servers_keep_numbers_when_they_come_and_go() -> None:
    trainers = make_group("trainer", 2, min_size=1, max_size=4, is_elastic=True)
    found = told(written_for("paddle", trainers, options={"fluid": True}), "trainer", 1)
    assert (found["PADDLE_TRAINER_ID"], found["PADDLE_TRAINERS"], found["TRAINERS"]) == ("1", "2", "1")
    assert (found["PADDLE_NNODES"], found["PADDLE_PSERVERS"]) == ("1:4", "0")
