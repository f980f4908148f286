"""What the laptop cluster costs while its pods do nothing: processor time, wake-ups and private memory."""

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

PODS_AT_REST = 50
SECONDS = 30
SETTLING = 3.0
JOBS = Resource("elasticdeeplearning.ai", "v1", "aitrainingjobs", "AITrainingJob")
WATCHERS = "first processes, and spares"


def idle(_: int) -> None:
    """Measure one job of many members that sleep."""
    with _cluster() as (parent, kubeconfig):
        asyncio.run(_rest(kubeconfig))
        ours = _processes(parent)
        before = {name: (_spent(each), _woken(each)) for name, each in ours.items()}
        began = time.monotonic()
        time.sleep(SECONDS)
        minutes = (time.monotonic() - began) / 60
        print(f"a job of {PODS_AT_REST} pods that wrote a line and sleep, seen for {SECONDS} s\n")
        for name, each in ours.items():
            spent, woken = before[name]
            used, woke = (_spent(each) - spent) / minutes, (_woken(each) - woken) / minutes
            print(f"  {name:<26} {used * 1000:8.1f} ms of processor a minute, woken {woke:5.0f} times")
        held = sum(private(each) for each in ours[WATCHERS]) / PODS_AT_REST
        print(f"  private memory per pod     {held:8.0f} KB")


def private(process: int) -> int:
    """Kilobytes that only this process holds."""
    lines = Path(f"/proc/{process}/smaps_rollup").read_text().splitlines()
    return sum(int(line.split()[1]) for line in lines if line.startswith(("Private_Dirty:", "Private_Clean:")))


@contextmanager
def _cluster() -> Iterator[tuple[int, Path]]:
    """What `pliant up` starts: its process and the key to it."""
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


async def _rest(kubeconfig: Path) -> None:
    """Have a job run, and wait until nobody does anything about it any more."""
    async with aclosing(create_transport(kubeconfig, None, SystemClock().now)) as transport:
        client = KubeClient(transport)
        await client.create(JOBS, "default", _job())
        async with asyncio.timeout(60):
            while True:
                pods = (await client.list(PODS, "default")).items
                if sum(pod["status"].get("phase") == "Running" for pod in pods) == PODS_AT_REST:
                    break
                await asyncio.sleep(0.5)
    await asyncio.sleep(SETTLING)


def _job() -> dict[str, object]:
    container = {"name": "main", "image": "none", "command": ["sh", "-c", "echo ready; exec sleep 600"]}
    worker = {"replicas": PODS_AT_REST, "template": {"spec": {"containers": [container]}}}
    return {
        "apiVersion": JOBS.api_version,
        "kind": JOBS.kind,
        "metadata": {"name": "idle"},
        "spec": {"replicaSpecs": {"worker": worker}},
    }


def _processes(parent: int) -> dict[str, list[int]]:
    """Our own processes: those of the users, one below each watcher, are left out."""
    outer, inner = agent_processes(parent)
    return {
        "server and operator": [parent],
        "agent": [outer, inner],
        WATCHERS: [each for each in descendants(inner) if _parent(each) == inner],
    }


def agent_processes(parent: int) -> list[int]:
    """The node agent of a cluster: the one that waits outside of its namespaces, and the one inside."""
    below = descendants(parent)
    outer = next(each for each in below if b"pliant.embedded.agent" in Path(f"/proc/{each}/cmdline").read_bytes())
    return [outer, next(each for each in below if _parent(each) == outer)]


def _parent(process: int) -> int:
    return int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])


def _spent(processes: list[int]) -> float:
    """Seconds of processor time so far, of every thread, counted by the scheduler and not by ticks."""
    threads = [task for each in processes for task in Path(f"/proc/{each}/task").iterdir()]
    return sum(int((task / "schedstat").read_text().split()[0]) for task in threads) / 1e9


def _woken(processes: list[int]) -> int:
    return sum(wake_ups(each) for each in processes)
