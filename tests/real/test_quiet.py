"""What an operator asks of a real API server, in that server's own books: little, and then nothing."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from pliant.cli.cluster.apply import install_crds
from pliant.kube.cache.informer import Informer
from pliant.kube.client import KubeClient
from pliant.kube.client_config import create_transport
from pliant.kube.resources import PODS
from pliant.runtime.clock import SystemClock
from tests.controlplane.cluster import ADMINISTRATORS, API_SERVER, ETCD, ControlPlane, started
from tests.controlplane.fixtures import require
from tests.scenarios.jobs import FOREVER, group, job
from tests.scenarios.scene import JOBS, Scene

pytestmark = pytest.mark.real

OPERATOR = "quiet-operator"
POLICY = f"""\
apiVersion: audit.k8s.io/v1
kind: Policy
rules:
  - level: Metadata
    users: [{OPERATOR}]
  - level: None
"""
SETTLED = 2.0
"""Seconds after which a job that has come up has nothing more to tell."""
RUNNING = {"running": {"startedAt": "2030-01-01T00:00:00Z"}}
DONE = {"terminated": {"exitCode": 0, "reason": "Completed"}}


class Books:
    """The audit log: every request of the operator, written down by the server before it is answered."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._read = 0

    def new(self) -> Counter[str]:
        """What was asked for since the last look: `create pods`, `patch aitrainingjobs/status`."""
        whole, _, _ = self._path.read_text().rpartition("\n")  # the last line may be half written
        lines = whole.splitlines()
        entries = [json.loads(line) for line in lines[self._read :]]
        self._read = len(lines)
        return Counter(_request(entry) for entry in entries if entry["stage"] == "RequestReceived")


def _request(entry: dict[str, Any]) -> str:
    about = entry.get("objectRef", {})
    resource = "/".join(filter(None, (about.get("resource"), about.get("subresource"))))
    return f"{entry['verb']} {resource or entry['requestURI']}"


@pytest.fixture
def plane(tmp_path: Path) -> Iterator[ControlPlane]:
    """A server that keeps books, of which nobody but this test and its operator asks anything."""
    require(ETCD, API_SERVER)
    policy = tmp_path / "policy.yaml"
    policy.write_text(POLICY)
    audit = (f"--audit-policy-file={policy}", "--audit-log-path=audit.log")
    # Service accounts are made by controllers, of which there are none.
    with started(controllers=False, flags=(*audit, "--disable-admission-plugins=ServiceAccount")) as up:
        yield up


@pytest.fixture
async def scene(plane: ControlPlane) -> AsyncIterator[Scene]:
    """The one namespace, on a server that knows our kinds."""
    transport = create_transport(plane.kubeconfig, None, SystemClock().now)
    client = KubeClient(transport)
    await install_crds(client)
    scene = Scene(client, "default")
    try:
        await _served(client)
        await scene.open()
        yield scene
    finally:
        await scene.close()
        await transport.aclose()


@pytest.fixture
def operator(plane: ControlPlane, scene: Scene, tmp_path: Path) -> Iterator[None]:
    """An operator at work, some time later."""
    kubeconfig = plane.kubeconfig_for(OPERATOR, ADMINISTRATORS)
    log = tmp_path / "operator.log"
    command = [sys.executable, "-m", "pliant", "operator", "--kubeconfig", str(kubeconfig)]
    with log.open("w") as output, subprocess.Popen(command, stdout=output, stderr=output) as process:
        try:
            yield
        finally:
            process.kill()
    assert "Traceback" not in log.read_text(), log.read_text()


async def _served(client: KubeClient) -> None:
    """Return once the server answers for our kinds, which is a moment after it has learnt of them."""
    informer = Informer(client, JOBS, dict)
    async with asyncio.timeout(30), asyncio.TaskGroup() as tasks:
        following = tasks.create_task(informer.run())
        await informer.wait_synced()
        following.cancel()


async def _come(scene: Scene, name: str, phase: str, state: dict[str, Any]) -> None:
    """Let every pod of a job come to a state, as a kubelet would tell it."""
    for pod in [pod for pod in scene.pods if pod.startswith(name)]:
        container = {"name": "aitj-main", "image": "", "imageID": "", "ready": False, "restartCount": 0}
        status = {"phase": phase, "containerStatuses": [{**container, "state": state}]}
        await scene.client.patch(PODS, scene.namespace, pod, {"status": status}, subresource="status")


@pytest.mark.usefixtures("operator")
@pytest.mark.parametrize("window", [5.0, pytest.param(60.0, marks=pytest.mark.deep)])
async def test_a_job_costs_its_members_and_two_tellings_and_then_nothing(
    scene: Scene, plane: ControlPlane, window: float
) -> None:
    await scene.submit(job("ended", {"worker": group("exit 0")}, cleanPodPolicy="None"))
    await scene.submit(job("unclear", {"worker": group("exit 0")}, restartingExitCode="x"))
    await scene.until(lambda: len(scene.pods) == 1, "the first member")
    await _come(scene, "ended", "Succeeded", DONE)
    await scene.until_phase("ended", "Succeed")
    await scene.until(lambda: "InvalidSpec" in scene.events("unclear"), "an unclear job told so")
    books = Books(plane.folder / "audit.log")
    async with asyncio.timeout(60):  # an operator may still look for kinds that were installed a moment ago
        while books.new():  # noqa: ASYNC110 - the log is a file
            await asyncio.sleep(SETTLED)

    await scene.submit(job("runs", {"worker": group(FOREVER, 4)}))
    await scene.until(lambda: len(scene.pods) == 5, "all members")
    await _come(scene, "runs", "Running", RUNNING)
    await scene.until(lambda: scene.status("runs").get("ready") == "4/4", "a running job told as such")
    await asyncio.sleep(SETTLED)
    asked = books.new()
    told = asked.pop("patch aitrainingjobs/status")
    del asked["create events"]
    assert asked == {"create pods": 4, "create services": 4}
    assert told <= 2

    await asyncio.sleep(window)
    assert not books.new()

    await scene.delete_pod("runs-worker-3")
    await scene.until(lambda: len(scene.made("runs-worker-3")) == 2, "the deleted pod again")
    assert books.new()["create pods"] == 1
