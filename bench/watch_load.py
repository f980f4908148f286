"""Opens watches on 10,000 pods of an embedded cluster, and measures how long its event loop is blocked meanwhile.

The cluster runs in a process of its own, in which a timer that is due every 5 ms records how late it is, in time and in
CPU time of the event loop's thread: on a machine with other load, only the second is the fault of the server.
"""

from __future__ import annotations

import asyncio
import gc
import json
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pliant.embedded.cluster import ClusterConfig, EmbeddedCluster
from pliant.kube.client import KubeClient
from pliant.kube.client_config import create_transport
from pliant.kube.resources import PODS
from pliant.runtime.clock import SystemClock

PODS_WATCHED = 10_000
CHANGES = 2_000
CONCURRENCY = 16
TICK_SECONDS = 0.005
REPORT = "report"


@dataclass
class StallMonitor:
    """The longest times in which the event loop ran nothing else, since the last report."""

    wall_seconds: float = 0.0
    cpu_seconds: float = 0.0

    async def run(self) -> None:
        """Measure until cancelled."""
        wall, cpu = time.monotonic(), time.thread_time()
        while True:
            await asyncio.sleep(TICK_SECONDS)
            now, cpu_now = time.monotonic(), time.thread_time()
            self.wall_seconds = max(self.wall_seconds, now - wall - TICK_SECONDS)
            self.cpu_seconds = max(self.cpu_seconds, cpu_now - cpu)
            wall, cpu = now, cpu_now

    def take_report(self) -> dict[str, float]:
        """Return the longest stalls, and start again."""
        report = {"wall": self.wall_seconds, "cpu": self.cpu_seconds}
        self.wall_seconds = self.cpu_seconds = 0.0
        return report


async def serve() -> None:
    """Run a cluster; print its kubeconfig, and a report for each line of standard input."""
    monitor = StallMonitor()
    with tempfile.TemporaryDirectory(prefix="pliant-bench-") as folder:
        config = ClusterConfig(data_dir=Path(folder) / "data", workspace=Path(folder))
        async with EmbeddedCluster.start(config) as cluster:
            gc.collect()
            gc.freeze()  # as `pliant up` does
            print(cluster.kubeconfig, flush=True)
            task = asyncio.create_task(monitor.run())
            reader = asyncio.StreamReader()
            await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
            while await reader.readline():
                print(json.dumps(monitor.take_report()), flush=True)
            task.cancel()


class ServerProcess:
    """The process that runs the cluster."""

    def __init__(self, process: asyncio.subprocess.Process, kubeconfig: Path) -> None:
        self._process = process
        self.kubeconfig = kubeconfig

    @classmethod
    @asynccontextmanager
    async def start(cls) -> AsyncIterator[ServerProcess]:
        """Start the cluster, and stop it at the end."""
        pipe = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "bench.watch_load", stdin=pipe, stdout=pipe
        )
        assert process.stdout is not None
        assert process.stdin is not None
        try:
            yield cls(process, Path((await process.stdout.readline()).decode().strip()))
        finally:
            process.stdin.close()
            await process.wait()

    async def print_stalls(self, step: str, **counts: object) -> None:
        """Print the longest stalls since the last call."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{REPORT}\n".encode())
        report = json.loads(await self._process.stdout.readline())
        details = ", ".join(f"{value} {name}" for name, value in counts.items())
        print(f"  {step:<34}{report['wall'] * 1000:6.0f} ms{report['cpu'] * 1000:12.0f} ms   {details}")


class Watches:
    """Watches that count the events they receive."""

    def __init__(self, client: KubeClient, count: int) -> None:
        self._client = client
        self._count = count
        self.received = [0] * count
        self._tasks: list[asyncio.Task[None]] = []

    def open(self) -> None:
        """Open all watches at once, with all pods as their first events."""
        self._tasks = [asyncio.create_task(self._watch(number)) for number in range(self._count)]

    async def wait_received(self, count: int) -> None:
        """Wait until every watch has received this number of events."""
        while min(self.received) < count:
            failed = next((task for task in self._tasks if task.done()), None)
            if failed is not None:
                raise RuntimeError("a watch ended") from failed.exception()
            await asyncio.sleep(0.05)

    async def close(self) -> None:
        """Close all watches."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _watch(self, number: int) -> None:
        query = {"watch": "true", "timeoutSeconds": "600"}
        async with aclosing(self._client.stream_raw("/api/v1/pods", query)) as chunks:
            async for chunk in chunks:
                self.received[number] += chunk.count(b"\n")


async def measure_watch_load(watch_count: int, pod_manifest: Callable[[str], dict[str, Any]]) -> None:
    """Create pods, open watches, change pods, list pods, and print the stalls of each step."""
    async with ServerProcess.start() as server:
        transport = create_transport(server.kubeconfig, None, SystemClock().now)
        client = KubeClient(transport)
        watches = Watches(client, watch_count)
        names = [f"bert-{number // 4}-{number}" for number in range(PODS_WATCHED)]
        print(
            f"\n{PODS_WATCHED} pods and {watch_count} watches; the longest time in which the event loop was blocked\n"
        )
        print(f"  {'':<34}{'time':>9}{'CPU time':>15}")
        try:
            await _for_each(names, lambda name: client.create(PODS, "default", pod_manifest(name)))
            await server.print_stalls("creating the pods")
            started = time.monotonic()
            watches.open()
            await watches.wait_received(PODS_WATCHED)
            await server.print_stalls("opening the watches", s=round(time.monotonic() - started, 1))
            changed = names[:CHANGES]
            started = time.monotonic()
            patch = {"metadata": {"labels": {"changed": "yes"}}}
            await _for_each(changed, lambda name: client.patch(PODS, "default", name, patch))
            await watches.wait_received(PODS_WATCHED + CHANGES)
            rate = round(CHANGES * watch_count / (time.monotonic() - started))
            await server.print_stalls("changing 2,000 pods", **{"events/s": rate})
            for _ in range(3):
                await client.get_raw("/api/v1/pods")
            await server.print_stalls("three complete lists")
            await watches.close()
            await server.print_stalls("closing the watches")
        finally:
            await transport.aclose()


async def _for_each(names: list[str], call: Callable[[str], Any]) -> None:
    remaining = iter(names)

    async def work() -> None:
        for name in remaining:
            await call(name)

    async with asyncio.TaskGroup() as tasks:
        for _ in range(CONCURRENCY):
            tasks.create_task(work())


if __name__ == "__main__":
    asyncio.run(serve())
