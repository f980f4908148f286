"""Measures what a write costs the embedded API server and kube-apiserver with etcd, and how watches stall the former.

    python -m bench.api_cost [writes watchers] [--pods 5000] [--rounds 3] [--watchers 50]

`writes` does the same work on both servers, in turns: it creates pods, writes their statuses, changes their labels and
deletes half of them, over HTTPS. Both servers sync every write to disk. `watchers` keeps 10,000 pods and opens watches
on all of them, from the beginning and while they change. Nothing is asserted.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import sys
from collections.abc import Awaitable, Callable, Iterable
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.fake_kubelet import RUNNING_STATUS
from bench.servers import Server, describe_server, start_embedded_server, start_real_server
from bench.watch_load import measure_watch_load
from pliant.kube.client import KubeClient
from pliant.kube.client_config import create_transport
from pliant.kube.resources import PODS
from pliant.runtime.clock import SystemClock
from tests.scenarios.host import descendants

CONCURRENCY = 32
WARM_UP_PODS = 50
EMBEDDED, REAL = "embedded", "kube-apiserver + etcd"
SERVERS: dict[str, Callable[[], AbstractContextManager[Server]]] = {
    EMBEDDED: start_embedded_server,
    REAL: start_real_server,
}


@dataclass(frozen=True)
class Cost:
    """What the work cost a server."""

    milliseconds_per_write: float
    """CPU time of all processes of the server."""
    idle_mebibytes: float
    loaded_mebibytes: float
    """With all pods; proportional set size of all processes."""


def pod_manifest(name: str) -> dict[str, Any]:
    """Return a pod of about 4 KB as a training operator creates it; no scheduler is responsible for it."""
    environment = [
        {"name": f"TRAINING_VARIABLE_{number}", "value": f"worker-{number}.job:2222"} for number in range(20)
    ]
    container = {
        "name": "aitj-main",
        "image": "trainer",
        "command": ["python3", "train.py"],
        "env": environment,
        "ports": [{"name": "aitj-2222", "containerPort": 2222}],
        "resources": {"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"cpu": "2", "memory": "2Gi"}},
        "volumeMounts": [{"name": "data", "mountPath": "/data"}],
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {"job": name.rpartition("-")[0], "replica": "worker"}},
        "spec": {
            "schedulerName": "none",
            "automountServiceAccountToken": False,
            "restartPolicy": "Never",
            "containers": [container],
            "volumes": [{"name": "data", "emptyDir": {}}],
        },
    }


async def run_for_each(names: Iterable[str], call: Callable[[str], Awaitable[object]]) -> None:
    """Call a function for every name, with a bounded number of calls at a time."""
    remaining = iter(names)

    async def work() -> None:
        for name in remaining:
            await call(name)

    async with asyncio.TaskGroup() as tasks:
        for _ in range(CONCURRENCY):
            tasks.create_task(work())


def proportional_mebibytes(server: Server) -> float:
    """Return the memory of all processes of a server; memory that processes share is counted once."""
    total = 0
    for process in (server.process, *descendants(server.process)):
        with suppress(OSError):
            for line in Path(f"/proc/{process}/smaps_rollup").read_text().splitlines():
                if line.startswith("Pss:"):
                    total += int(line.split()[1])
    return total / 1024


async def measure_cost(server: Server, pod_count: int) -> Cost:
    """Write pods, and return what it cost the server."""
    transport = create_transport(server.kubeconfig, None, SystemClock().now)
    client = KubeClient(transport)

    async def create(name: str) -> None:
        await client.create(PODS, "default", pod_manifest(name))

    async def write_status(name: str) -> None:
        await client.patch(PODS, "default", name, {"status": RUNNING_STATUS}, subresource="status")

    async def label(name: str) -> None:
        await client.patch(PODS, "default", name, {"metadata": {"labels": {"changed": "yes"}}})

    async def delete(name: str) -> None:
        await client.delete(PODS, "default", name, grace_period_seconds=0)

    try:
        warm_up = [f"warm-{number}" for number in range(WARM_UP_PODS)]
        for call in (create, write_status, label, delete):
            await run_for_each(warm_up, call)
        await server.wait_idle()
        idle, cpu_before = proportional_mebibytes(server), server.cpu_seconds()
        names = [f"bert-{number // 4}-{number}" for number in range(pod_count)]
        for call in (create, write_status, label):
            await run_for_each(names, call)
        loaded = proportional_mebibytes(server)
        await run_for_each(names[::2], delete)
        await server.wait_idle()
        writes = 3 * len(names) + len(names[::2])
        return Cost((server.cpu_seconds() - cpu_before) * 1000 / writes, idle, loaded)
    finally:
        await transport.aclose()


def measure_writes(args: argparse.Namespace) -> None:
    """Measure both servers in turns, and print a table."""
    costs: dict[str, list[Cost]] = {name: [] for name in SERVERS}
    for _ in range(args.rounds):
        for name, start in SERVERS.items():
            with start() as server:
                costs[name].append(asyncio.run(measure_cost(server, args.pods)))
    print(f"{args.pods} pods: create, status, label, delete half; {describe_server(embedded=False)}")
    print(f"median of {args.rounds} rounds (minimum to maximum)\n")
    print(f"{'':<24}{'CPU ms per write':<28}{'MiB, idle':<14}MiB, all pods")
    for name, rounds in costs.items():
        per_write = [cost.milliseconds_per_write for cost in rounds]
        time_text = f"{statistics.median(per_write):.2f} ({min(per_write):.2f} to {max(per_write):.2f})"
        idle = statistics.median(cost.idle_mebibytes for cost in rounds)
        loaded = [cost.loaded_mebibytes for cost in rounds]
        loaded_text = f"{statistics.median(loaded):.0f} ({min(loaded):.0f} to {max(loaded):.0f})"
        print(f"{name:<24}{time_text:<28}{idle:<14.0f}{loaded_text}")
    pairs = list(zip(costs[EMBEDDED], costs[REAL], strict=True))
    time_ratio = statistics.median(ours.milliseconds_per_write / real.milliseconds_per_write for ours, real in pairs)
    idle_ratio = statistics.median(ours.idle_mebibytes / real.idle_mebibytes for ours, real in pairs)
    loaded_ratio = statistics.median(ours.loaded_mebibytes / real.loaded_mebibytes for ours, real in pairs)
    print(f"{'ratio':<24}{time_ratio:<28.2f}{idle_ratio:<14.2f}{loaded_ratio:.2f}")


def measure_watchers(args: argparse.Namespace) -> None:
    """Measure the stalls of the event loop under watches, and print them."""
    asyncio.run(measure_watch_load(args.watchers, pod_manifest))


def main(arguments: list[str]) -> None:
    """Measure and print tables."""
    sections = {"writes": measure_writes, "watchers": measure_watchers}
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sections", nargs="*", metavar="SECTION", help="writes, watchers (default: both)")
    parser.add_argument("--pods", type=int, default=5000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--watchers", type=int, default=50)
    args = parser.parse_args(arguments)
    if unknown := set(args.sections) - set(sections):
        parser.error(f"unknown section {', '.join(sorted(unknown))}; known: {', '.join(sections)}")
    for name in args.sections or sections:
        sections[name](args)


if __name__ == "__main__":
    main(sys.argv[1:])
