"""Jobs that do their work, and what they see of each other while they do."""

from __future__ import annotations

import pytest

from tests.scenarios.conftest import OpenScene
from tests.scenarios.jobs import FOREVER, group, job, per_rank
from tests.scenarios.messages import COMPLETED
from tests.scenarios.scene import Scene

MEETING = """
import os, socket, sys, time
here, names = int(os.environ["TRAININGJOB_REPLICA_INDEX"]), os.environ["WORKER_INSTANCES"].split(",")
door = socket.create_server(("", int(os.environ["WORKER_PORTS"])))
for attempt in range(200):
    try:
        peer = socket.create_connection((names[1 - here], int(os.environ["WORKER_PORTS"])), timeout=5)
        break
    except OSError:
        time.sleep(0.02)
else:
    sys.exit(f"cannot reach {names[1 - here]}")
peer.sendall(socket.gethostname().encode())
peer.shutdown(socket.SHUT_WR)
print("met", door.accept()[0].recv(99).decode())
"""


@pytest.mark.on_real
async def test_a_job_whose_members_all_end_well_succeeds_and_leaves_nothing(scene: Scene) -> None:
    await scene.submit(job("train", {"worker": group("sleep 0.2", 2)}))
    status = await scene.until_phase("train", "Succeed")

    assert [word for word in scene.phases("train") if word != "Creating"] == [
        "Pending",
        "Running",
        "Terminating",
        "Succeed",
    ]
    passed = [entry["type"] for entry in status["conditions"]]
    assert passed == scene.phases("train")
    assert [entry["reason"] for entry in status["conditions"]] == [f"TrainingJob{phase}" for phase in passed]
    assert status["startTime"] <= status["startRunningTime"] <= status["endTime"]
    assert status["replicaStatuses"]["worker"]["succeeded"] == 2
    assert status["RestartCount"] == {"worker": 0}
    assert scene.message("train") == COMPLETED
    assert "2/2" in {(change.object.get("status") or {}).get("ready") for change in scene.history}
    assert scene.pods == {}
    assert scene.services == {}
    await scene.until(lambda: "Succeed" in scene.events("train"), "an event about the end")


async def test_what_a_finished_job_leaves_can_be_kept(scene: Scene) -> None:
    await scene.submit(job("train", {"worker": group("echo trained", 2)}, cleanPodPolicy="None"))
    await scene.until_phase("train", "Succeed")
    assert "Terminating" not in scene.phases("train")
    await scene.until(lambda: len(scene.pods) == len(scene.services) == 2, "two pods and two services")
    assert {pod["status"]["phase"] for pod in scene.pods.values()} == {"Succeeded"}
    assert await scene.log("train-worker-1") == "trained\n"


async def test_every_member_learns_who_it_is_and_where_the_others_are(scene: Scene) -> None:
    trainer = group("env", 2, ports={"aitj-a": 7001, "aitj-b": 7002, "other": 7003})
    servers = group("env", ports={"aitj-main": 9000})
    await scene.submit(job("t", {"Trainer": trainer, "pserver": servers}, cleanPodPolicy="None"))
    await scene.until_phase("t", "Succeed")

    seen = dict(line.partition("=")[::2] for line in (await scene.log("t-trainer-1")).splitlines())
    there = scene.namespace
    expected = {
        "TRAININGJOB_NAME": "t",
        "TRAININGJOB_NAMESPACE": there,
        "TRAININGJOB_REPLICA_NAME": "trainer",
        "TRAININGJOB_REPLICA_TYPE": "trainer",
        "TRAININGJOB_REPLICA_INDEX": "1",
        "TRAININGJOB_REPLICA_RESTARTCOUNT": "0",
        "TRAININGJOB_SERVICE": f"t-trainer-1.{there}",
        "TRAININGJOB_PORTS": "7001,7002",
        "TRAINER_INSTANCES": f"t-trainer-0.{there},t-trainer-1.{there}",
        "TRAINER_INSTANCES_NUM": "2",
        "TRAINER_PORTS": "7001,7002",
        "TRAINER_PORTS_NUM": "2",
        "TRAINER_HOSTS": ",".join(f"t-trainer-{n}.{there}:{port}" for n in (0, 1) for port in (7001, 7002)),
        "TRAINER_HOSTS_NUM": "4",
        "PSERVER_INSTANCES": f"t-pserver-0.{there}",
        "PSERVER_INSTANCES_NUM": "1",
        "PSERVER_PORTS": "9000",
        "PSERVER_PORTS_NUM": "1",
        "PSERVER_HOSTS": f"t-pserver-0.{there}:9000",
        "PSERVER_HOSTS_NUM": "1",
    }
    assert {name: seen.get(name) for name in expected} == expected
    assert seen["HOSTNAME"] == "t-trainer-1"


async def test_members_meet_by_name_in_both_directions_on_the_same_port(scene: Scene) -> None:
    worker = group("", 2, ports={"aitj-port": 29500})
    worker["template"]["spec"]["containers"][0]["command"] = ["python3", "-c", MEETING]
    await scene.submit(job("m", {"worker": worker}, cleanPodPolicy="None"))
    await scene.until_phase("m", "Succeed", "Failed")
    assert [await scene.log(f"m-worker-{here}") for here in (0, 1)] == ["met m-worker-1\n", "met m-worker-0\n"]


async def test_a_side_car_that_never_ends_holds_nobody_up(scene: Scene) -> None:
    worker = group("sleep 0.1")
    side_car = {"name": "logger", "image": "any", "command": ["sh", "-c", FOREVER]}
    worker["template"]["spec"]["containers"].append(side_car)
    await scene.submit(job("train", {"worker": worker}))
    await scene.until_phase("train", "Succeed")
    assert scene.pods == {}


async def test_an_init_container_comes_first_and_knows_as_much(scene: Scene) -> None:
    worker = group("cat /shared/note", 2)
    spec = worker["template"]["spec"]
    mounts = [{"name": "shared", "mountPath": "/shared"}]
    spec["volumes"] = [{"name": "shared", "emptyDir": {}}]
    spec["containers"][0]["volumeMounts"] = mounts
    script = "sleep 0.1; echo $TRAININGJOB_REPLICA_INDEX of $WORKER_INSTANCES_NUM > /shared/note"
    spec["initContainers"] = [
        {"name": "first", "image": "any", "command": ["sh", "-c", script], "volumeMounts": mounts}
    ]
    await scene.submit(job("train", {"worker": worker}, cleanPodPolicy="None"))
    await scene.until_phase("train", "Succeed")
    assert await scene.log("train-worker-1") == "1 of 2\n"


async def test_jobs_of_one_name_in_two_namespaces_do_not_meet(open_scene: OpenScene) -> None:
    here, there = await open_scene(), await open_scene()
    await here.submit(job("twin", {"worker": group("sleep 0.1; exit 0", 2)}))
    await there.submit(job("twin", {"worker": group("sleep 0.1; exit 4", 1)}))
    await here.until_phase("twin", "Succeed")
    await there.until_phase("twin", "Failed")
    assert here.made("twin-worker-0") != there.made("twin-worker-0")
    assert there.made("twin-worker-1") == []


async def test_twenty_members_in_three_groups_come_up_and_end_together(scene: Scene) -> None:
    groups = {
        "chief": group(per_rank("sleep 0.5"), completePolicy="Rank0"),
        "worker": group("sleep 0.5", 15),
        "ps": group(FOREVER, 4, completePolicy="None"),
    }
    await scene.submit(job("big", groups))
    await scene.until_phase("big", "Succeed")
    assert {len(scene.made(f"big-worker-{index}")) for index in range(15)} == {1}
    assert scene.pods == {}
