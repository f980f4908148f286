"""Measures the cost of many ScalePlans for one job, and the time to replace many lost pods.

    python -m bench.plans [--plans 1000] [--real]

A job with a master is resized repeatedly, one plan after the other. Its pods select a node that does not exist, so
that only the server and the operator work. At the end, plans for a new job alternate with plans for the old one, so
that other load on the machine affects both equally. Nothing is asserted.
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

from bench.servers import Server, describe_server, start_embedded_server, start_real_server
from pliant.cli.cluster.apply import install_crds
from pliant.controllers.crds import wait_until_served
from pliant.kube.cache.informer import Informer
from pliant.kube.client import KubeClient
from pliant.kube.client_config import create_transport
from pliant.kube.resources import PODS
from pliant.runtime.clock import SystemClock
from tests.controllers.elastic import JOBS, PLANS

NAMESPACE = "default"
PLAN_HISTORY = 10
LOST_PODS = 30
SAMPLE_SIZE = 100
UNSCHEDULABLE = {"nodeSelector": {"bench": "no-such-node"}, "terminationGracePeriodSeconds": 0}


class PlanTester:
    """Creates jobs and plans, and waits for their results."""

    def __init__(self, client: KubeClient) -> None:
        self.client = client
        self.changed = asyncio.Event()
        self.plans = Informer(client, PLANS, dict, namespace=NAMESPACE, on_change=self._on_change)
        self.pods = Informer(client, PODS, dict, namespace=NAMESPACE, on_change=self._on_change)

    def _on_change(self, old: Any, new: Any) -> None:
        self.changed.set()

    async def wait_until(self, condition: Any) -> None:
        """Wait until a condition on the watched objects is true."""
        async with asyncio.timeout(60):
            while not condition():
                self.changed.clear()
                await self.changed.wait()

    async def create_job(self, name: str) -> None:
        """Create a job, and wait for the pod of its master."""
        await wait_until_served(self.client, JOBS, lambda: None)
        await self.client.create(JOBS, NAMESPACE, job_manifest(name))
        await self.wait_until(lambda: self.pods.store.get(NAMESPACE, f"elasticjob-{name}-dlrover-master-0"))

    async def resize(self, owner: str, count: int) -> float:
        """Change the size of a job with a plan; return the seconds until the plan has succeeded."""
        resources = {"worker": {"replicas": 2 + count % 2}}
        return await self.apply_plan(f"{owner}-{count}", owner, replicaResourceSpecs=resources)

    async def apply_plan(self, name: str, owner: str = "old", **spec: Any) -> float:
        """Create a plan; return the seconds until it has succeeded."""
        meta = {"name": name, "labels": {"scale-type": "auto"}}
        body = {"apiVersion": PLANS.api_version, "kind": PLANS.kind, "metadata": meta}
        started = time.perf_counter()
        await self.client.create(PLANS, NAMESPACE, {**body, "spec": {"ownerJob": owner, **spec}})
        await self.wait_until(lambda: self._plan_phase(name) == "Succeeded")
        return time.perf_counter() - started

    def list_workers(self) -> list[str]:
        """Return the names of the existing worker pods."""
        return [pod["metadata"]["name"] for pod in self.pods.store.all() if "-worker-" in pod["metadata"]["name"]]

    def _plan_phase(self, name: str) -> str:
        return str(((self.plans.store.get(NAMESPACE, name) or {}).get("status") or {}).get("phase") or "")


def job_manifest(name: str) -> dict[str, Any]:
    """Return the manifest of a job whose pods cannot be scheduled."""
    pod = {**UNSCHEDULABLE, "containers": [{"name": "main", "image": "trainer"}]}
    master = {"template": {"spec": {**UNSCHEDULABLE, "containers": [{"name": "main"}]}}}
    replicas = {"dlrover-master": master, "worker": {"template": {"spec": pod}}}
    spec = {"distributionStrategy": "AllreduceStrategy", "replicaSpecs": replicas}
    meta = {"name": name}
    return {"apiVersion": JOBS.api_version, "kind": JOBS.kind, "metadata": meta, "spec": spec}


async def measure(server: Server, operator: int, number: int) -> None:
    """Resize a job this number of times, then delete its workers."""
    async with aclosing(create_transport(server.kubeconfig, None, SystemClock().now)) as transport:
        client = KubeClient(transport)
        tester = PlanTester(client)
        informers = [asyncio.create_task(informer.run()) for informer in (tester.plans, tester.pods)]
        await tester.create_job("old")
        seconds, sizes = [], []
        for count in range(number):
            seconds.append(await tester.resize("old", count))
            if count + 1 in (min(SAMPLE_SIZE, number), number):
                sizes.append((resident_memory(operator), len(json.dumps(await client.get(JOBS, NAMESPACE, "old")))))
        await asyncio.sleep(1)
        remaining = len((await client.list(PLANS, NAMESPACE)).items)
        _print_history(seconds, sizes, remaining)
        await _compare_with_new_job(tester, number)
        print(f"\n{LOST_PODS} worker pods deleted at once, then one plan with {LOST_PODS} createPods")
        print(f"  until all {LOST_PODS} pods exist again {await _measure_recreation(tester):9.3f} s")
        for task in informers:
            task.cancel()


def _print_history(seconds: list[float], sizes: list[tuple[int, int]], remaining: int) -> None:
    count = min(SAMPLE_SIZE, len(seconds))
    first, last = statistics.median(seconds[:count]), statistics.median(seconds[-count:])
    (before, small), (after, large) = sizes[0], sizes[-1]
    rows = {
        "plan, from POST to Succeeded, ms": (first * 1000, last * 1000),
        "memory of the operator, MiB": (before / 1024, after / 1024),
        "job as JSON, bytes": (small, large),
    }
    print(f"{'':<36} {f'first {count}':>10} {f'last {count}':>10}   ratio")
    for label, (early, late) in rows.items():
        print(f"  {label:<34} {early:10.1f} {late:10.1f}   {late / early:5.2f}")
    print(f"  remaining plans of {len(seconds)}: {remaining} (the operator keeps {PLAN_HISTORY})")


async def _compare_with_new_job(tester: PlanTester, number: int) -> None:
    await tester.create_job("new")
    pairs = [
        (await tester.resize("old", number + index), await tester.resize("new", index)) for index in range(SAMPLE_SIZE)
    ]
    old, new = (statistics.median(samples) * 1000 for samples in zip(*pairs, strict=True))
    print(f"  alternating: old job {old:.1f} ms, new job {new:.1f} ms, ratio {old / new:.2f}")


async def _measure_recreation(tester: PlanTester) -> float:
    await tester.apply_plan("scale-up", replicaResourceSpecs={"worker": {"replicas": LOST_PODS}})
    names = tester.list_workers()
    await asyncio.gather(*(tester.client.delete(PODS, NAMESPACE, name, grace_period_seconds=0) for name in names))
    await tester.wait_until(lambda: not tester.list_workers())
    first_id = 10_000
    pods = [{"type": "worker", "id": first_id + rank, "rankIndex": rank} for rank in range(LOST_PODS)]
    started = time.perf_counter()
    plan = asyncio.create_task(tester.apply_plan("recreate", createPods=pods))
    await tester.wait_until(lambda: len(tester.list_workers()) == LOST_PODS)
    duration = time.perf_counter() - started
    await plan
    return duration


def resident_memory(process: int) -> int:
    """Return the resident memory of a process in KiB."""
    lines = Path(f"/proc/{process}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS:"))


@contextmanager
def start_operator(kubeconfig: Path) -> Iterator[int]:
    """Run an operator in a separate process; yield its process id."""
    arguments = ("operator", "--kubeconfig", str(kubeconfig), f"--plan-history={PLAN_HISTORY}", "--autoscale=off")
    with subprocess.Popen([sys.executable, "-m", "pliant", *arguments], stderr=subprocess.DEVNULL) as process:
        try:
            yield process.pid
        finally:
            process.terminate()


async def _install_crds(kubeconfig: Path) -> None:
    async with aclosing(create_transport(kubeconfig, None, SystemClock().now)) as transport:
        await install_crds(KubeClient(transport))


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--plans", type=int, default=1000)
    parser.add_argument("--real", action="store_true")
    args = parser.parse_args()
    with (start_real_server if args.real else start_embedded_server)() as server:
        asyncio.run(_install_crds(server.kubeconfig))
        with start_operator(server.kubeconfig) as process:
            print(f"{args.plans} plans; {describe_server(embedded=not args.real)}\n")
            asyncio.run(measure(server, process, args.plans))


if __name__ == "__main__":
    main()
