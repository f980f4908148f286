"""The client library for training programs of ElasticJobs: data shards, membership and heartbeats.

    job = training.join()
    for shard in job.shards("train", size=60_000, shard_size=500, epochs=3):
        learn(records[shard.start:shard.end])
        job.beat(step=step)

Without a master the client works standalone: it gets all shards and has rank 0 of 1. It is a single file that needs
only the standard library, so that it can be copied into an image.
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
"""Seconds after which the client gives up on an unavailable master."""
LONG_POLL_TIMEOUT = 20.0
"""Seconds that the master may hold a request until there is something new."""
RESPONSE_TIMEOUT = 10.0
"""Seconds that a response may take in addition."""
HEARTBEAT_INTERVAL = 5.0
"""Seconds between two heartbeats without news."""
DONE_REPORT_WINDOW, MAX_REPEATED_SHARDS = 5.0, 200
"""For how many seconds completed shards are reported repeatedly: the master may crash before it saves them."""


class Shard(NamedTuple):
    """The records from `start` to `end`, exclusive."""

    start: int
    end: int
    epoch: int


class Peer(NamedTuple):
    type: str
    id: int
    rank: int
    address: str


class Round(NamedTuple):
    number: int
    id: str
    rank: int
    world_size: int
    leader: str
    """The address of rank 0."""


class RequestRejected(Exception):
    """The master rejects the request; a retry does not help."""


class _UnknownDataset(RequestRejected):
    """The data set is not registered at the master."""


class MasterUnavailable(Exception):
    """The master did not respond within the timeout."""


class JobClient:
    """The interface of a training program to its job; this implementation works without a master."""

    type = "worker"
    id = 0
    rank = 0
    is_round_over = False
    """Whether to leave the round and call `rendezvous` again; check it after each step."""
    is_ps_changed = False
    """Whether `ps_hosts` has changed; check it after each step."""

    def shards(
        self, name: str, *, size: int, shard_size: int, epochs: int = 1, shuffle: int | None = None
    ) -> Iterator[Shard]:
        """Yield shards of a data set until all are done; requesting the next shard marks the last one as done."""
        for epoch in range(epochs):
            starts = list(range(0, size, shard_size))
            if shuffle is not None:
                random.Random(f"{shuffle}/{epoch}").shuffle(starts)
            for start in starts:
                yield Shard(start, min(start + shard_size, size), epoch)

    def beat(self, step: int | None = None, samples: float | None = None) -> None:
        """Report the total steps and samples of this process with the next heartbeat; never blocks."""

    def members(self) -> list[Peer]:
        """Return the running members in rank order."""
        return [Peer(self.type, self.id, self.rank, "127.0.0.1")]

    def wait_membership(self, timeout: float) -> list[Peer]:
        """Return the running members when they change, or after `timeout` seconds."""
        time.sleep(timeout)
        return self.members()

    def rendezvous(self) -> Round:
        """Wait for the other workers and return the rank and world size."""
        return Round(1, "alone", 0, 1, "127.0.0.1")

    def ps_hosts(self) -> list[str]:
        """Return the parameter servers in rank order; the master assumes that this process now uses them."""
        return []


def join(timeout: float = MASTER_TIMEOUT) -> JobClient:
    """Return the client for the job of this process, from the environment variables."""
    address = os.environ.get("DLROVER_MASTER_ADDR", "")
    return _MasterJobClient(address, timeout) if address else JobClient()


class _MasterConnection:
    """HTTP requests to the master, with one connection per thread."""

    def __init__(self, address: str, timeout: float) -> None:
        self._address = address
        self._timeout = timeout
        self._thread_local = threading.local()

    def send_with_retries(self, path: str, body: dict[str, Any] | None = None, wait: float = 0.0) -> dict[str, Any]:
        """Send a request until it is answered; raises MasterUnavailable after the timeout."""
        start, pause, has_logged = time.monotonic(), 0.1, False
        while True:
            try:
                answer = self.send(path, body, wait + RESPONSE_TIMEOUT)
            except (OSError, HTTPException) as problem:
                elapsed = time.monotonic() - start
                if elapsed > self._timeout:
                    message = f"no response from {self._address} for {elapsed:.0f} s: {problem}"
                    raise MasterUnavailable(message) from None
                if not has_logged:
                    _log(f"the job's master at {self._address} does not respond ({problem}): waiting")
                    has_logged = True
                time.sleep(pause * random.uniform(0.5, 1.5))
                pause = min(2 * pause, 5.0)
            else:
                if has_logged:
                    _log(f"the job's master responds again after {time.monotonic() - start:.1f} s")
                return answer

    def send(self, path: str, body: dict[str, Any] | None, timeout: float) -> dict[str, Any]:
        """Send once, and again on a new connection if a reused one was closed while idle."""
        is_reused = getattr(self._thread_local, "connection", None) is not None
        try:
            return self._send_once(path, body, timeout)
        except (OSError, HTTPException):
            if not is_reused:
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
        method, variable = ("GET", "PLIANT_MEMBERSHIP_KEY") if body is None else ("POST", "PLIANT_MASTER_KEY")
        headers = {"Pliant-Job-Uid": os.environ.get("JOB_UID", "")}
        headers["Authorization"] = f"Bearer {os.environ.get(variable, '')}"
        try:
            data = None if body is None else json.dumps(body).encode()
            connection.request(method, path, data, headers)
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
    if status >= 500 or status == 429 or not isinstance(answer, dict):
        raise HTTPException(f"HTTP {status}: {text[:200]}")
    if status >= 400:
        raise (_UnknownDataset if status == 404 else RequestRejected)(answer.get("error"))
    return answer


class _MasterJobClient(JobClient):
    """The client of a job with a master; all requests are idempotent and identify this process."""

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
        """Set the initial state, without threads; also called in forked children."""
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
        # The arguments may be NumPy integers.
        spec = {"name": name, **{key: value if value is None else int(value) for key, value in numbers.items()}}
        self._connection.send_with_retries("/v1/datasets", spec)
        self._start_heartbeat()
        while (shard := self._next_shard(spec)) is not None:
            position, held = shard["position"], self._held_shards[name]
            try:
                yield Shard(shard["start"], shard["end"], shard["epoch"])
            except GeneratorExit:
                held.discard(position)
                self._return_shard(name, position)
                raise
            held.discard(position)
            self._done_shards.setdefault(name, []).append((time.monotonic(), position))
            self._samples_done += shard["end"] - shard["start"]
            self._wakeup.set()

    def _next_shard(self, spec: dict[str, Any]) -> dict[str, Any] | None:
        """Wait for the next shard; return None when all are done."""
        name = spec["name"]
        held, finished = self._held_shards.setdefault(name, set()), self._done_shards.setdefault(name, [])
        # A thread must not report the shard of another one as free.
        with self._locks.setdefault(name, threading.Lock()):
            while True:
                done = [position for _, position in finished]
                body = {**self._identity, "done": done, "holding": list(held), "wait": LONG_POLL_TIMEOUT}
                try:
                    answer = self._connection.send_with_retries(f"/v1/datasets/{name}/next", body, LONG_POLL_TIMEOUT)
                except _UnknownDataset:
                    self._connection.send_with_retries("/v1/datasets", spec)
                    continue
                oldest = time.monotonic() - DONE_REPORT_WINDOW
                finished[:] = [each for each in finished if each[0] > oldest][-MAX_REPEATED_SHARDS:]
                shard: dict[str, Any] | None = answer["shard"]
                if shard is not None:
                    held.add(shard["position"])
                if shard is not None or answer["completed"]:
                    return shard

    def _return_shard(self, name: str, position: int) -> None:
        # On an error, the master frees the shard at the next request or when heartbeats stop.
        with suppress(OSError, HTTPException, RequestRejected):
            self._connection.send(f"/v1/datasets/{name}/report", {**self._identity, "failed": [position]}, 1.0)

    def beat(self, step: int | None = None, samples: float | None = None) -> None:
        metrics = {"step": _parse_metric("step", step, int), "samples": _parse_metric("samples", samples, float)}
        metrics = {name: value for name, value in metrics.items() if value is not None}
        self._latest_metrics = {**self._latest_metrics, **metrics}
        self._start_heartbeat()
        self._wakeup.set()

    def members(self) -> list[Peer]:
        return self._get_members("/v1/membership", 0.0)

    def wait_membership(self, timeout: float) -> list[Peer]:
        deadline = time.monotonic() + timeout
        while (left := deadline - time.monotonic()) > 0:
            before, wait = self._generation, min(left, LONG_POLL_TIMEOUT)
            members = self._get_members(f"/v1/membership?generation={before}&wait={wait}", wait)
            if self._generation != before:
                return members
        return self.members()

    def _get_members(self, path: str, wait: float) -> list[Peer]:
        answer = self._connection.send_with_retries(path, wait=wait)
        self._generation = answer["generation"]
        return [Peer(**member) for member in answer["members"]]

    def rendezvous(self) -> Round:
        body = {**self._identity, "address": os.environ.get("POD_IP", ""), "wait": LONG_POLL_TIMEOUT}
        self._round = None  # heartbeats must not report the round that this process leaves
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
            except Exception as problem:
                pause = 1.0  # the next heartbeat contains the same data; a process without heartbeats counts as dead
                if isinstance(problem, RequestRejected):
                    _log_once("heartbeats", f"the job's master rejects heartbeats: {problem}")
            if is_last:
                return
            self._closing.wait(pause)
            if self._round is None:  # in a round, its end must be noticed quickly
                self._wakeup.wait(max(0.0, HEARTBEAT_INTERVAL - pause))

    def _send_heartbeat(self, metrics: dict[str, Any]) -> float:
        round_, version = self._round, self._ps_version
        # Copies: threads of the program change the originals.
        held = {name: list(positions) for name, positions in list(self._held_shards.items()) if positions}
        finished = {name: list(each) for name, each in list(self._done_shards.items()) if each}
        done = {name: [position for _, position in each] for name, each in finished.items()}
        samples = {"samples": self._samples_done} if self._samples_done else {}
        versions = {"round": round_, "ps_version": version, "generation": max(0, self._generation)}
        body = {**metrics, **samples, **self._latest_metrics, **versions, "holding": held, "done": done}
        answer = self._connection.send("/v1/heartbeat", {**body, **self._identity}, RESPONSE_TIMEOUT)
        if round_ == self._round:
            self.is_round_over = bool(answer.get("restart"))
        self.is_ps_changed = version == self._ps_version and answer["ps_version"] != (version or 0)
        return float(answer["heartbeat_interval"])

    def close(self) -> None:
        self._closing.set()
        self._wakeup.set()
        if self._thread is not None:
            self._thread.join(1.0)


class _ResourceUsage:
    """The CPU and memory usage of this process and its descendants."""

    def __init__(self) -> None:
        self._last_cpu_seconds, self._measured_at = _cpu_seconds(_list_process_tree()), time.monotonic()

    def measure(self) -> dict[str, Any]:
        """Return the average CPU cores since the last call and the current memory in bytes."""
        pids = _list_process_tree()
        seconds, now = _cpu_seconds(pids), time.monotonic()
        elapsed, used = now - self._measured_at, max(0.0, seconds - self._last_cpu_seconds)
        if elapsed < 0.2:
            return {}
        self._last_cpu_seconds, self._measured_at = seconds, now
        return {"cpu": round(used / elapsed, 3), "memory": sum(map(_memory_bytes, pids))}


def _list_process_tree() -> list[str]:
    pids = [str(os.getpid())]
    for pid in pids:
        for children in Path("/proc", pid, "task").glob("*/children"):
            pids += _read_text(children).split()
    return pids


def _cpu_seconds(pids: list[str]) -> float:
    # After the command name: the user and system time of the process and of its terminated children.
    ticks = [_read_text(Path("/proc", pid, "stat")).rpartition(")")[2].split()[11:15] for pid in pids]
    return sum(int(tick) for each in ticks for tick in each) / os.sysconf("SC_CLK_TCK")


def _memory_bytes(pid: str) -> int:
    """Return the proportional set size: shared pages count in part."""
    for line in _read_text(Path("/proc", pid, "smaps_rollup")).splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) * 1024
    pages = _read_text(Path("/proc", pid, "statm")).split()
    return int(pages[1]) * os.sysconf("SC_PAGE_SIZE") if pages else 0


def _read_text(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""  # the process has terminated, or this is not Linux


def _parse_metric(name: str, value: Any, number_type: type[float]) -> float | None:
    """Convert a metric to a number that JSON can represent; log and ignore an invalid one."""
    try:
        number = number_type(value) if value is not None else None
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if number is None or 0 <= number <= 2**53:
        return number
    _log_once(name, f"{name}: must be a number of at least 0, got {value!r}: ignored")
    return None


def _log(message: str) -> None:
    sys.stderr.write(f"pliant: {message}\n")
    sys.stderr.flush()


def _log_once(topic: str, message: str) -> None:
    if topic not in _logged_topics:
        _logged_topics.add(topic)
        _log(message)


_logged_topics: set[str] = set()
"""What was logged once: a program may cause it at every step."""
_open_clients: weakref.WeakSet[_MasterJobClient] = weakref.WeakSet()


def _reset_after_fork() -> None:
    """Reset the clients in a forked child, which inherits locks but no threads; its shards belong to the parent."""
    for client in _open_clients:
        client.reset()


def _close_clients() -> None:
    for client in list(_open_clients):
        client.close()


os.register_at_fork(after_in_child=_reset_after_fork)
atexit.register(_close_clients)
