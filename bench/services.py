"""Measures what the services of one large job cost the control plane: one for each pod, or one for all.

    python -m bench.services [--size 5000] [--rounds 3]

Each run has a new control plane with kube-controller-manager, the operator and a fake kubelet, and brings up one
PyTorchJob. The variants alternate. Nothing is asserted.
"""

from __future__ import annotations

import argparse
import asyncio
import re
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from bench.bringup import fail_on_exit, start_process
from bench.servers import TICKS_PER_SECOND, Server
from pliant.cli.cluster.apply import install_crds
from pliant.kube.client import KubeClient
from pliant.kube.client_config import create_transport
from pliant.kube.resources import Resource
from pliant.runtime.clock import SystemClock
from tests.controlplane.cluster import started as start_control_plane
from tests.scenarios.host import cpu_ticks, descendants

PYTORCHJOBS = Resource("kubeflow.org", "v1", "pytorchjobs", "PyTorchJob")
VARIANTS = {"one for each pod": "true", "one for all": "false"}
"""The values of the annotation pliant/service-per-replica."""
TIMEOUT = 600.0
NAME_RESOURCES = ("services", "endpoints", "endpointslices")
API_SERVER, CONTROLLERS, ETCD = "kube-apiserver", "kube-controller-manager", "etcd"


@dataclass(frozen=True)
class Run:
    seconds: float
    cpu: Mapping[str, float]
    """CPU seconds by program."""
    watched_bytes: float
    """The size of all watch events that the API server sent."""
    writes: Mapping[str, int]
    """The writes of services, endpoints and endpoint slices."""


def job_manifest(size: int, per_replica: str) -> dict[str, object]:
    container = {"name": "pytorch", "image": "trainer", "command": ["true"]}
    replicas = {"replicas": size, "template": {"spec": {"containers": [container]}}}
    return {
        "apiVersion": PYTORCHJOBS.api_version,
        "kind": PYTORCHJOBS.kind,
        "metadata": {"name": "large", "annotations": {"pliant/service-per-replica": per_replica}},
        "spec": {"pytorchReplicaSpecs": {"Worker": replicas}},
    }


async def measure(server: Server, size: int, per_replica: str, folder: Path) -> Run:
    """Bring up one job and wait until the control plane is idle again."""
    transport = create_transport(server.kubeconfig, None, SystemClock().now)
    client = KubeClient(transport)
    kubeconfig = str(server.kubeconfig)
    operator = (sys.executable, "-m", "pliant", "operator", "--kubeconfig", kubeconfig)
    kubelet = (sys.executable, "-m", "bench.fake_kubelet", kubeconfig)
    try:
        await install_crds(client)
        with (
            start_process(kubelet, folder / "kubelet.log") as first,
            start_process(operator, folder / "operator.log") as second,
        ):
            watchers = [
                asyncio.create_task(fail_on_exit(first, folder / "kubelet.log")),
                asyncio.create_task(fail_on_exit(second, folder / "operator.log")),
            ]
            await server.wait_idle()
            before, cpu_before = await read_metrics(client), cpu_by_program(server)
            started = time.perf_counter()
            await client.create(PYTORCHJOBS, "default", job_manifest(size, per_replica))
            await _wait_running(client, size)
            seconds = time.perf_counter() - started
            await server.wait_idle()
            after, cpu_after = await read_metrics(client), cpu_by_program(server)
            for watcher in watchers:
                watcher.cancel()
    finally:
        await transport.aclose()
    return Run(
        seconds,
        cpu={name: cpu_after[name] - cpu_before[name] for name in cpu_after},
        watched_bytes=after["bytes"] - before["bytes"],
        writes={name: round(after[name] - before[name]) for name in NAME_RESOURCES},
    )


async def _wait_running(client: KubeClient, size: int) -> None:
    async with asyncio.timeout(TIMEOUT):
        while True:
            status = (await client.get(PYTORCHJOBS, "default", "large")).get("status") or {}
            if ((status.get("replicaStatuses") or {}).get("Worker") or {}).get("active") == size and any(
                each["type"] == "Running" and each["status"] == "True" for each in status["conditions"]
            ):
                return
            await asyncio.sleep(0.5)


async def read_metrics(client: KubeClient) -> Counter[str]:
    """Return the bytes of all watch events, and the writes of services, endpoints and endpoint slices."""
    found: Counter[str] = Counter()
    for line in (await client.get_raw("/metrics")).decode().splitlines():
        value = line.rpartition(" ")[2]
        if line.startswith("apiserver_watch_events_sizes_sum{"):
            found["bytes"] += int(float(value))
        elif line.startswith("apiserver_request_total{"):
            labels = dict(re.findall(r'(\w+)="([^"]*)"', line))
            if labels["resource"] in NAME_RESOURCES and labels["verb"] not in ("GET", "LIST", "WATCH"):
                found[labels["resource"]] += int(float(value))
    return found


def cpu_by_program(server: Server) -> dict[str, float]:
    """Return the CPU seconds of the programs of the control plane."""
    seconds = dict.fromkeys((API_SERVER, CONTROLLERS, ETCD), 0.0)
    for process in descendants(server.process):
        program = Path(f"/proc/{process}/exe").resolve().name
        for name in seconds:
            if program.startswith(name):
                seconds[name] += cpu_ticks(process) / TICKS_PER_SECOND
    return seconds


def print_report(runs: Mapping[str, list[Run]]) -> None:
    columns = f"{'apiserver CPU s':>17}{'controllers CPU s':>19}{'etcd CPU s':>12}{'watched MB':>12}"
    print(f"{'services':<18}{'running after s':>16}{columns}   writes of services, endpoints, slices")
    for name, variant_runs in runs.items():
        cells = [
            f"{statistics.median(run.seconds for run in variant_runs):>16.1f}",
            *(
                f"{statistics.median(run.cpu[program] for run in variant_runs):>{width}.1f}"
                for program, width in ((API_SERVER, 17), (CONTROLLERS, 19), (ETCD, 12))
            ),
            f"{statistics.median(run.watched_bytes for run in variant_runs) / 1e6:>12.1f}",
        ]
        writes = ", ".join(
            str(round(statistics.median(run.writes[each] for run in variant_runs))) for each in NAME_RESOURCES
        )
        print(f"{name:<18}{''.join(cells)}   {writes}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", type=int, default=5000)
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    runs: dict[str, list[Run]] = {name: [] for name in VARIANTS}
    for number in range(args.rounds):
        for name in sorted(VARIANTS, reverse=bool(number % 2)):
            with start_control_plane() as plane, tempfile.TemporaryDirectory(prefix="pliant-bench-") as folder:
                server = Server(plane.kubeconfig, plane.processes.supervisor)
                run = asyncio.run(measure(server, args.size, VARIANTS[name], Path(folder)))
            runs[name].append(run)
            print(
                f"  {name:<18} {run.seconds:6.1f} s  {dict(run.cpu)}  {dict(run.writes)}", file=sys.stderr, flush=True
            )
    print_report(runs)


if __name__ == "__main__":
    main()
