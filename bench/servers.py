"""Starts API servers to measure on, a new one for each run, and reads their metrics."""

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
from tests.controlplane.cluster import started as start_control_plane
from tests.controlplane.programs import find_programs
from tests.scenarios.host import cpu_ticks, descendants

TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
IDLE_CPU_SECONDS = 0.02
"""The CPU time that an idle server may use within one polling interval."""
POLL_INTERVAL = 0.5
IDLE_TIMEOUT = 30.0
COUNTED_RESOURCES = ("aitrainingjobs", "pods", "services", "events")

RequestCounts = Counter[str]
"""The number of requests by verb and resource: `POST pods`, `PATCH aitrainingjobs/status`."""


@dataclass(frozen=True)
class Server:
    """A running API server."""

    kubeconfig: Path
    process: int
    """The process id of the parent of all its processes."""

    async def wait_idle(self) -> None:
        """Wait until the server is idle, or until the timeout."""
        deadline = time.monotonic() + IDLE_TIMEOUT
        while time.monotonic() < deadline:
            before = self.cpu_seconds()
            await asyncio.sleep(POLL_INTERVAL)
            if self.cpu_seconds() - before <= IDLE_CPU_SECONDS:
                return

    def cpu_seconds(self) -> float:
        """Return the CPU time that all processes of the server have used."""
        return sum(cpu_ticks(process) for process in (self.process, *descendants(self.process))) / TICKS_PER_SECOND


@contextmanager
def start_real_server() -> Iterator[Server]:
    """Start a kube-apiserver with an etcd that syncs to disk, without controllers."""
    # Controllers create service accounts, and no controllers run.
    flags = ["--disable-admission-plugins=ServiceAccount"]
    with start_control_plane(controllers=False, durable=True, flags=flags) as plane:
        yield Server(plane.kubeconfig, plane.processes.supervisor)


@contextmanager
def start_embedded_server() -> Iterator[Server]:
    """Start the cluster of `pliant up` without its operator."""
    with tempfile.TemporaryDirectory(prefix="pliant-bench-") as home:
        command = [sys.executable, "-m", "pliant", "up", "--foreground", "--no-operator"]
        environment = {**os.environ, "PLIANT_HOME": home}
        with subprocess.Popen(
            command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        ) as process:
            try:
                assert process.stdout is not None
                output = process.stdout.readline().strip()
                yield Server(Path(*shlex.split(output.partition("=")[2])), process.pid)
            finally:
                process.send_signal(signal.SIGTERM)


def describe_server(*, embedded: bool) -> str:
    """Return the name and the version of the server."""
    if embedded:
        return f"embedded server of Pliant {__version__}"
    versions = (
        subprocess.run([path, "--version"], capture_output=True, text=True, check=True).stdout.split("\n")[0]
        for path in find_programs(["kube-apiserver", "etcd"]).values()
    )
    return " and ".join(versions)


async def count_requests(client: KubeClient) -> RequestCounts:
    """Count the requests of all clients so far; the embedded server has no such metric."""
    counts: RequestCounts = Counter()
    try:
        text = (await client.get_raw("/metrics")).decode()
    except ApiError:
        return counts
    for line in text.splitlines():
        if line.startswith("apiserver_request_total{"):
            labels = dict(re.findall(r'(\w+)="([^"]*)"', line))
            if labels["resource"] in COUNTED_RESOURCES:
                resource = "/".join(filter(None, (labels["resource"], labels["subresource"])))
                counts[f"{labels['verb']} {resource}"] += int(float(line.rpartition(" ")[2]))
    return counts
