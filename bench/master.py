"""How a job's master bears many members: `python -m bench.master [MEMBERS] [SECONDS]`.

The master is a process of its own on loopback. Members are tasks of this one: each waits for news of the others,
works on shards of half a second, and beats as often as the master says. At the end a tenth of them is lost.
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
from pliant.runtime.clock import SystemClock

SHARD_SECONDS = 0.5


def nodes(numbers: range) -> tuple[JobMember, ...]:
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


def serve(pipe: Connection, members: int) -> None:
    """The master's process; a number in the pipe tells how many members there are from now on."""

    async def main() -> None:
        service = MasterService("uid-1")
        service.set_members(nodes(range(members)))
        asyncio.get_running_loop().add_reader(
            pipe.fileno(), lambda: service.set_members(nodes(range(pipe.recv(), members)))
        )
        server = asyncio.create_task(service.serve_until_cancelled("127.0.0.1", 0, pipe.send))
        await asyncio.sleep(3600)
        await server

    asyncio.run(main())


class Member:
    """One worker."""

    def __init__(self, session: aiohttp.ClientSession, number: int, took: dict[str, list[float]]) -> None:
        self._session = session
        self._who = {"member": f"worker-{number}", "process": 1}
        self._took = took
        self.generation = 0
        self.told_at = 0.0

    async def post(self, what: str, path: str, body: dict[str, Any]) -> Any:
        began = time.perf_counter()
        async with self._session.post(path, json={**self._who, **body}) as reply:
            answer = await reply.json()
        self._took[what].append(time.perf_counter() - began)
        return answer

    async def learn(self) -> None:
        done: list[int] = []
        while True:
            answer = await self.post("shard", "/v1/datasets/train/next", {"done": done})
            done = [answer["shard"]["position"]]
            await asyncio.sleep(SHARD_SECONDS)

    async def beat(self) -> None:
        step = 0
        while True:
            step += 1
            body = {"step": step, "samples": step * 10, "cpu": 1.0, "memory": 10**9, "round": 1}
            answer = await self.post("beat", "/v1/heartbeat", body)
            await asyncio.sleep(answer["heartbeat_interval"])

    async def watch(self) -> None:
        while True:
            path = f"/v1/membership?generation={self.generation}"
            async with self._session.get(path) as reply:
                self.generation = (await reply.json())["generation"]
            self.told_at = time.perf_counter()


def line(what: str, took: list[float]) -> str:
    cuts = statistics.quantiles(took, n=100)
    return f"{what}: {len(took)} calls, median {cuts[49] * 1000:.1f} ms, p99 {cuts[98] * 1000:.1f} ms"


def cpu_seconds(pid: int) -> float:
    fields = Path("/proc", str(pid), "stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def bench(port: int, pipe: Connection, pid: int, members: int, seconds: float) -> None:
    took: dict[str, list[float]] = {"join": [], "shard": [], "beat": []}
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(f"http://127.0.0.1:{port}", connector=connector) as session:
        workers = [Member(session, number, took) for number in range(members)]
        await session.post("/v1/datasets", json={"name": "train", "size": 10**9, "shard_size": 10})
        began = time.perf_counter()
        rounds = await asyncio.gather(*(each.post("join", "/v1/rendezvous", {}) for each in workers))
        print(f"{members} members met in one round of {rounds[0]['world_size']}: {time.perf_counter() - began:.2f} s")
        tasks = [asyncio.create_task(act()) for each in workers for act in (each.watch, each.learn, each.beat)]
        await asyncio.sleep(3)
        for each in took.values():
            each.clear()
        used, began = cpu_seconds(pid), time.perf_counter()
        await asyncio.sleep(seconds)
        spent = (cpu_seconds(pid) - used) / (time.perf_counter() - began)
        print(line("shard", took["shard"]))
        print(line("beat", took["beat"]))
        calls = (len(took["shard"]) + len(took["beat"])) / seconds
        print(f"master: {calls:.0f} calls/s with {spent:.0%} of a core")
        lost = time.perf_counter()
        pipe.send(members // 10)
        await asyncio.sleep(5)
        told = [each.told_at - lost for each in workers if each.told_at > lost]
        print(f"a tenth was lost: {len(told)} members knew it after {max(told):.2f} s")
        async with session.get("/v1/datasets") as reply:
            print(f"their shards: {(await reply.json())['returned']} came back")
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def main() -> None:
    members = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    seconds = float(sys.argv[2]) if len(sys.argv) > 2 else 10.0
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, max(soft, 8 * members)), hard))
    ours, theirs = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(target=serve, args=(theirs, members))
    process.start()
    assert process.pid is not None
    try:
        asyncio.run(bench(ours.recv(), ours, process.pid, members, seconds))
        status = Path("/proc", str(process.pid), "status").read_text()
        print(next(text for text in status.splitlines() if text.startswith("VmHWM")))
    finally:
        process.kill()
        process.join()


if __name__ == "__main__":
    main()
