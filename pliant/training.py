"""For training programs of an ElasticJob: work, peers and heartbeats, from the job's master.

    job = training.join()
    for shard in job.shards("train", size=60_000, shard_size=500, epochs=3):
        learn(records[shard.start:shard.end])
        job.beat(step=step)

Without a master it works alone: every shard is its own, rank 0 of 1. It needs nothing but Python and is one file,
longer than others for that, so that it can be copied into an image.
"""

from __future__ import annotations

import atexit
import json
import math
import os
import random
import sys
import threading
import time
import weakref
from collections.abc import Iterator
from contextlib import suppress
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Any, NamedTuple

MASTER_TIMEOUT = 600.0
"""Seconds that a program waits for a master that is away before it gives up."""
LONG_POLL_TIMEOUT = 20.0
"""Seconds that the master may take to answer that there is nothing new."""
RESPONSE_TIMEOUT = 10.0
"""Seconds that an answer may take besides."""
HEARTBEAT_INTERVAL = 5.0
"""Seconds between two beats that say nothing new."""
DONE_REPORT_WINDOW, MAX_REPEATED_SHARDS = 5.0, 200
"""For so many seconds a shard is reported as done again: the master may have died before that was saved."""


class Shard(NamedTuple):
    """Records from start up to end."""

    start: int
    end: int
    epoch: int


class Peer(NamedTuple):
    """Somebody who takes part."""

    type: str
    id: int
    rank: int
    address: str


class Round(NamedTuple):
    """Who we are in a group that knows its members exactly."""

    number: int
    id: str
    rank: int
    world_size: int
    leader: str
    """The address of rank 0."""


class Refused(Exception):
    """The master does not accept what was asked; asking again does not help."""


class _UnknownDataset(Refused):
    """The master has not heard of that, or has forgotten it."""


class MasterAway(Exception):
    """The master did not come back in time."""


class JobClient:
    """What a program asks of its job. This one is alone."""

    type = "worker"
    id = 0
    rank = 0
    is_round_over = False
    """Whether to leave the round and call `rendezvous` again: look at it after each step."""
    is_ps_changed = False
    """Whether `ps_hosts` has a new answer: look at it after each step."""

    def shards(
        self, name: str, *, size: int, shard_size: int, epochs: int = 1, shuffle: int | None = None
    ) -> Iterator[Shard]:
        """Parts of a data set until all is learned; who comes back for the next one has learned the last."""
        for epoch in range(epochs):
            starts = list(range(0, size, shard_size))
            if shuffle is not None:
                random.Random(f"{shuffle}/{epoch}").shuffle(starts)
            for start in starts:
                yield Shard(start, min(start + shard_size, size), epoch)

    def beat(self, step: int | None = None, samples: float | None = None) -> None:
        """Tell how far this process is: steps, and samples learned from, all in all. It never waits."""

    def members(self) -> list[Peer]:
        """Everybody who runs, in order of rank."""
        return [Peer(self.type, self.id, self.rank, "127.0.0.1")]

    def wait_membership(self, timeout: float) -> list[Peer]:
        """The same as soon as it changes, or after so many seconds."""
        time.sleep(timeout)
        return self.members()

    def rendezvous(self) -> Round:
        """Wait until the workers are together, and tell who we are among them."""
        return Round(1, "alone", 0, 1, "127.0.0.1")

    def ps_hosts(self) -> list[str]:
        """The parameter servers in order; who asks is taken to work with them from now on."""
        return []


def join(timeout: float = MASTER_TIMEOUT) -> JobClient:
    """The job this process belongs to, as its environment says."""
    address = os.environ.get("DLROVER_MASTER_ADDR", "")
    return _MasterJobClient(address, timeout) if address else JobClient()


class _MasterConnection:
    """Requests to the master; each thread has a connection of its own."""

    def __init__(self, address: str, timeout: float) -> None:
        self._address = address
        self._timeout = timeout
        self._thread_local = threading.local()

    def send_with_retries(self, path: str, body: dict[str, Any] | None = None, wait: float = 0.0) -> dict[str, Any]:
        """Send until it is answered, however long the master is away, within patience."""
        began, pause, has_told = time.monotonic(), 0.1, False
        while True:
            try:
                answer = self.send(path, body, wait + RESPONSE_TIMEOUT)
            except (OSError, HTTPException) as problem:
                away = time.monotonic() - began
                if away > self._timeout:
                    raise MasterAway(f"no answer from {self._address} for {away:.0f} s: {problem}") from None
                if not has_told:
                    _log(f"the job's master at {self._address} does not answer ({problem}): waiting")
                    has_told = True
                time.sleep(pause * random.uniform(0.5, 1.5))
                pause = min(2 * pause, 5.0)
            else:
                if has_told:
                    _log(f"the job's master is back after {time.monotonic() - began:.1f} s")
                return answer

    def send(self, path: str, body: dict[str, Any] | None, timeout: float) -> dict[str, Any]:
        """Send once; and again if the connection was an old one, that may have been closed while nobody spoke."""
        is_old = getattr(self._thread_local, "connection", None) is not None
        try:
            return self._send_once(path, body, timeout)
        except (OSError, HTTPException):
            if not is_old:
                raise
            return self._send_once(path, body, timeout)

    def _send_once(self, path: str, body: dict[str, Any] | None, timeout: float) -> dict[str, Any]:
        connection: HTTPConnection | None = getattr(self._thread_local, "connection", None)
        if connection is None:
            host, _, port = self._address.rpartition(":")
            connection = self._thread_local.connection = HTTPConnection(host.strip("[]"), int(port))
        connection.timeout = timeout
        if connection.sock is not None:
            connection.sock.settimeout(timeout)
        headers = {"Pliant-Job-Uid": os.environ.get("JOB_UID", "")}
        try:
            data = None if body is None else json.dumps(body).encode()
            connection.request("GET" if data is None else "POST", path, data, headers)
            reply = connection.getresponse()
            text = reply.read().decode()
        except BaseException:
            connection.close()
            self._thread_local.connection = None
            raise
        return _parse_response(reply.status, text)


def _parse_response(status: int, text: str) -> dict[str, Any]:
    try:
        answer = json.loads(text)
    except ValueError:
        answer = {"error": text[:200]}
    if status >= 500 or not isinstance(answer, dict):
        raise HTTPException(f"HTTP {status}: {text[:200]}")
    if status >= 400:
        raise (_UnknownDataset if status == 404 else Refused)(answer.get("error"))
    return answer


class _MasterJobClient(JobClient):
    """A job with a master: every request names who asks, and may be sent twice without harm."""

    def __init__(self, address: str, timeout: float) -> None:
        env = os.environ
        self.type = env.get("NODE_TYPE") or env.get("WORKER_TYPE") or "worker"
        self.id = int(env.get("NODE_ID") or env.get("WORKER_ID") or 0)
        self.rank = int(env.get("NODE_RANK") or env.get("WORKER_RANK") or self.id)
        self._connection_args = (address, timeout)
        self._round: int | None = None
        self._ps_version: int | None = None
        self._generation = -1
        self.reset()
        _open_clients.add(self)
        self._start_heartbeat()

    def reset(self) -> None:
        """Have nothing, and no threads: so begin a process and those that are forked from it."""
        self._connection = _MasterConnection(*self._connection_args)
        self._latest_metrics: dict[str, Any] = {}
        self._samples_done = 0
        self._held_shards: dict[str, set[int]] = {}
        self._done_shards: dict[str, list[tuple[float, int]]] = {}
        self._locks: dict[str, threading.Lock] = {}
        self._wakeup, self._closing = threading.Event(), threading.Event()
        self._thread: threading.Thread | None = None

    @property
    def _identity(self) -> dict[str, Any]:
        return {"member": f"{self.type}-{self.id}", "process": os.getpid()}

    def shards(
        self, name: str, *, size: int, shard_size: int, epochs: int = 1, shuffle: int | None = None
    ) -> Iterator[Shard]:
        numbers = {"size": size, "shard_size": shard_size, "epochs": epochs, "shuffle": shuffle}
        # Whole numbers of any arithmetic will do.
        spec = {"name": name, **{key: each if each is None else int(each) for key, each in numbers.items()}}
        self._connection.send_with_retries("/v1/datasets", spec)
        self._start_heartbeat()
        while (shard := self._next_shard(spec)) is not None:
            position, holding = shard["position"], self._held_shards[name]
            try:
                yield Shard(shard["start"], shard["end"], shard["epoch"])
            except GeneratorExit:
                holding.discard(position)
                self._return_shard(name, position)
                raise
            holding.discard(position)
            self._done_shards.setdefault(name, []).append((time.monotonic(), position))
            self._samples_done += shard["end"] - shard["start"]
            self._wakeup.set()

    def _next_shard(self, spec: dict[str, Any]) -> dict[str, Any] | None:
        """One more shard, as soon as there is one; None once all are done."""
        name = spec["name"]
        holding, finished = self._held_shards.setdefault(name, set()), self._done_shards.setdefault(name, [])
        with self._locks.setdefault(name, threading.Lock()):  # what one thread is given, another does not disown
            while True:
                done = [position for _, position in finished]
                body = {**self._identity, "done": done, "holding": list(holding), "wait": LONG_POLL_TIMEOUT}
                try:
                    answer = self._connection.send_with_retries(f"/v1/datasets/{name}/next", body, LONG_POLL_TIMEOUT)
                except _UnknownDataset:
                    self._connection.send_with_retries("/v1/datasets", spec)
                    continue
                young = time.monotonic() - DONE_REPORT_WINDOW
                finished[:] = [each for each in finished if each[0] > young][-MAX_REPEATED_SHARDS:]
                shard: dict[str, Any] | None = answer["shard"]
                if shard is not None:
                    holding.add(shard["position"])
                if shard is not None or answer["over"]:
                    return shard

    def _return_shard(self, name: str, position: int) -> None:
        # Otherwise the master learns it from our next request, our silence or our end.
        with suppress(OSError, HTTPException, Refused):
            self._connection.send(f"/v1/datasets/{name}/report", {**self._identity, "failed": [position]}, 1.0)

    def beat(self, step: int | None = None, samples: float | None = None) -> None:
        told = {"step": _parse_metric("step", step, int), "samples": _parse_metric("samples", samples, float)}
        self._latest_metrics = {
            **self._latest_metrics,
            **{name: value for name, value in told.items() if value is not None},
        }
        self._start_heartbeat()
        self._wakeup.set()

    def members(self) -> list[Peer]:
        return self._get_members("/v1/membership", 0.0)

    def wait_membership(self, timeout: float) -> list[Peer]:
        until = time.monotonic() + timeout
        while (left := until - time.monotonic()) > 0:
            before, wait = self._generation, min(left, LONG_POLL_TIMEOUT)
            found = self._get_members(f"/v1/membership?generation={before}&wait={wait}", wait)
            if self._generation != before:
                return found
        return self.members()

    def _get_members(self, path: str, wait: float) -> list[Peer]:
        answer = self._connection.send_with_retries(path, wait=wait)
        self._generation = answer["generation"]
        return [Peer(**member) for member in answer["members"]]

    def rendezvous(self) -> Round:
        body = {**self._identity, "address": os.environ.get("POD_IP", ""), "wait": LONG_POLL_TIMEOUT}
        self._round = None  # a beat must not speak of the one we leave
        while True:
            answer = self._connection.send_with_retries("/v1/rendezvous", body, LONG_POLL_TIMEOUT)
            if "round" in answer:
                self._round, self.is_round_over = answer["round"], False
                self._wakeup.set()
                names = ("round", "id", "rank", "world_size", "leader")
                return Round(*(answer[name] for name in names))
            body["ticket"] = answer["ticket"]

    def ps_hosts(self) -> list[str]:
        answer = self._connection.send_with_retries("/v1/ps")
        self._ps_version, self.is_ps_changed = answer["version"], False
        self._wakeup.set()
        return list(answer["hosts"])

    def _start_heartbeat(self) -> None:
        if self._thread is None and not self._closing.is_set():
            self._thread = threading.Thread(target=self._heartbeat_loop, name="pliant-beat", daemon=True)
            self._thread.start()

    def _heartbeat_loop(self) -> None:
        usage = _ResourceUsage()
        while True:
            is_last = self._closing.is_set()
            self._wakeup.clear()
            try:
                pause = self._send_heartbeat(usage.measure())
            except Exception:
                pause = 1.0  # the next one tells the same, and more; whoever stops beating is taken to be gone
            if is_last:
                return
            self._closing.wait(pause)
            if self._round is None:  # else it must learn soon when that is over
                self._wakeup.wait(max(0.0, HEARTBEAT_INTERVAL - pause))

    def _send_heartbeat(self, metrics: dict[str, Any]) -> float:
        round_, version = self._round, self._ps_version
        # Copies: the program's own threads go on meanwhile.
        holding = {name: list(positions) for name, positions in list(self._held_shards.items()) if positions}
        finished = {name: list(each) for name, each in list(self._done_shards.items()) if each}
        done = {name: [position for _, position in each] for name, each in finished.items()}
        learned = {"samples": self._samples_done} if self._samples_done else {}
        more = {"round": round_, "ps_version": version, "generation": max(0, self._generation)}
        told = {**metrics, **learned, **self._latest_metrics, **more, "holding": holding, "done": done}
        answer = self._connection.send("/v1/beat", {**told, **self._identity}, RESPONSE_TIMEOUT)
        if round_ == self._round:
            self.is_round_over = bool(answer.get("restart"))
        self.is_ps_changed = version == self._ps_version and answer["ps_version"] != (version or 0)
        return float(answer["every"])

    def close(self) -> None:
        """Let the last beat out, if it goes quickly."""
        self._closing.set()
        self._wakeup.set()
        if self._thread is not None:
            self._thread.join(1.0)


class _ResourceUsage:
    """Cores and bytes in use by this process and those it started."""

    def __init__(self) -> None:
        self._last_cpu_seconds, self._measured_at = _cpu_seconds(_list_process_tree()), time.monotonic()

    def measure(self) -> dict[str, Any]:
        """What is used now: the cores on average since the last time."""
        family = _list_process_tree()
        seconds, now = _cpu_seconds(family), time.monotonic()
        passed, used = now - self._measured_at, max(0.0, seconds - self._last_cpu_seconds)
        if passed < 0.2:
            return {}
        self._last_cpu_seconds, self._measured_at = seconds, now
        return {"cpu": round(used / passed, 3), "memory": sum(map(_memory_bytes, family))}


def _list_process_tree() -> list[str]:
    """This process and all that descend from it."""
    family = [str(os.getpid())]
    for process in family:
        for children in Path("/proc", process, "task").glob("*/children"):
            family += _read_text(children).split()
    return family


def _cpu_seconds(pids: list[str]) -> float:
    # After the name, which may hold anything: user and system time, and those of children that have ended.
    ticks = [_read_text(Path("/proc", process, "stat")).rpartition(")")[2].split()[11:15] for process in pids]
    return sum(int(tick) for each in ticks for tick in each) / os.sysconf("SC_CLK_TCK")


def _memory_bytes(pid: str) -> int:
    """What a process would set free: pages that it shares count in part."""
    for line in _read_text(Path("/proc", pid, "smaps_rollup")).splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) * 1024
    pages = _read_text(Path("/proc", pid, "statm")).split()
    return int(pages[1]) * os.sysconf("SC_PAGE_SIZE") if pages else 0


def _read_text(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""  # ended meanwhile, or not Linux


def _parse_metric(name: str, value: Any, number_type: type[float]) -> float | None:
    """A figure as JSON knows it, from whatever arithmetic it comes; one that is none is told of and left out."""
    try:
        found = number_type(value) if value is not None else None
    except (TypeError, ValueError, OverflowError):
        found = math.nan
    if found is None or 0 <= found <= 2**53:
        return found
    if name not in _warned_metrics:
        _warned_metrics.add(name)
        _log(f"{name}: must be a number from 0 on, got {value!r}: it is left out")
    return None


def _log(message: str) -> None:
    sys.stderr.write(f"pliant: {message}\n")
    sys.stderr.flush()


_warned_metrics: set[str] = set()
"""Figures that were none: a program may give them at every step."""
_open_clients: weakref.WeakSet[_MasterJobClient] = weakref.WeakSet()


def _reset_after_fork() -> None:
    """A child that was forked has no thread, and locks that nobody will open; what it holds is its parent's."""
    for job in _open_clients:
        job.reset()


def _close_clients() -> None:
    for job in list(_open_clients):
        job.close()


os.register_at_fork(after_in_child=_reset_after_fork)
atexit.register(_close_clients)
