"""Measures the master of a job with many members: `python -m bench.master [MEMBERS] [SECONDS]`.

The master runs in a separate process on the loopback interface. The members are tasks of this process: each watches
the membership, processes shards of half a second, and sends heartbeats at the interval that the master requests. At
the end a tenth of the members is removed.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import resource
import statistics
import sys
import time
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import aiohttp

from pliant.master.model import JobMember, MemberKey, MemberStatus
from pliant.master.server.service import MasterService
from pliant.model.job_keys import KeyPurpose
from pliant.runtime.clock import SystemClock

SHARD_SECONDS = 0.5
KEYS = {KeyPurpose.MASTER: "key", KeyPurpose.MEMBERSHIP: "key"}
HEADERS = {"Authorization": "Bearer key"}


def make_members(numbers: range) -> tuple[JobMember, ...]:
    now = SystemClock().now()
    return tuple(
        JobMember(
            key=MemberKey("worker", number),
            rank=number,
            pod_name=f"w-{number}",
            status=MemberStatus.RUNNING,
            created_at=now,
            address=f"demo-edljob-worker-{number}.default:3333",
        )
        for number in numbers
    )


def run_master(pipe: Connection, members: int) -> None:
    """Run the master; a number received from the pipe is the number of members to remove."""

    async def main() -> None:
        service = MasterService("uid-1")
        service.set_members(make_members(range(members)))
        asyncio.get_running_loop().add_reader(
            pipe.fileno(), lambda: service.set_members(make_members(range(pipe.recv(), members)))
        )
        server = asyncio.create_task(service.serve_until_cancelled(KEYS, "127.0.0.1", 0, pipe.send))
        await asyncio.sleep(3600)
        await server

    asyncio.run(main())


class SimulatedMember:
    """A worker that uses the API of the master."""

    def __init__(self, session: aiohttp.ClientSession, number: int, latencies: dict[str, list[float]]) -> None:
        self._session = session
        self._identity = {"member": f"worker-{number}", "process": 1}
        self._latencies = latencies
        self.generation = 0
        self.notified_at = 0.0

    async def post(self, label: str, path: str, body: dict[str, Any]) -> Any:
        started = time.perf_counter()
        async with self._session.post(path, json={**self._identity, **body}) as response:
            reply = await response.json()
        self._latencies[label].append(time.perf_counter() - started)
        return reply

    async def process_shards(self) -> None:
        done: list[int] = []
        while True:
            reply = await self.post("shard", "/v1/datasets/train/next", {"done": done})
            done = [reply["shard"]["position"]]
            await asyncio.sleep(SHARD_SECONDS)

    async def send_heartbeats(self) -> None:
        step = 0
        while True:
            step += 1
            body = {"step": step, "samples": step * 10, "cpu": 1.0, "memory": 10**9, "round": 1}
            reply = await self.post("heartbeat", "/v1/heartbeat", body)
            await asyncio.sleep(reply["heartbeat_interval"])

    async def watch_membership(self) -> None:
        while True:
            path = f"/v1/membership?generation={self.generation}"
            async with self._session.get(path) as response:
                self.generation = (await response.json())["generation"]
            self.notified_at = time.perf_counter()


def format_latencies(label: str, latencies: list[float]) -> str:
    percentiles = statistics.quantiles(latencies, n=100)
    median, p99 = percentiles[49] * 1000, percentiles[98] * 1000
    return f"{label}: {len(latencies)} requests, median {median:.1f} ms, p99 {p99:.1f} ms"


def cpu_seconds(pid: int) -> float:
    fields = Path("/proc", str(pid), "stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def measure_master(port: int, pipe: Connection, pid: int, members: int, seconds: float) -> None:
    latencies: dict[str, list[float]] = {"join": [], "shard": [], "heartbeat": []}
    connector = aiohttp.TCPConnector(limit=0)
    url = f"http://127.0.0.1:{port}"
    async with aiohttp.ClientSession(url, connector=connector, headers=HEADERS) as session:
        workers = [SimulatedMember(session, number, latencies) for number in range(members)]
        await session.post("/v1/datasets", json={"name": "train", "size": 10**9, "shard_size": 10})
        started = time.perf_counter()
        rounds = await asyncio.gather(*(worker.post("join", "/v1/rendezvous", {}) for worker in workers))
        elapsed = time.perf_counter() - started
        print(f"{members} members joined one round of world size {rounds[0]['world_size']}: {elapsed:.2f} s")
        tasks = [
            asyncio.create_task(run())
            for worker in workers
            for run in (worker.watch_membership, worker.process_shards, worker.send_heartbeats)
        ]
        await asyncio.sleep(3)
        for samples in latencies.values():
            samples.clear()
        cpu_before, started = cpu_seconds(pid), time.perf_counter()
        await asyncio.sleep(seconds)
        cpu_share = (cpu_seconds(pid) - cpu_before) / (time.perf_counter() - started)
        print(format_latencies("shard", latencies["shard"]))
        print(format_latencies("heartbeat", latencies["heartbeat"]))
        request_rate = (len(latencies["shard"]) + len(latencies["heartbeat"])) / seconds
        print(f"master: {request_rate:.0f} requests/s with {cpu_share:.0%} of a core")
        removed_at = time.perf_counter()
        pipe.send(members // 10)
        await asyncio.sleep(5)
        delays = [worker.notified_at - removed_at for worker in workers if worker.notified_at > removed_at]
        print(f"a tenth of the members removed: {len(delays)} members notified after {max(delays):.2f} s")
        async with session.get("/v1/datasets") as response:
            print(f"shards taken back: {(await response.json())['returned']}")
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def main() -> None:
    members = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    seconds = float(sys.argv[2]) if len(sys.argv) > 2 else 10.0
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, max(soft, 8 * members)), hard))
    pipe, master_pipe = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(target=run_master, args=(master_pipe, members))
    process.start()
    assert process.pid is not None
    try:
        asyncio.run(measure_master(pipe.recv(), pipe, process.pid, members, seconds))
        status = Path("/proc", str(process.pid), "status").read_text()
        print(next(text for text in status.splitlines() if text.startswith("VmHWM")))
    finally:
        process.kill()
        process.join()


if __name__ == "__main__":
    main()
