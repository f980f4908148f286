"""Measures how long small jobs wait for their first pod and first status, alone and beside a large job.

    python -m bench.fairness [--size 10000] [--small 50] [--rounds 3] [--embedded] [--old FOLDER]

Each round has a new server and measures one-pod jobs alone, then beside a job of `--size` pods, in another namespace
and in the same one, one at a time and `--small` at once; then the time of the large job without neighbours on another
new server. With `--old`, a working tree of an earlier version, every other round runs the operator of that tree.

The server is a kube-apiserver with `pliant operator` beside it, or with `--embedded` one process of `pliant up`, which
contains both. A fake kubelet marks pods as Running. Nothing is asserted.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import shlex
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench.bringup import ROOT, start_process
from bench.fake_kubelet import ObjectWithPhase
from bench.servers import describe_server, start_real_server
from bench.write_recorder import JOBS, job_manifest
from pliant.cli.cluster.apply import install_crds
from pliant.kube.cache.informer import Informer
from pliant.kube.client import KubeClient
from pliant.kube.client_config import create_transport
from pliant.kube.resources import NAMESPACES, PODS
from pliant.model.labels import JOB_NAME_LABEL
from pliant.runtime.clock import SystemClock

LARGE_NAMESPACE, SMALL_NAMESPACE = "team-a", "team-b"
PROBES = 10
"""One-pod jobs that are measured one at a time."""
SETTLED_PODS = 0.05
"""The fraction of the large job's pods that exist before its neighbours are submitted."""
TIMEOUT = 900.0


@dataclass
class Samples:
    """Seconds from the submission of small jobs to their first pod and their first status."""

    first_pod: list[float] = field(default_factory=list)
    first_status: list[float] = field(default_factory=list)


@dataclass
class Round:
    alone: Samples = field(default_factory=Samples)
    other_namespace: Samples = field(default_factory=Samples)
    same_namespace: Samples = field(default_factory=Samples)
    many_alone: Samples = field(default_factory=Samples)
    many_beside: Samples = field(default_factory=Samples)
    large_pods_before: int = 0
    """Pods of the large job that existed when the last neighbour was measured."""
    large_seconds: float = 0.0
    """Seconds until the large job, without neighbours, had all its pods."""


def manifest(name: str, size: int) -> dict[str, Any]:
    job = job_manifest(name)
    job["spec"]["replicaSpecs"]["worker"]["replicas"] = size
    return job


class Observer:
    """Submits jobs, and records when their first pod and their first status are there."""

    def __init__(self, client: KubeClient) -> None:
        self._client = client
        self.large_pods = 0
        self._seen: dict[tuple[str, str], float] = {}
        self._changed = asyncio.Event()
        self._informers: list[Informer[Any]] = [
            Informer(client, PODS, ObjectWithPhase, namespace=namespace, on_change=self._on_pod)
            for namespace in (LARGE_NAMESPACE, SMALL_NAMESPACE)
        ]
        self._informers += [
            Informer(client, JOBS, ObjectWithPhase, namespace=namespace, on_change=self._on_job)
            for namespace in (LARGE_NAMESPACE, SMALL_NAMESPACE)
        ]

    async def start(self, tasks: asyncio.TaskGroup) -> list[asyncio.Task[None]]:
        running = [tasks.create_task(informer.run()) for informer in self._informers]
        for informer in self._informers:
            await informer.wait_synced()
        return running

    async def submit(self, namespace: str, name: str, size: int = 1) -> None:
        await self._client.create(JOBS, namespace, manifest(name, size), decode_as=ObjectWithPhase)

    async def measure(self, namespace: str, names: Sequence[str], samples: Samples) -> None:
        """Submit jobs at once and wait for the first pod and the first status of each."""
        submitted = {}

        async def submit(name: str) -> None:
            # The time that the server takes to accept the job is not the operator's.
            await self.submit(namespace, name)
            submitted[name] = time.perf_counter()

        await asyncio.gather(*map(submit, names))
        await self.wait(lambda: all((kind, name) in self._seen for kind in ("pod", "status") for name in names))
        for name in names:
            pod, status = self._seen["pod", name], self._seen["status", name]
            # The status is written after the pod, but the busy watch of pods may report the pod later.
            samples.first_pod.append(max(min(pod, status) - submitted[name], 0.0))
            samples.first_status.append(max(status - submitted[name], 0.0))

    async def wait(self, is_there: Any) -> None:
        async with asyncio.timeout(TIMEOUT):
            while not is_there():
                self._changed.clear()
                await self._changed.wait()

    def _on_pod(self, old: ObjectWithPhase | None, new: ObjectWithPhase | None) -> None:
        if old is None and new is not None:
            name = new.metadata.labels.get(JOB_NAME_LABEL, "")
            self.large_pods += name == "large"
            self._note("pod", name)

    def _on_job(self, old: ObjectWithPhase | None, new: ObjectWithPhase | None) -> None:
        if new is not None and new.status.phase:
            self._note("status", new.metadata.name)

    def _note(self, kind: str, name: str) -> None:
        self._seen.setdefault((kind, name), time.perf_counter())
        self._changed.set()


@contextmanager
def start_embedded_cluster(tree: Path, folder: Path) -> Iterator[Path]:
    """Start `pliant up`, whose process contains the API server and the operator, and yield the kubeconfig."""
    command = [sys.executable, "-m", "pliant", "up", "--foreground"]
    environment = {**os.environ, "PLIANT_HOME": str(folder / "home"), "PYTHONPATH": str(tree)}
    with (
        (folder / "up.log").open("w") as log,
        subprocess.Popen(command, cwd=tree, env=environment, stdout=subprocess.PIPE, stderr=log, text=True) as process,
    ):
        try:
            assert process.stdout is not None
            yield Path(*shlex.split(process.stdout.readline().strip().partition("=")[2]))
        finally:
            process.send_signal(signal.SIGTERM)


@contextmanager
def start_cluster(tree: Path, folder: Path, *, embedded: bool) -> Iterator[Path]:
    """Start a server, an operator of this working tree and a fake kubelet, and yield the kubeconfig."""
    if embedded:
        with start_embedded_cluster(tree, folder) as kubeconfig, start_kubelet(kubeconfig, folder):
            yield kubeconfig
        return
    with start_real_server() as server, start_kubelet(server.kubeconfig, folder):
        command = ("env", "-C", str(tree), f"PYTHONPATH={tree}", sys.executable, "-m", "pliant", "operator")
        options = ("--kubeconfig", str(server.kubeconfig), "--install-crds")
        with start_process((*command, *options), folder / "operator.log"):
            yield server.kubeconfig


@contextmanager
def start_kubelet(kubeconfig: Path, folder: Path) -> Iterator[None]:
    with start_process((sys.executable, "-m", "bench.fake_kubelet", str(kubeconfig)), folder / "kubelet.log"):
        yield


@asynccontextmanager
async def observe(kubeconfig: Path) -> AsyncIterator[Observer]:
    transport = create_transport(kubeconfig, None, SystemClock().now)
    client = KubeClient(transport)
    try:
        await install_crds(client)
        for name in (LARGE_NAMESPACE, SMALL_NAMESPACE):
            await client.create(NAMESPACES, None, {"metadata": {"name": name}})
        observer = Observer(client)
        async with asyncio.TaskGroup() as tasks:
            informers = await observer.start(tasks)
            await observer.measure(SMALL_NAMESPACE, ["warm-up"], Samples())
            yield observer
            for task in informers:
                task.cancel()
    finally:
        await transport.aclose()


async def measure_neighbours(kubeconfig: Path, size: int, small: int) -> Round:
    result = Round()
    async with observe(kubeconfig) as observer:
        for number in range(PROBES):
            await observer.measure(SMALL_NAMESPACE, [f"alone-{number}"], result.alone)
        await observer.measure(SMALL_NAMESPACE, [f"many-{number}" for number in range(small)], result.many_alone)
        await observer.submit(LARGE_NAMESPACE, "large", size)
        await observer.wait(lambda: observer.large_pods >= size * SETTLED_PODS)
        for number in range(PROBES):
            if observer.large_pods < size:
                await observer.measure(SMALL_NAMESPACE, [f"other-{number}"], result.other_namespace)
            if observer.large_pods < size:
                await observer.measure(LARGE_NAMESPACE, [f"same-{number}"], result.same_namespace)
        if observer.large_pods < size:
            names = [f"crowd-{number}" for number in range(small)]
            await observer.measure(SMALL_NAMESPACE, names, result.many_beside)
        result.large_pods_before = observer.large_pods
    return result


async def measure_large(kubeconfig: Path, size: int) -> float:
    async with observe(kubeconfig) as observer:
        started = time.perf_counter()
        await observer.submit(LARGE_NAMESPACE, "large", size)
        await observer.wait(lambda: observer.large_pods >= size)
        return time.perf_counter() - started


def run_round(tree: Path, args: argparse.Namespace) -> Round:
    with tempfile.TemporaryDirectory(prefix="pliant-bench-") as name:
        folder = Path(name)
        with start_cluster(tree, folder, embedded=args.embedded) as kubeconfig:
            result = asyncio.run(measure_neighbours(kubeconfig, args.size, args.small))
    with tempfile.TemporaryDirectory(prefix="pliant-bench-") as name:
        folder = Path(name)
        with start_cluster(tree, folder, embedded=args.embedded) as kubeconfig:
            result.large_seconds = asyncio.run(measure_large(kubeconfig, args.size))
    return result


def print_report(name: str, rounds: Sequence[Round], args: argparse.Namespace) -> None:
    print(f"\n{name}: job of {args.size} without neighbours", end=" ")
    print(f"{format_seconds([each.large_seconds for each in rounds])} until all pods exist")
    print(f"{'':<34}{'first pod':<26}{'first status':<26}")
    rows = {
        "one job alone": "alone",
        "beside, other namespace": "other_namespace",
        "beside, same namespace": "same_namespace",
        f"{args.small} jobs alone, p99": "many_alone",
        f"{args.small} jobs beside, p99": "many_beside",
    }
    for title, attribute in rows.items():
        cells = []
        for kind in ("first_pod", "first_status"):
            samples = [getattr(getattr(each, attribute), kind) for each in rounds]
            if "p99" in title:
                cells.append(format_seconds([percentile(each, 0.99) for each in samples if each]))
            else:
                cells.append(format_seconds([value for each in samples for value in each]))
        print(f"{title:<34}{cells[0]:<26}{cells[1]:<26}")


def format_seconds(values: Sequence[float]) -> str:
    """Format the median and the range."""
    if not values:
        return "the large job had ended"
    return f"{statistics.median(values):.2f} s ({min(values):.2f} to {max(values):.2f})"


def percentile(values: Sequence[float], fraction: float) -> float:
    return sorted(values)[min(int(len(values) * fraction), len(values) - 1)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", type=int, default=10_000)
    parser.add_argument("--small", type=int, default=50)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--embedded", action="store_true", help="use one process of `pliant up`")
    parser.add_argument("--old", type=Path, metavar="FOLDER", help="a working tree of an earlier version")
    args = parser.parse_args()
    trees = {"this version": ROOT} | ({"earlier version": args.old.resolve()} if args.old else {})
    rounds: dict[str, list[Round]] = {name: [] for name in trees}
    for _ in range(args.rounds):
        for name, tree in trees.items():
            result = run_round(tree, args)
            rounds[name].append(result)
            slowest = max(result.other_namespace.first_pod, default=0.0)
            print(
                f"  {name:<16} large {result.large_seconds:6.1f} s  slowest neighbour {slowest:6.2f} s  "
                f"load {os.getloadavg()[0]:.1f}",
                file=sys.stderr,
                flush=True,
            )
    print(f"{describe_server(embedded=args.embedded)}; {os.cpu_count()} cores; {args.rounds} rounds")
    for name, results in rounds.items():
        print_report(name, results, args)


if __name__ == "__main__":
    main()
