"""What a long life of plans costs, and how soon many members are back.

    python -m bench.plans [--plans 1000] [--real]

A job with a master is asked for another size again and again, one plan after the other. Its pods choose a node
that is not there, so that nothing runs but the server and the operator. At the end a fresh job is asked in turns
with the old one: whatever else the machine does falls on both alike. Nothing is asserted: numbers are for people.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import aclosing, contextmanager
from pathlib import Path
from typing import Any

from bench.servers import Server, embedded, real, version
from pliant.cli.cluster.apply import install_crds
from pliant.controllers.crds import wait_until_served
from pliant.kube.cache.informer import Informer
from pliant.kube.client import KubeClient
from pliant.kube.client_config import create_transport
from pliant.kube.resources import PODS
from pliant.runtime.clock import SystemClock
from tests.controllers.elastic import JOBS, PLANS

SPACE = "default"
HISTORY = 10
LOST = 30
PART = 100
NOWHERE = {"nodeSelector": {"bench": "nowhere"}, "terminationGracePeriodSeconds": 0}


class Life:
    """One job, its plans, and what is known of them."""

    def __init__(self, client: KubeClient) -> None:
        self.client = client
        self.news = asyncio.Event()
        self.plans = Informer(client, PLANS, dict, namespace=SPACE, on_change=self._changed)
        self.pods = Informer(client, PODS, dict, namespace=SPACE, on_change=self._changed)

    def _changed(self, old: Any, new: Any) -> None:
        self.news.set()

    async def until(self, condition: Any) -> None:
        """Wait until something is so."""
        async with asyncio.timeout(60):
            while not condition():
                self.news.clear()
                await self.news.wait()

    async def begin(self, name: str) -> None:
        """Create a job, and see its master's pod."""
        await wait_until_served(self.client, JOBS, lambda: None)
        await self.client.create(JOBS, SPACE, job(name))
        await self.until(lambda: self.pods.store.get(SPACE, f"elasticjob-{name}-dlrover-master-0"))

    async def resize(self, owner: str, count: int) -> float:
        """Ask a job for another size than before; seconds until it has it."""
        asked = {"worker": {"replicas": 2 + count % 2}}
        return await self.plan(f"{owner}-{count}", owner, replicaResourceSpecs=asked)

    async def plan(self, name: str, owner: str = "old", **spec: Any) -> float:
        """Write a plan; seconds until it has succeeded."""
        meta = {"name": name, "labels": {"scale-type": "auto"}}
        body = {"apiVersion": PLANS.api_version, "kind": PLANS.kind, "metadata": meta}
        began = time.perf_counter()
        await self.client.create(PLANS, SPACE, {**body, "spec": {"ownerJob": owner, **spec}})
        await self.until(lambda: self._phase(name) == "Succeeded")
        return time.perf_counter() - began

    def workers(self) -> list[str]:
        """The members that are there."""
        return [pod["metadata"]["name"] for pod in self.pods.store.all() if "-worker-" in pod["metadata"]["name"]]

    def _phase(self, name: str) -> str:
        return str(((self.plans.store.get(SPACE, name) or {}).get("status") or {}).get("phase") or "")


def job(name: str) -> dict[str, Any]:
    """A job whose pods go nowhere."""
    pod = {**NOWHERE, "containers": [{"name": "main", "image": "trainer"}]}
    master = {"template": {"spec": {**NOWHERE, "containers": [{"name": "main"}]}}}
    replicas = {"dlrover-master": master, "worker": {"template": {"spec": pod}}}
    spec = {"distributionStrategy": "AllreduceStrategy", "replicaSpecs": replicas}
    meta = {"name": name}
    return {"apiVersion": JOBS.api_version, "kind": JOBS.kind, "metadata": meta, "spec": spec}


async def measure(server: Server, operator: int, number: int) -> None:
    """Let a job live through so many plans, then lose its members."""
    async with aclosing(create_transport(server.kubeconfig, None, SystemClock().now)) as transport:
        client = KubeClient(transport)
        life = Life(client)
        watches = [asyncio.create_task(each.run()) for each in (life.plans, life.pods)]
        await life.begin("old")
        seconds, marks = [], []
        for count in range(number):
            seconds.append(await life.resize("old", count))
            if count + 1 in (min(PART, number), number):
                marks.append((memory(operator), len(json.dumps(await client.get(JOBS, SPACE, "old")))))
        await asyncio.sleep(1)
        left = len((await client.list(PLANS, SPACE)).items)
        _tell_life(seconds, marks, left)
        await _compare(life, number)
        print(f"\n{LOST} members deleted at once, then one plan with {LOST} createPods")
        print(f"  until all {LOST} are there again {await _lost(life):9.3f} s")
        for watch in watches:
            watch.cancel()


def _tell_life(seconds: list[float], marks: list[tuple[int, int]], left: int) -> None:
    part = min(PART, len(seconds))
    first, last = statistics.median(seconds[:part]), statistics.median(seconds[-part:])
    (before, small), (after, large) = marks[0], marks[-1]
    rows = {
        "a plan, from POST to Succeeded, ms": (first * 1000, last * 1000),
        "memory of the operator, MiB": (before / 1024, after / 1024),
        "the job as JSON, bytes": (small, large),
    }
    print(f"{'':<36} {f'first {part}':>10} {f'last {part}':>10}   ratio")
    for what, (then, now) in rows.items():
        print(f"  {what:<34} {then:10.1f} {now:10.1f}   {now / then:5.2f}")
    print(f"  plans left of {len(seconds)}: {left} (the operator keeps {HISTORY})")


async def _compare(life: Life, number: int) -> None:
    await life.begin("fresh")
    pairs = [(await life.resize("old", number + at), await life.resize("fresh", at)) for at in range(PART)]
    old, fresh = (statistics.median(each) * 1000 for each in zip(*pairs, strict=True))
    print(f"  in turns: the old job {old:.1f} ms, a fresh one {fresh:.1f} ms, ratio {old / fresh:.2f}")


async def _lost(life: Life) -> float:
    await life.plan("many", replicaResourceSpecs={"worker": {"replicas": LOST}})
    names = life.workers()
    await asyncio.gather(*(life.client.delete(PODS, SPACE, name, grace_period_seconds=0) for name in names))
    await life.until(lambda: not life.workers())
    first = 10_000
    anew = [{"type": "worker", "id": first + rank, "rankIndex": rank} for rank in range(LOST)]
    began = time.perf_counter()
    plan = asyncio.create_task(life.plan("anew", createPods=anew))
    await life.until(lambda: len(life.workers()) == LOST)
    took = time.perf_counter() - began
    await plan
    return took


def memory(process: int) -> int:
    """Kilobytes that a process holds."""
    lines = Path(f"/proc/{process}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS:"))


@contextmanager
def operating(kubeconfig: Path) -> Iterator[int]:
    """An operator of its own process."""
    words = ("operator", "--kubeconfig", str(kubeconfig), f"--plan-history={HISTORY}", "--autoscale=off")
    with subprocess.Popen([sys.executable, "-m", "pliant", *words], stderr=subprocess.DEVNULL) as process:
        try:
            yield process.pid
        finally:
            process.terminate()


async def _teach(kubeconfig: Path) -> None:
    async with aclosing(create_transport(kubeconfig, None, SystemClock().now)) as transport:
        await install_crds(KubeClient(transport))


def main() -> None:
    """Measure, and say what was seen."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--plans", type=int, default=1000)
    parser.add_argument("--real", action="store_true")
    args = parser.parse_args()
    with (real if args.real else embedded)() as server:
        asyncio.run(_teach(server.kubeconfig))
        with operating(server.kubeconfig) as process:
            print(f"{args.plans} plans; {version(embedded=not args.real)}\n")
            asyncio.run(measure(server, process, args.plans))


if __name__ == "__main__":
    main()
