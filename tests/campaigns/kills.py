"""`pliant up` is killed while four clients write and jobs run: what was acknowledged stays, and no pod runs twice."""

from __future__ import annotations

import asyncio
import random
import shlex
import signal
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

from pliant.kube.client import KubeClient
from pliant.kube.client_config import create_transport
from pliant.kube.resources import PODS
from pliant.runtime.clock import SystemClock
from tests.campaigns.writers import Writer, read_values, write_together
from tests.cli.ordinary_user import OrdinaryUser, new_user
from tests.scenarios.jobs import group, job
from tests.scenarios.scene import JOBS

WRITERS = 4
LONGEST_LIFE = 2.0
"""Seconds for which a cluster lives at most after it came up."""
EARLY_KILLS = 0.15
"""The share of kills that come while the cluster is still starting."""
RUN_ONCE = """
import fcntl, os, socket, sys, time
folder, name = os.environ["LEDGER"], socket.gethostname()
lock = open(f"{folder}/{name}.lock", "a")
try:
    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
except BlockingIOError:
    open(f"{folder}/twice", "a").write(f"{name}\\n")
    sys.exit(1)
open(f"{folder}/starts", "a").write(f"{name}\\n")
time.sleep(600)
"""
"""A program that notices another one in the same place: the lock of a process is gone when it is."""


@dataclass
class KillReport:
    rounds: int = 0
    writes: int = 0
    lost: list[str] = field(default_factory=list)
    twice: list[str] = field(default_factory=list)
    left: list[str] = field(default_factory=list)
    starts: int = 0

    @property
    def is_clean(self) -> bool:
        return not (self.lost or self.twice or self.left)

    def __str__(self) -> str:
        return (
            f"{self.rounds} kills: {self.writes} writes, {len(self.lost)} acknowledged writes lost; {self.starts} "
            f"processes of pods started, {len(self.twice)} twice; {len(self.left)} processes left"
            + "".join(f"\n  {each}" for each in (*self.lost, *self.twice, *self.left))
        )


class _Cluster:
    """`pliant up` in the foreground, killed and started again on the same data."""

    def __init__(self, user: OrdinaryUser) -> None:
        self._user = user
        self.process: subprocess.Popen[str] | None = None

    def start(self) -> None:
        with (self._user.home / "up.log").open("a") as log:
            self.process = self._user.start("up", "--foreground", stderr=log)

    def wait_for_kubeconfig(self) -> Path:
        assert self.process is not None
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise AssertionError(f"`pliant up` ended: {(self._user.home / 'up.log').read_text()[-2000:]}")
        [path] = shlex.split(line.partition("=")[2])
        return Path(path)

    def kill(self) -> None:
        if self.process is not None:
            self.process.send_signal(signal.SIGKILL)
            self.process.communicate()
            self.process = None


def run_kill_campaign(count: int, seed: int) -> KillReport:
    with new_user() as user:
        return asyncio.run(_Campaign(user, random.Random(seed)).run(count))


class _Campaign:
    def __init__(self, user: OrdinaryUser, rng: random.Random) -> None:
        self._user, self._rng = user, rng
        self._cluster = _Cluster(user)
        self._report = KillReport()
        self._writers = [Writer(number, random.Random(rng.random())) for number in range(WRITERS)]
        self._ledger = user.home / "ledger"
        self._ledger.mkdir(mode=0o777)
        self._ledger.chmod(0o777)

    async def run(self, count: int) -> KillReport:
        report = self._report
        try:
            for number in range(count):
                if self._rng.random() < EARLY_KILLS:
                    self._cluster.start()
                    await asyncio.sleep(self._rng.uniform(0, 1.5))
                else:
                    await self._live(number, self._rng.uniform(0.1, LONGEST_LIFE))
                self._cluster.kill()
                report.rounds += 1
                report.left += await self._processes_left(number)
            await self._live(count, 0)
        finally:
            self._cluster.kill()
        report.writes = sum(each.writes for each in self._writers)
        report.twice += _lines(self._ledger / "twice")
        report.starts = len(_lines(self._ledger / "starts"))
        return report

    async def _live(self, number: int, seconds: float) -> None:
        """Start the cluster, check what it has kept, and kill it after some seconds of work."""
        self._cluster.start()
        kubeconfig = await asyncio.to_thread(self._cluster.wait_for_kubeconfig)
        transport = create_transport(kubeconfig, None, SystemClock().now)
        try:
            client = KubeClient(transport)
            found = await read_values(client)
            for writer in self._writers:
                self._report.lost += [f"round {number}: {each}" for each in writer.find_lost(found)]
            await self._submit_next_job(client, number)
        finally:
            await transport.aclose()
        writing = asyncio.create_task(write_together(self._writers, kubeconfig))
        await asyncio.sleep(seconds)
        self._cluster.kill()
        await writing

    async def _submit_next_job(self, client: KubeClient, number: int) -> None:
        """Run a new job of two members, and let go of the one before the last."""
        worker = group("unused", 2, restartPolicy="Always", restartLimit=1000)
        container = worker["template"]["spec"]["containers"][0]
        container["command"] = ["python3", "-c", RUN_ONCE]
        container["env"] = [{"name": "LEDGER", "value": str(self._ledger)}]
        worker["template"]["spec"]["restartPolicy"] = "Always"
        await client.create(JOBS, "default", job(f"r{number}", {"worker": worker}))
        for old in (await client.list(JOBS, "default")).items:
            name = old["metadata"]["name"]
            if int(name[1:]) < number - 1:
                await client.delete(JOBS, "default", name)
        pods = (await client.list(PODS, "default")).items
        live = [each["metadata"]["name"] for each in pods if "deletionTimestamp" not in each["metadata"]]
        self._report.twice += [f"two pods named {name}" for name in set(live) if live.count(name) > 1]

    async def _processes_left(self, number: int) -> list[str]:
        """Return what still runs ten seconds after everything should have ended."""
        for _ in range(200):
            if not self._user.processes():
                return []
            await asyncio.sleep(0.05)
        return [f"round {number}: {each}" for each in self._user.processes()]


def _lines(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []
