"""A cluster that goes down and comes up again: jobs go on, end or stay ended, as their policies say."""

from __future__ import annotations

import os
import shlex
import signal
import uuid
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import aclosing, asynccontextmanager
from pathlib import Path

import pytest

from pliant.cli.local.state_dir import ClusterStateDir
from pliant.kube.client import KubeClient
from pliant.kube.client_config import create_transport
from pliant.runtime.clock import SystemClock
from tests.cli.ordinary_user import OrdinaryUser
from tests.node.running import eventually
from tests.scenarios.cluster import an_ordinary_user
from tests.scenarios.host import descendants, expect_gone
from tests.scenarios.jobs import FOREVER, group, job, per_attempt
from tests.scenarios.messages import text_of
from tests.scenarios.scene import Scene, a_scene


@pytest.fixture
def user() -> Iterator[OrdinaryUser]:
    with an_ordinary_user() as somebody:
        yield somebody
        somebody.run("down", "--purge")
        assert somebody.processes() == []


@asynccontextmanager
async def up(user: OrdinaryUser) -> AsyncIterator[KubeClient]:
    """The user's own cluster, and a client of it."""
    told = user.run("up")
    assert told.code == 0, told.err
    [path] = shlex.split(told.out.partition("=")[2])
    transport = create_transport(Path(path), None, SystemClock().now)
    async with aclosing(transport):
        yield KubeClient(transport)


def killed(user: OrdinaryUser) -> None:
    running = ClusterStateDir.for_cluster("default", {"XDG_DATA_HOME": f"{user.home}/.local/share"}).running_cluster()
    assert running is not None
    family = descendants(running.pid)
    os.kill(running.pid, signal.SIGKILL)
    expect_gone([running.pid, *family])


def stopped(user: OrdinaryUser) -> None:
    assert user.run("down").code == 0


def stopped_now(user: OrdinaryUser) -> None:
    assert user.run("down", "--now").code == 0


ONCE_MORE = per_attempt(FOREVER, "exit 0")
POLITE = per_attempt("trap 'exit 0' TERM; while :; do sleep 0.1; done", "echo once more")


@pytest.mark.parametrize("ended", [killed, stopped, stopped_now])
async def test_jobs_outlive_their_cluster_at_no_charge(
    user: OrdinaryUser, ended: Callable[[OrdinaryUser], None]
) -> None:
    namespace = f"scene-{uuid.uuid4().hex[:8]}"
    async with up(user) as client:
        scene = Scene(client, namespace)
        await scene.open()
        again = group(ONCE_MORE, 2, restartPolicy="Always", restartLimit=0)
        await scene.submit(job("again", {"worker": again}))
        await scene.submit(job("once", {"worker": group(ONCE_MORE)}))
        await scene.submit(job("polite", {"worker": group(POLITE)}, cleanPodPolicy="None"))
        await scene.submit(job("done", {"worker": group("echo trained")}, cleanPodPolicy="None"))
        for name in ("again", "once", "polite"):
            await scene.until_phase(name, "Running")
        await scene.until_phase("done", "Succeed")
        await scene.close()
        ended(user)
    assert user.processes() == []

    async with up(user) as client, a_scene(client, namespace) as scene:
        for name in ("again", "once", "polite"):
            status = await scene.until_phase(name, "Succeed")
            assert status["RestartCount"] == {"worker": 0}
            assert "rootCause" not in status
            disruptions = [entry for entry in scene.timeline(name) if entry.reason == "Disrupted"]
            causes = [cause for entry in disruptions for cause in entry.message.details]
            assert causes
            assert all("the cluster" in text_of(cause, "disruption") for cause in causes)
        assert await scene.log("polite-worker-0") == "once more\n"
        assert scene.phase("done") == "Succeed"
        assert await scene.log("done-worker-0") == "trained\n"


async def test_programs_have_their_grace_period_when_the_cluster_stops(user: OrdinaryUser) -> None:
    at = user.home
    saving = f"trap 'sleep 2; echo saved >> {at}/saved; exit 0' TERM; touch {at}/up; while :; do sleep 0.1; done"
    patient = group(saving)
    patient["template"]["spec"]["terminationGracePeriodSeconds"] = 20
    async with up(user) as client:
        scene = Scene(client, f"scene-{uuid.uuid4().hex[:8]}")
        await scene.open()
        await scene.submit(job("t", {"worker": patient}))
        await scene.until_phase("t", "Running")
        await eventually((user.home / "up").exists, what="the program runs")
        await scene.close()
        ended = user.run("down")
    assert "waiting for 1 pod to terminate: t-worker-0 (grace period 20s" in ended.err
    assert (user.home / "saved").read_text() == "saved\n"
