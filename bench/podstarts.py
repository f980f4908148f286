"""How fast pods start on the laptop cluster: in small groups, and hundreds at once beside plain processes."""

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

from bench.idle import agent_processes
from pliant.embedded.cluster import ClusterConfig, EmbeddedCluster
from pliant.kube.cache.informer import Informer
from pliant.kube.client import KubeClient
from pliant.kube.objects import Pod
from pliant.kube.resources import PODS

GROUP, GROUPS = 5, 40
PAUSE = 0.2
"""Seconds in which all that is left of a group goes, so that the next is alone."""
CROWD = 200
ROUNDS = 5
PATIENCE = 120.0
TICKS = os.sysconf("SC_CLK_TCK")
SCRIPT = "sleep 1; echo done"
RUNNING = frozenset({"Running", "Succeeded", "Failed"})
OVER = frozenset({"Succeeded", "Failed"})


class Pods:
    """A cluster of its own, and the moments at which its pods were seen in each phase."""

    def __init__(self, client: KubeClient) -> None:
        self.client = client
        self.created: dict[str, float] = {}
        self._seen: dict[str, dict[str, float]] = {}
        self._changed = asyncio.Event()
        self.watch: Informer[Pod] = Informer(client, PODS, Pod, on_change=self._note)

    @classmethod
    @asynccontextmanager
    async def started(cls) -> AsyncIterator[Pods]:
        """A cluster that is up, watched, and has run a pod already."""
        with tempfile.TemporaryDirectory(prefix="pliant-bench-") as folder:
            config = ClusterConfig(
                data_dir=Path(folder) / "data", workspace=Path(folder), durable=False, node_count=4, node_cpu=64
            )
            async with EmbeddedCluster.start(config) as cluster:
                pods = cls(KubeClient(cluster.transport))
                watching = asyncio.create_task(pods.watch.run())
                await pods.watch.wait_synced()
                await pods.make(["warm-up"], "true")
                await pods.until(["warm-up"], OVER)
                yield pods
                watching.cancel()

    async def make(self, names: list[str], script: str) -> None:
        """Create pods that run a script, all at once."""
        for name in names:
            self.created[name] = time.time()
        await asyncio.gather(*(self.client.create(PODS, "default", manifest(name, script)) for name in names))

    async def until(self, names: list[str], phases: frozenset[str]) -> list[float]:
        """Wait until every pod has been seen in one of the phases; the moments at which each first was."""
        async with asyncio.timeout(PATIENCE):
            while not all(phases & self._seen.get(name, {}).keys() for name in names):
                self._changed.clear()
                await self._changed.wait()
        return [min(at for phase, at in self._seen[name].items() if phase in phases) for name in names]

    async def first_line(self, name: str) -> float:
        """The moment at which a pod first wrote something."""
        async with aclosing(self.client.stream_logs("default", name, follow=True, timestamps=True)) as chunks:
            return datetime.fromisoformat((await anext(chunks)).split()[0].decode()).timestamp()

    def _note(self, old: Pod | None, new: Pod | None) -> None:
        if new is not None:
            self._seen.setdefault(new.metadata.name, {}).setdefault(new.status.phase, time.time())
            self._changed.set()


def manifest(name: str, script: str) -> dict[str, object]:
    """A pod that runs a script once."""
    container = {"name": "main", "image": "none", "command": ["sh", "-c", script]}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {"restartPolicy": "Never", "containers": [container]},
    }


def groups(_: int) -> None:
    """How long a pod takes to start when few others do."""
    running, speaking = asyncio.run(_in_groups())
    print(f"from the request to create a pod, {GROUP * GROUPS} pods, {GROUP} at a time: p50 and p99\n")
    for words, taken in (("to its first line", speaking), ("until it is seen to run", running)):
        cuts = statistics.quantiles(taken, n=100, method="inclusive")
        print(f"  {words:<26} {cuts[49] * 1000:6.1f} ms  {cuts[98] * 1000:6.1f} ms")


async def _in_groups() -> tuple[list[float], list[float]]:
    running: list[float] = []
    speaking: list[float] = []
    async with Pods.started() as pods:
        for group in range(GROUPS):
            names = [f"pod-{group}-{number}" for number in range(GROUP)]
            await pods.make(names, "echo up; exec sleep 600")
            at = await pods.until(names, RUNNING)
            for name, seen in zip(names, at, strict=True):
                running.append(seen - pods.created[name])
                speaking.append(await pods.first_line(name) - pods.created[name])
                await pods.client.delete(PODS, "default", name, grace_period_seconds=0)
            await asyncio.sleep(PAUSE)
    return running, speaking


def burst(_: int) -> None:
    """How long many pods take at once, beside as many plain processes with the same script."""
    print(f"{CROWD} × `{SCRIPT}` at once, median of {ROUNDS} (least to most), and the ratio to plain processes\n")
    plain = [["sh", "-c", SCRIPT]] * CROWD
    spaces = ["unshare", "--user", "--map-root-user", "--net", "--pid", "--mount", "--ipc", "--uts", "--fork"]
    contenders: dict[str, Callable[[], Burst]] = {
        "plain processes": lambda: _processes(plain),
        "in unshare(1)": lambda: _processes([[*spaces, *each] for each in plain]),
        "pods": lambda: asyncio.run(_pods_at_once()),
    }
    seen: dict[str, list[Burst]] = {name: [] for name in contenders}
    for _ in range(ROUNDS):
        for name, contender in contenders.items():
            seen[name].append(contender())
    floor = statistics.median(each["all over"] for each in seen["plain processes"])
    for name, bursts in seen.items():
        for what in bursts[0]:
            values = [each[what] for each in bursts]
            middle, spread = statistics.median(values), f"({min(values):.2f} to {max(values):.2f})"
            ratio = f"{middle / floor:6.2f} ×" if what == "all over" else ""
            print(f"  {name:<16} {what:<22} {middle:6.2f} s  {spread:<16} {ratio}")
    started = statistics.median(each["all running"] for each in seen["pods"])
    print(f"  {CROWD / started:.0f} pods started per second")


Burst = dict[str, float]
"""Seconds of one burst, by what they were spent on."""


def _processes(commands: list[list[str]]) -> Burst:
    """Start all in a loop, each with a log of its own, and wait for them."""
    with tempfile.TemporaryDirectory() as folder:
        before, began = os.times(), time.monotonic()
        processes = []
        for number, command in enumerate(commands):
            with (Path(folder) / str(number)).open("wb") as log:
                processes.append(subprocess.Popen(command, stdout=log, stderr=log))
        started = time.monotonic() - began
        if any(process.wait() for process in processes):
            raise SystemExit(f"{' '.join(commands[0])} failed")
        took, after = time.monotonic() - began, os.times()
    spent = sum(after[:4]) - sum(before[:4])
    return {"all running": started, "all over": took, "processor time": spent}


async def _pods_at_once() -> Burst:
    async with Pods.started() as pods:
        names = [f"pod-{number}" for number in range(CROWD)]
        agent = agent_processes(os.getpid())
        spent, began = _used(agent), time.time()
        await pods.make(names, SCRIPT)
        created = time.time()
        running = max(await pods.until(names, RUNNING))
        over = max(await pods.until(names, OVER))
        server, own, others = (now - then for now, then in zip(_used(agent), spent, strict=True))
        for name in names:
            told = b"".join([chunk async for chunk in pods.client.stream_logs("default", name)])
            if told != b"done\n":
                raise SystemExit(f"{name} wrote {told!r}")
    return {
        "all created": created - began,
        "all running": running - began,
        "all over": over - began,
        "server's processor": server,
        "agent's processor": own,
        "of pods and watchers": others,
    }


def _used(agent: list[int]) -> tuple[float, float, float]:
    """Seconds of processor time of this process, of the agent, and of children that the agent has outlived."""
    words = [Path(f"/proc/{each}/stat").read_text().rpartition(")")[2].split() for each in agent]
    own = sum(int(each[11]) + int(each[12]) for each in words)
    others = sum(int(each[13]) + int(each[14]) for each in words)
    return time.process_time(), own / TICKS, others / TICKS
