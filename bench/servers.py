"""API servers to measure on, a fresh one each time, and what they count."""

from __future__ import annotations

import asyncio
import os
import re
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from pliant import __version__
from pliant.errors import ApiError
from pliant.kube.client import KubeClient
from tests.controlplane.cluster import started
from tests.controlplane.programs import find_programs
from tests.scenarios.host import cpu_ticks, descendants

TICKS = os.sysconf("SC_CLK_TCK")
CALM = 0.02
"""Seconds of processor time that a server at rest may use within a pulse."""
PULSE = 0.5
LONGEST_UNREST = 30.0
COUNTED = ("aitrainingjobs", "pods", "services", "events")

Calls = Counter[str]
"""How often each verb was called on each resource: `POST pods`, `PATCH aitrainingjobs/status`."""


@dataclass(frozen=True)
class Server:
    """One that is up."""

    kubeconfig: Path
    process: int
    """The parent of all its processes."""

    async def settle(self) -> None:
        """Wait until the server has nothing left to do, in the background or for anybody."""
        limit = time.monotonic() + LONGEST_UNREST
        while time.monotonic() < limit:
            before = self.cpu()
            await asyncio.sleep(PULSE)
            if self.cpu() - before <= CALM:
                return

    def cpu(self) -> float:
        """Seconds of processor time it has used so far."""
        return sum(cpu_ticks(process) for process in (self.process, *descendants(self.process))) / TICKS


@contextmanager
def real() -> Iterator[Server]:
    """A kube-apiserver with an etcd that keeps its promises, and nobody else at work."""
    # Service accounts are made by controllers, of which there are none.
    flags = ["--disable-admission-plugins=ServiceAccount"]
    with started(controllers=False, durable=True, flags=flags) as plane:
        yield Server(plane.kubeconfig, plane.processes.supervisor)


@contextmanager
def embedded() -> Iterator[Server]:
    """The cluster of `pliant up`, without its operator."""
    with tempfile.TemporaryDirectory(prefix="pliant-bench-") as home:
        command = [sys.executable, "-m", "pliant", "up", "--foreground", "--no-operator"]
        environment = {**os.environ, "PLIANT_HOME": home}
        with subprocess.Popen(
            command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        ) as process:
            try:
                assert process.stdout is not None
                said = process.stdout.readline().strip()
                yield Server(Path(*shlex.split(said.partition("=")[2])), process.pid)
            finally:
                process.send_signal(signal.SIGTERM)


def version(*, embedded: bool) -> str:
    """Which server that is, in words."""
    if embedded:
        return f"the embedded server of Pliant {__version__}"
    told = (
        subprocess.run([path, "--version"], capture_output=True, text=True, check=True).stdout.split("\n")[0]
        for path in find_programs(["kube-apiserver", "etcd"]).values()
    )
    return " and ".join(told)


async def calls(client: KubeClient) -> Calls:
    """What the server has been asked for so far, by anybody; the embedded one does not count."""
    counted: Calls = Counter()
    try:
        text = (await client.get_raw("/metrics")).decode()
    except ApiError:
        return counted
    for line in text.splitlines():
        if line.startswith("apiserver_request_total{"):
            labels = dict(re.findall(r'(\w+)="([^"]*)"', line))
            if labels["resource"] in COUNTED:
                resource = "/".join(filter(None, (labels["resource"], labels["subresource"])))
                counted[f"{labels['verb']} {resource}"] += int(float(line.rpartition(" ")[2]))
    return counted
