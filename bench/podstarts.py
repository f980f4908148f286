"""Measures pod starts on the embedded cluster: in small groups, and hundreds at once compared with plain processes."""

from __future__ import annotations

import asyncio
import os
import statistics
import subprocess
import tempfile
import time
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager
from datetime import datetime
from pathlib import Path

from bench.idle import find_agent_processes
from pliant.embedded.cluster import ClusterConfig, EmbeddedCluster
from pliant.kube.cache.informer import Informer
from pliant.kube.client import KubeClient
from pliant.kube.objects import Pod
from pliant.kube.resources import PODS

GROUP_SIZE, GROUP_COUNT = 5, 40
PAUSE = 0.2
"""Seconds in which the pods of a group terminate, so that they do not slow down the next group."""
BURST_SIZE = 200
ROUNDS = 5
TIMEOUT = 120.0
TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
SCRIPT = "sleep 1; echo done"
STARTED_PHASES = frozenset({"Running", "Succeeded", "Failed"})
FINISHED_PHASES = frozenset({"Succeeded", "Failed"})


class PodTracker:
    """Creates pods in its own cluster, and records when each pod entered each phase."""

    def __init__(self, client: KubeClient) -> None:
        self.client = client
        self.created: dict[str, float] = {}
        self._phase_times: dict[str, dict[str, float]] = {}
        self._changed = asyncio.Event()
        self.informer: Informer[Pod] = Informer(client, PODS, Pod, on_change=self._on_pod_change)

    @classmethod
    @asynccontextmanager
    async def start(cls) -> AsyncIterator[PodTracker]:
        """Start a cluster, watch its pods, and run one pod to warm up."""
        with tempfile.TemporaryDirectory(prefix="pliant-bench-") as folder:
            config = ClusterConfig(
                data_dir=Path(folder) / "data", workspace=Path(folder), durable=False, node_count=4, node_cpu=64
            )
            async with EmbeddedCluster.start(config) as cluster:
                pods = cls(KubeClient(cluster.transport))
                informer_task = asyncio.create_task(pods.informer.run())
                await pods.informer.wait_synced()
                await pods.create_pods(["warm-up"], "true")
                await pods.wait_for_phases(["warm-up"], FINISHED_PHASES)
                yield pods
                informer_task.cancel()

    async def create_pods(self, names: list[str], script: str) -> None:
        """Create pods that run a script, concurrently."""
        for name in names:
            self.created[name] = time.time()
        await asyncio.gather(*(self.client.create(PODS, "default", pod_manifest(name, script)) for name in names))

    async def wait_for_phases(self, names: list[str], phases: frozenset[str]) -> list[float]:
        """Wait until every pod has entered one of the phases; return the time at which each pod first did."""
        async with asyncio.timeout(TIMEOUT):
            while not all(phases & self._phase_times.get(name, {}).keys() for name in names):
                self._changed.clear()
                await self._changed.wait()
        return [min(at for phase, at in self._phase_times[name].items() if phase in phases) for name in names]

    async def wait_first_line(self, name: str) -> float:
        """Return the time at which a pod wrote its first line."""
        async with aclosing(self.client.stream_logs("default", name, follow=True, timestamps=True)) as chunks:
            return datetime.fromisoformat((await anext(chunks)).split()[0].decode()).timestamp()

    def _on_pod_change(self, old: Pod | None, new: Pod | None) -> None:
        if new is not None:
            self._phase_times.setdefault(new.metadata.name, {}).setdefault(new.status.phase, time.time())
            self._changed.set()


def pod_manifest(name: str, script: str) -> dict[str, object]:
    """Return the manifest of a pod that runs a script once."""
    container = {"name": "main", "image": "none", "command": ["sh", "-c", script]}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {"restartPolicy": "Never", "containers": [container]},
    }


def measure_groups(_: int) -> None:
    """Measure and print how long a pod takes to start in a small group."""
    running_times, output_times = asyncio.run(_start_groups())
    print(f"time from create request, {GROUP_SIZE * GROUP_COUNT} pods, {GROUP_SIZE} at a time: p50 and p99\n")
    for label, samples in (("first line of output", output_times), ("reported as Running", running_times)):
        cuts = statistics.quantiles(samples, n=100, method="inclusive")
        print(f"  {label:<26} {cuts[49] * 1000:6.1f} ms  {cuts[98] * 1000:6.1f} ms")


async def _start_groups() -> tuple[list[float], list[float]]:
    running_times: list[float] = []
    output_times: list[float] = []
    async with PodTracker.start() as pods:
        for group in range(GROUP_COUNT):
            names = [f"pod-{group}-{number}" for number in range(GROUP_SIZE)]
            await pods.create_pods(names, "echo up; exec sleep 600")
            times = await pods.wait_for_phases(names, STARTED_PHASES)
            for name, running_at in zip(names, times, strict=True):
                running_times.append(running_at - pods.created[name])
                output_times.append(await pods.wait_first_line(name) - pods.created[name])
                await pods.client.delete(PODS, "default", name, grace_period_seconds=0)
            await asyncio.sleep(PAUSE)
    return running_times, output_times


def measure_burst(_: int) -> None:
    """Measure and print how long a burst of pods takes, compared with as many plain processes."""
    print(f"{BURST_SIZE} × `{SCRIPT}` at once, median of {ROUNDS} (minimum to maximum), and ratio to plain processes\n")
    plain = [["sh", "-c", SCRIPT]] * BURST_SIZE
    unshare = ["unshare", "--user", "--map-root-user", "--net", "--pid", "--mount", "--ipc", "--uts", "--fork"]
    variants: dict[str, Callable[[], Burst]] = {
        "plain processes": lambda: _run_processes(plain),
        "in unshare(1)": lambda: _run_processes([[*unshare, *command] for command in plain]),
        "pods": lambda: asyncio.run(_run_pods()),
    }
    results: dict[str, list[Burst]] = {name: [] for name in variants}
    for _ in range(ROUNDS):
        for name, run_burst in variants.items():
            results[name].append(run_burst())
    baseline = statistics.median(each["all finished"] for each in results["plain processes"])
    for name, bursts in results.items():
        for label in bursts[0]:
            values = [each[label] for each in bursts]
            median, range_text = statistics.median(values), f"({min(values):.2f} to {max(values):.2f})"
            ratio = f"{median / baseline:6.2f} ×" if label == "all finished" else ""
            print(f"  {name:<16} {label:<22} {median:6.2f} s  {range_text:<16} {ratio}")
    seconds = statistics.median(each["all running"] for each in results["pods"])
    print(f"  {BURST_SIZE / seconds:.0f} pods started per second")


Burst = dict[str, float]
"""The measurements of one burst in seconds, by label."""


def _run_processes(commands: list[list[str]]) -> Burst:
    """Start processes in a loop, each with its own log file, and wait for them."""
    with tempfile.TemporaryDirectory() as folder:
        before, started_at = os.times(), time.monotonic()
        processes = []
        for number, command in enumerate(commands):
            with (Path(folder) / str(number)).open("wb") as log:
                processes.append(subprocess.Popen(command, stdout=log, stderr=log))
        all_started = time.monotonic() - started_at
        if any(process.wait() for process in processes):
            raise SystemExit(f"{' '.join(commands[0])} failed")
        duration, after = time.monotonic() - started_at, os.times()
    cpu_time = sum(after[:4]) - sum(before[:4])
    return {"all running": all_started, "all finished": duration, "CPU time": cpu_time}


async def _run_pods() -> Burst:
    async with PodTracker.start() as pods:
        names = [f"pod-{number}" for number in range(BURST_SIZE)]
        agent = find_agent_processes(os.getpid())
        cpu_before, started_at = _cpu_times(agent), time.time()
        await pods.create_pods(names, SCRIPT)
        created = time.time()
        all_running = max(await pods.wait_for_phases(names, STARTED_PHASES))
        all_finished = max(await pods.wait_for_phases(names, FINISHED_PHASES))
        server, agent_cpu, children = (
            after - before for after, before in zip(_cpu_times(agent), cpu_before, strict=True)
        )
        for name in names:
            output = b"".join([chunk async for chunk in pods.client.stream_logs("default", name)])
            if output != b"done\n":
                raise SystemExit(f"{name} wrote {output!r}")
    return {
        "all created": created - started_at,
        "all running": all_running - started_at,
        "all finished": all_finished - started_at,
        "CPU of the server": server,
        "CPU of the agent": agent_cpu,
        "CPU of pods and shims": children,
    }


def _cpu_times(agent: list[int]) -> tuple[float, float, float]:
    """Return the CPU seconds of this process, of the agent, and of the exited children of the agent."""
    stats = [Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split() for process in agent]
    own = sum(int(fields[11]) + int(fields[12]) for fields in stats)
    children = sum(int(fields[13]) + int(fields[14]) for fields in stats)
    return time.process_time(), own / TICKS_PER_SECOND, children / TICKS_PER_SECOND
