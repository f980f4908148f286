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


@pytest.mark.parametrize("ended", [killed, stopped])
async def test_jobs_outlive_their_cluster(user: OrdinaryUser, ended: Callable[[OrdinaryUser], None]) -> None:
    namespace = f"scene-{uuid.uuid4().hex[:8]}"
    async with up(user) as client:
        scene = Scene(client, namespace)
        await scene.open()
        again = group(per_attempt(FOREVER, "exit 0"), 2, restartPolicy="Always", restartLimit=3)
        await scene.submit(job("again", {"worker": again}))
        await scene.submit(job("once", {"worker": group(FOREVER)}))
        await scene.submit(job("done", {"worker": group("echo trained")}, cleanPodPolicy="None"))
        for name in ("again", "once"):
            await scene.until_phase(name, "Running")
        await scene.until_phase("done", "Succeed")
        await scene.close()
        ended(user)
    assert user.processes() == []

    async with up(user) as client, a_scene(client, namespace) as scene:
        await scene.until_phase("again", "Succeed")
        assert scene.status("again")["RestartCount"] == {"worker": 1}
        await scene.until_phase("once", "Failed")
        [cause] = scene.message("once").details
        assert "the cluster stopped while" in text_of(cause)
        assert scene.phase("done") == "Succeed"
        assert await scene.log("done-worker-0") == "trained\n"
