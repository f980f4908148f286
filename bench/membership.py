"""Measures how fast waiting replicas learn of a change of the membership.

    python -m bench.membership [--replicas 200 5000]

A process serves one job from its store, as the operator that leads does. Each replica waits in a request of its own;
then the status of the job changes in the store. The times are those from the change to the last byte of a reply. A
second change requests a checkpoint of one replica, which is answered alone. The stall is the longest CPU time for
which the event loop of the server did nothing else.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import resource
import statistics
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime
from socket import create_server
from typing import Any

from pliant.controllers.membership.job_objects import CachedJobObjects
from pliant.controllers.progress_reports import ProgressReceiver
from pliant.frameworks.progress_reporting import report_path
from pliant.frontends.aitrainingjob.job import AITrainingJobFrontend
from pliant.frontends.status.engine_state import dump_state
from pliant.kube.cache.store import ObjectStore
from pliant.kube.client import KubeClient
from pliant.kube.objects import Pod
from pliant.kube.resources import Resource
from pliant.model.departures import Departure, DepartureReason, PublishedMembership
from pliant.model.job_keys import KeyPurpose, derive_job_key, key_scope
from pliant.model.state import EngineState, JobPhase
from pliant.runtime.accept import raise_open_file_limit
from pliant.runtime.clock import SystemClock

SECRET = b"benchmark"
NOW = datetime(2026, 1, 1, tzinfo=UTC)
KIND = AITrainingJobFrontend()
JOBS = Resource(KIND.group, KIND.version, KIND.plural, KIND.kind)


def job_object(size: int, version: int, generation: int, departures: dict[str, Departure]) -> dict[str, Any]:
    """Return the object of a job whose replicas all run."""
    membership = PublishedMembership(generation=generation, indexes={"worker": f"0-{size - 1}"})
    state = EngineState(phase=JobPhase.RUNNING, started_at=NOW, membership=membership, departures=departures)
    worker = {"replicas": size, "template": {"spec": {"containers": [{"name": "main", "image": "train"}]}}}
    return {
        "apiVersion": JOBS.api_version,
        "kind": JOBS.kind,
        "metadata": {
            "name": "bert",
            "namespace": "default",
            "uid": "bert-uid",
            "resourceVersion": str(version),
            "generation": 1,
            "creationTimestamp": "2026-01-01T00:00:00Z",
        },
        "spec": {"replicaSpecs": {"worker": worker}},
        "status": {"phase": "Running", "pliant": dump_state(state)},
    }


class LoopMonitor:
    """Measures the longest stall of the event loop in CPU time, which other programs do not change."""

    def __init__(self) -> None:
        self.longest = 0.0

    async def run(self) -> None:
        while True:
            before = time.process_time()
            await asyncio.sleep(0.001)
            self.longest = max(self.longest, time.process_time() - before)


async def serve(size: int) -> None:
    """Serve a job; change it for every line of the standard input, and print the time of the change."""
    raise_open_file_limit()
    receiver = ProgressReceiver(KubeClient(None), SystemClock(), SECRET, "http://operator")  # type: ignore[arg-type]
    membership = receiver.membership
    jobs: ObjectStore[dict[str, Any]] = ObjectStore(
        on_change=lambda old, new: membership.on_job_changed(JOBS, old, new)
    )
    pods: ObjectStore[Pod] = ObjectStore()
    jobs.apply_complete_list([job_object(size, 1, 1, {})], 1)
    job = KIND.parse(job_object(size, 1, 1, {}))
    listener = create_server(("127.0.0.1", 0), backlog=512)
    objects = CachedJobObjects({(KIND.group, KIND.plural): jobs}, [pods], lambda: asyncio.sleep(0))
    lines = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
    with membership.use(objects, [KIND]):
        async with receiver.serve(listener):
            token = derive_job_key(SECRET, KeyPurpose.REPORTS, key_scope(job))
            _print({"port": listener.getsockname()[1], "path": report_path(job), "token": token})
            monitor = LoopMonitor()
            monitoring = asyncio.create_task(monitor.run())
            while line := (await lines.readline()).decode().strip():
                if line == "waiting":
                    _print(membership.waiting_count)
                elif line == "usage":
                    used = resource.getrusage(resource.RUSAGE_SELF)
                    _print([monitor.longest, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024])
                    monitor.longest = 0.0
                else:
                    version, generation, departing = map(int, line.split())
                    _print(time.monotonic())
                    jobs.apply_watched_write(job_object(size, version, generation, _departures(departing)))
            monitoring.cancel()


def _departures(index: int) -> dict[str, Departure]:
    if index < 0:
        return {}
    reason = DepartureReason.RESIZED
    return {"uid": Departure(request=1, reason=reason, group="worker", index=index, at=NOW, deadline=NOW)}


def _print(value: Any) -> None:
    print(json.dumps(value), flush=True)


class Server:
    """The serving process."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._stdin, self._stdout = process.stdin, process.stdout

    async def read(self) -> Any:
        return json.loads(await self._stdout.readline())

    async def call(self, line: str) -> Any:
        self._stdin.write(f"{line}\n".encode())
        return await self.read()

    async def wait_for(self, waiting: int) -> None:
        while await self.call("waiting") < waiting:  # noqa: ASYNC110
            await asyncio.sleep(0.1)


@asynccontextmanager
async def server_process(size: int) -> AsyncIterator[Server]:
    pipe = asyncio.subprocess.PIPE
    command = (sys.executable, "-m", "bench.membership", "--serve", str(size))
    process = await asyncio.create_subprocess_exec(*command, stdin=pipe, stdout=pipe)
    assert process.stdin is not None
    try:
        yield Server(process)
    finally:
        process.stdin.close()
        await process.wait()


async def ask(index: int, target: dict[str, Any], generation: int, opening: asyncio.Semaphore) -> tuple[float, int]:
    """Wait for a change; return the time of the last byte of the reply, and its size."""
    path = f"{target['path']}worker-{index}?generation={generation}&wait=60"
    async with opening:
        reader, writer = await asyncio.open_connection("127.0.0.1", target["port"])
        head = f"GET {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {target['token']}\r\n\r\n"
        writer.write(head.encode())
    size, start = 0, b""
    try:
        while chunk := await reader.read(1 << 18):
            start, size = start or chunk, size + len(chunk)
    finally:
        writer.close()
    assert start.startswith(b"HTTP/1.1 200 "), start
    return time.monotonic(), size


async def measure(size: int) -> None:
    async with server_process(size) as server:
        target = await server.read()
        opening = asyncio.Semaphore(64)  # a process that opens thousands at once sends their requests late
        asking = [asyncio.create_task(ask(index, target, 1, opening)) for index in range(size)]
        await server.wait_for(size)
        _, cpu_before, memory_before = await server.call("usage")
        changed = await server.call("2 1 0")  # a checkpoint request to worker-0
        alone = (await asking[0])[0] - changed
        stall_of_one, *_ = await server.call("usage")
        changed = await server.call("3 2 -1")
        replies = await asyncio.gather(*asking[1:])
        stall, cpu, memory = await server.call("usage")
    times = sorted(at - changed for at, _ in replies)
    p50, p99 = statistics.median(times), times[int(len(times) * 0.99)]
    print(
        f"{size:>9,}{replies[0][1] / 1024:>11,.0f}{alone * 1000:>15,.0f}{p50 * 1000:>12,.0f}{p99 * 1000:>12,.0f}"
        f"{times[-1] * 1000:>12,.0f}{max(stall, stall_of_one) * 1000:>12,.0f}{cpu - cpu_before:>9.1f}"
        f"{memory_before:>13,.0f}{memory:>11,.0f}"
    )


async def main(sizes: list[int]) -> None:
    raise_open_file_limit()
    print(" replicas  reply KiB  checkpoint ms      p50 ms      p99 ms     last ms    stall ms    CPU s", end="")
    print("   MiB before  MiB after")
    for size in sizes:
        await measure(size)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--replicas", type=int, nargs="+", default=[200, 5000])
    parser.add_argument("--serve", type=int, metavar="REPLICAS", help=argparse.SUPPRESS)
    args = parser.parse_args()
    with suppress(KeyboardInterrupt):
        asyncio.run(serve(args.serve) if args.serve else main(args.replicas))
