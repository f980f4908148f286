"""Measures the embedded cluster while its pods are idle: CPU time, wake-ups and private memory."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import aclosing, contextmanager
from pathlib import Path

from pliant.kube.client import KubeClient
from pliant.kube.client_config import create_transport
from pliant.kube.resources import PODS, Resource
from pliant.runtime.clock import SystemClock
from tests.scenarios.host import descendants, wake_ups

POD_COUNT = 50
MEASURED_SECONDS = 30
SETTLE_SECONDS = 3.0
JOBS = Resource("elasticdeeplearning.ai", "v1", "aitrainingjobs", "AITrainingJob")
SHIMS = "shims and spare shims"


def measure_idle(_: int) -> None:
    """Measure and print the cost of one job whose pods sleep."""
    with _start_cluster() as (parent, kubeconfig):
        asyncio.run(_run_idle_job(kubeconfig))
        processes = _list_processes(parent)
        before = {name: (_cpu_seconds(group), _count_wake_ups(group)) for name, group in processes.items()}
        started = time.monotonic()
        time.sleep(MEASURED_SECONDS)
        minutes = (time.monotonic() - started) / 60
        print(f"one job of {POD_COUNT} pods that printed a line and sleep, measured for {MEASURED_SECONDS} s\n")
        for name, group in processes.items():
            cpu_before, wake_ups_before = before[name]
            cpu = (_cpu_seconds(group) - cpu_before) / minutes
            woken = (_count_wake_ups(group) - wake_ups_before) / minutes
            print(f"  {name:<26} {cpu * 1000:8.1f} ms of CPU and {woken:5.0f} wake-ups per minute")
        memory = sum(private_memory(process) for process in processes[SHIMS]) / POD_COUNT
        print(f"  private memory per pod     {memory:8.0f} KB")


def private_memory(process: int) -> int:
    """Return the private memory of a process in KiB."""
    lines = Path(f"/proc/{process}/smaps_rollup").read_text().splitlines()
    return sum(int(line.split()[1]) for line in lines if line.startswith(("Private_Dirty:", "Private_Clean:")))


@contextmanager
def _start_cluster() -> Iterator[tuple[int, Path]]:
    """Run `pliant up`; yield its process id and the path of its kubeconfig."""
    with tempfile.TemporaryDirectory(prefix="pliant-bench-") as home:
        command = [sys.executable, "-m", "pliant", "up", "--foreground"]
        with subprocess.Popen(
            command,
            env={**os.environ, "PLIANT_HOME": home},
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        ) as parent:
            try:
                assert parent.stdout is not None
                parent.stdout.readline()
                yield parent.pid, next(Path(home).rglob("kubeconfig"))
            finally:
                parent.send_signal(signal.SIGTERM)


async def _run_idle_job(kubeconfig: Path) -> None:
    """Create a job, and wait until all pods run and the cluster has settled."""
    async with aclosing(create_transport(kubeconfig, None, SystemClock().now)) as transport:
        client = KubeClient(transport)
        await client.create(JOBS, "default", _job_manifest())
        async with asyncio.timeout(60):
            while True:
                pods = (await client.list(PODS, "default")).items
                if sum(pod["status"].get("phase") == "Running" for pod in pods) == POD_COUNT:
                    break
                await asyncio.sleep(0.5)
    await asyncio.sleep(SETTLE_SECONDS)


def _job_manifest() -> dict[str, object]:
    container = {"name": "main", "image": "none", "command": ["sh", "-c", "echo ready; exec sleep 600"]}
    worker = {"replicas": POD_COUNT, "template": {"spec": {"containers": [container]}}}
    return {
        "apiVersion": JOBS.api_version,
        "kind": JOBS.kind,
        "metadata": {"name": "idle"},
        "spec": {"replicaSpecs": {"worker": worker}},
    }


def _list_processes(parent: int) -> dict[str, list[int]]:
    """Return the processes of Pliant; the containers, one below each shim, are left out."""
    outer, inner = find_agent_processes(parent)
    return {
        "server and operator": [parent],
        "agent": [outer, inner],
        SHIMS: [process for process in descendants(inner) if _parent(process) == inner],
    }


def find_agent_processes(parent: int) -> list[int]:
    """Return both processes of the node agent: the one outside of its namespaces, and the one inside."""
    candidates = descendants(parent)
    outer = next(
        process for process in candidates if b"pliant.embedded.agent" in Path(f"/proc/{process}/cmdline").read_bytes()
    )
    return [outer, next(process for process in candidates if _parent(process) == outer)]


def _parent(process: int) -> int:
    return int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])


def _cpu_seconds(processes: list[int]) -> float:
    """Return the CPU time of all threads so far, as counted by the scheduler and not by ticks."""
    threads = [task for process in processes for task in Path(f"/proc/{process}/task").iterdir()]
    return sum(int((task / "schedstat").read_text().split()[0]) for task in threads) / 1e9


def _count_wake_ups(processes: list[int]) -> int:
    return sum(wake_ups(process) for process in processes)
