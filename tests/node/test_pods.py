"""Pods of an embedded cluster live and end as Kubernetes says."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from pliant.errors import BadRequest
from pliant.kube.resources import PODS
from tests.node.conftest import ONLY_PRIVATE
from tests.node.running import Pod, Running, eventually, is_running, running, state


@pytest.fixture
async def cluster(tmp_path: Path, network: str) -> AsyncIterator[Running]:
    async with running(tmp_path) as up:
        yield up


async def test_a_pod_that_ends_well_costs_three_writes(cluster: Running) -> None:
    phases = []

    def note(pod: Pod) -> bool:
        phases.append(pod["status"]["phase"])
        return bool(phases[-1] == "Succeeded")

    await cluster.sh("a", "echo hello")
    pod = await cluster.until("a", note)
    assert len(phases) <= 4, "created, bound, running and ended"
    assert state(pod)["terminated"]["reason"] == "Completed"
    assert {each["type"]: each["status"] for each in pod["status"]["conditions"]} == {
        "PodScheduled": "True",
        "Initialized": "True",
        "Ready": "False",
        "ContainersReady": "False",
    }
    assert await cluster.output("a") == "hello\n"


async def test_a_running_pod_is_ready_and_has_an_address(cluster: Running, network: str) -> None:
    await cluster.sh("a", "sleep 60")
    pod = await cluster.until("a", is_running)
    status = pod["status"]
    assert status["podIP"].startswith({"private": "10.88.", "host": "127."}[network])
    assert "startedAt" in state(pod)["running"]
    assert {"Ready": "True"}.items() <= {each["type"]: each["status"] for each in status["conditions"]}.items()


async def test_the_exit_code_of_a_failure_is_told(cluster: Running) -> None:
    await cluster.sh("a", "exit 42")
    pod = await cluster.finished("a")
    assert pod["status"]["phase"] == "Failed"
    assert state(pod)["terminated"]["exitCode"] == 42
    assert state(pod)["terminated"]["reason"] == "Error"


async def test_a_container_may_say_why_it_ends(cluster: Running) -> None:
    await cluster.sh("a", "echo no data > /dev/termination-log; exit 3")
    pod = await cluster.finished("a")
    assert state(pod)["terminated"]["message"] == "no data\n"


async def test_the_tail_of_the_log_may_say_why_it_ends(cluster: Running) -> None:
    for name, script in (("a", "echo out of luck; exit 3"), ("b", "echo fine")):
        policy = {"terminationMessagePolicy": "FallbackToLogsOnError"}
        await cluster.pod(name, [{"name": "main", "command": ["sh", "-ec", script], **policy}])
    assert state(await cluster.finished("a"))["terminated"]["message"] == "out of luck\n"
    assert "message" not in state(await cluster.finished("b"))["terminated"]


async def test_the_signal_of_a_failure_is_told(cluster: Running) -> None:
    await cluster.sh("a", "kill -9 $$$$")
    ended = state(await cluster.finished("a"))["terminated"]
    assert (ended["exitCode"], ended["signal"]) == (137, 9)


async def test_a_failed_container_restarts_at_once_and_then_backs_off(cluster: Running) -> None:
    await cluster.sh("a", "echo try; exit 1", restartPolicy="OnFailure")
    pod = await cluster.until("a", lambda pod: "waiting" in state(pod))
    told = pod["status"]["containerStatuses"][0]
    assert pod["status"]["phase"] == "Running"
    assert told["restartCount"] == 1
    assert told["state"]["waiting"]["reason"] == "CrashLoopBackOff"
    assert told["lastState"]["terminated"]["exitCode"] == 1
    assert await cluster.output("a", previous=True) == "try\n"
    assert [reason for reason, _ in await cluster.warnings("a")] == ["BackOff"]


async def test_a_container_that_recovers_ends_well(cluster: Running, tmp_path: Path) -> None:
    script = f"test -e {tmp_path}/once || {{ touch {tmp_path}/once; exit 1; }}"
    await cluster.sh("a", script, restartPolicy="OnFailure")
    pod = await cluster.finished("a")
    assert pod["status"]["phase"] == "Succeeded"
    assert pod["status"]["containerStatuses"][0]["restartCount"] == 1


async def test_a_container_without_a_command_is_explained(cluster: Running) -> None:
    await cluster.pod("a", [{"name": "trainer", "image": "pytorch/pytorch"}])
    pod = await cluster.until("a", lambda pod: "message" in state(pod).get("waiting", {}))
    assert state(pod)["waiting"]["reason"] == "CreateContainerError"
    assert pod["status"]["phase"] == "Pending"
    ((reason, message),) = await cluster.warnings("a")
    assert reason == "Failed"
    assert "spec.containers: set `command` of container 'trainer'; this cluster does not run images" in message
    await cluster.client.delete(PODS, "default", "a")
    await cluster.until_gone("a")


async def test_a_command_that_does_not_exist_is_named(cluster: Running) -> None:
    await cluster.pod("a", [{"name": "main", "command": ["pythn", "train.py"]}])
    pod = await cluster.finished("a")
    ended = state(pod)["terminated"]
    assert (ended["exitCode"], ended["reason"]) == (128, "StartError")
    assert 'exec: "pythn": executable file not found in $PATH' in ended["message"]


async def test_a_deleted_pod_may_say_goodbye(cluster: Running, tmp_path: Path) -> None:
    await cluster.sh("a", f"trap 'echo bye > {tmp_path}/bye; exit 0' TERM; echo up; sleep 60 & wait")
    await cluster.until_said("a", "up")
    await cluster.client.delete(PODS, "default", "a")
    await cluster.until_gone("a", within=4)
    assert (tmp_path / "bye").read_text() == "bye\n"
    kept = tmp_path / "cluster" / "pods"
    await eventually(lambda: not list(kept.iterdir()), what="its files are gone")


async def test_a_deleted_pod_that_stays_is_killed_after_its_grace_period(cluster: Running) -> None:
    await cluster.sh("a", "trap '' TERM; echo up; sleep 60; sleep 60", terminationGracePeriodSeconds=1)
    await cluster.until_said("a", "up")
    await cluster.client.delete(PODS, "default", "a")
    await cluster.until_gone("a", within=4)


async def test_a_pod_deleted_by_force_is_gone_at_once(cluster: Running, tmp_path: Path) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    await cluster.sh("a", f"trap '' TERM; exec 3<>{fifo}; echo up; sleep 60")
    await cluster.until_said("a", "up")
    assert _is_held_open(fifo)
    await cluster.client.delete(PODS, "default", "a", grace_period_seconds=0)
    await cluster.until_gone("a")
    await eventually(lambda: not _is_held_open(fifo), what="its processes are gone")
    assert await cluster.ran("a", "echo again") == "again"


async def test_a_pod_that_is_deleted_again_and_again_never_wedges(cluster: Running) -> None:
    for _ in range(5):
        await cluster.sh("a", "sleep 60")
        await cluster.client.delete(PODS, "default", "a")
        await cluster.until_gone("a")


async def test_init_containers_run_one_after_the_other(cluster: Running) -> None:
    share = {"volumeMounts": [{"name": "share", "mountPath": "/share"}]}
    inits = [
        {"name": f"init-{n}", "image": "none", "command": ["sh", "-c", f"echo {n} >> /share/order"], **share}
        for n in (1, 2)
    ]
    main = {"name": "main", "command": ["cat", "/share/order"], **share}
    await cluster.pod("a", [main], initContainers=inits, volumes=[{"name": "share", "emptyDir": {}}])
    pod = await cluster.finished("a")
    assert await cluster.output("a") == "1\n2\n"
    assert [each["ready"] for each in pod["status"]["initContainerStatuses"]] == [True, True]


async def test_an_init_container_that_fails_fails_the_pod(cluster: Running) -> None:
    inits = [{"name": "init", "image": "none", "command": ["false"]}]
    await cluster.sh("a", "echo never", initContainers=inits)
    pod = await cluster.finished("a")
    assert pod["status"]["phase"] == "Failed"
    with pytest.raises(BadRequest, match="waiting to start"):
        await cluster.output("a")


@ONLY_PRIVATE
async def test_containers_of_a_pod_share_its_network(cluster: Running) -> None:
    serve = "import socket; c = socket.create_server(('127.0.0.1', 9)).accept()[0]; c.send(b'hello')"
    ask = (
        "import socket, time\nfor _ in range(100):"
        "\n try: print(socket.create_connection(('localhost', 9)).recv(9))"
        "\n except OSError: time.sleep(0.05); continue\n break"
    )
    containers = [
        {"name": "server", "command": ["python3", "-c", serve]},
        {"name": "client", "command": ["python3", "-c", ask]},
    ]
    await cluster.pod("a", containers)
    await cluster.finished("a")
    assert await cluster.output("a", container="client") == "b'hello'\n"


async def test_a_pod_has_no_more_time_than_its_deadline(cluster: Running) -> None:
    await cluster.sh("a", "sleep 60", activeDeadlineSeconds=1)
    pod = await cluster.finished("a")
    assert (pod["status"]["phase"], pod["status"]["reason"]) == ("Failed", "DeadlineExceeded")


async def test_pods_reach_the_api(cluster: Running) -> None:
    ask = (
        "import ssl, os, urllib.request; c = ssl._create_unverified_context(); "
        "u = 'https://%(KUBERNETES_SERVICE_HOST)s:%(KUBERNETES_SERVICE_PORT)s/healthz' % os.environ; "
        "print(urllib.request.urlopen(u, context=c).read().decode())"
    )
    assert await cluster.ran("a", f'python3 -c "{ask}"') == "ok"


@ONLY_PRIVATE
async def test_a_pod_finds_itself_by_its_host_name(cluster: Running) -> None:
    ask = "import socket; print(socket.gethostbyname(socket.gethostname()))"
    printed = await cluster.ran("a", f'hostname; python3 -c "{ask}"')
    assert printed == f"a\n{(await cluster.finished('a'))['status']['podIP']}"


async def test_an_unknown_name_fails_at_once(cluster: Running) -> None:
    async with asyncio.timeout(5):
        assert await cluster.ran("a", "getent hosts no-such-service || echo unknown") == "unknown"


def _is_held_open(fifo: Path) -> bool:
    """Whether any process can read from a pipe."""
    try:
        os.close(os.open(fifo, os.O_WRONLY | os.O_NONBLOCK))
    except OSError:
        return False
    return True
