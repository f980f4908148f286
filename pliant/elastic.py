"""The client library for training programs: checkpoints before a replica leaves, membership, data shards and reports.

    job = elastic.join()
    for shard in job.shards("train", size=60_000, shard_size=500, epochs=3, shuffle=7):
        learn(shard.records)
        job.report(step=step, loss=loss)
        if job.should_checkpoint():
            save(model)
            job.acknowledge()

It works with the operator (PLIANT_REPORT_URL), with the master of an ElasticJob (DLROVER_MASTER_ADDR) and without both.
Training never waits for the operator. This is a single file that needs only the standard library of Python 3.8 or
later, so that it can be copied into an image.
"""

from __future__ import annotations

import atexit
import encodings.idna  # noqa: F401 - a fork during its lazy import on connect would break the child
import json
import math
import os
import random
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from email.utils import parsedate_to_datetime
from hashlib import blake2b
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, NoReturn
from urllib.parse import urlsplit

MASTER_TIMEOUT = 600.0
"""Seconds after which the client gives up on an unavailable master."""
LONG_POLL_TIMEOUT = 20.0
"""Seconds that a server may hold a request until there is something new."""
RESPONSE_TIMEOUT = 10.0
"""Seconds that a response may take in addition."""
REPORT_TIMEOUT, MIN_REPORT_INTERVAL = 1.0, 1.0
"""Values that are reported within the interval are merged into one request."""
HEARTBEAT_INTERVAL = 5.0
"""Seconds between two heartbeats without news."""
DONE_REPORT_WINDOW, MAX_REPEATED_SHARDS = 5.0, 200
"""For how many seconds completed shards are reported repeatedly: the master may crash before it saves them."""
ACKNOWLEDGE_TIMEOUT = 5.0
NODE_DRAINING = "NodeDraining"
"""The reason of a request after which the replica continues: the operator does not delete it."""
DEFAULT_GRACE = 30.0
"""Seconds to save the state if the deadline is unknown."""
RUN_DIRECTORY, FILE_CHECK_INTERVAL = "/var/run/pliant", 0.1
"""The directory that the container shares with its preStop hook."""
TERMINATED = 128 + signal.SIGTERM
"""The exit code of a process that SIGTERM has ended."""
FEISTEL_ROUNDS = 4


class Shard(NamedTuple):
    """Numbers of records of one epoch."""

    records: Sequence[int]
    epoch: int

    @property
    def start(self) -> int:
        """The first record; only if the records are consecutive."""
        return self._range.start

    @property
    def end(self) -> int:
        """The record after the last one; only if the records are consecutive."""
        return self._range.stop

    @property
    def _range(self) -> range:
        if not isinstance(self.records, range):
            raise AttributeError("the records of this shard are not consecutive: use shard.records")
        return self.records


@dataclass(frozen=True)
class Member:
    """A running replica; ranks are those of the operator, or of the master of an ElasticJob."""

    name: str
    group: str
    index: int
    rank: int
    address: str


class Membership(NamedTuple):
    """The running replicas in rank order; `rank` is None if this replica is not one of them."""

    generation: int
    rank: int | None
    members: Sequence[Member]


class Round(NamedTuple):
    number: int
    id: str
    rank: int
    world_size: int
    leader: str
    """The address of rank 0."""


class RequestRejected(Exception):
    """The server rejects the request; a retry does not help."""


class _UnknownDataset(RequestRejected):
    """The data set is not registered at the master."""


class MasterUnavailable(Exception):
    """The master did not respond within the timeout."""


class Job:
    """The job of this process; this implementation works with the operator, or standalone."""

    type = "worker"
    id = 0
    is_round_over = False
    """Whether to leave the round and call `rendezvous` again; check it after each step."""
    is_ps_changed = False
    """Whether `ps_hosts` has changed; check it after each step."""

    def __init__(self) -> None:
        env = os.environ
        is_ranked = "RANK" in env and "WORLD_SIZE" in env
        self._lockstep_rank = (int(env["RANK"]), int(env["WORLD_SIZE"])) if is_ranked else (0, 1)
        self.rank = self._lockstep_rank[0]
        self._address = _parse_url(env.get("PLIANT_REPORT_URL", ""))
        self._reset()

    def _reset(self) -> None:
        """Set the initial state, without threads; also called in forked children."""
        alone = Member("worker-0", "worker", 0, self.rank, "127.0.0.1")
        self._operator = _Operator(*self._address, Membership(-1, self.rank, ())) if self._address else None
        self._watch = self._operator.watch if self._operator else _Watch(Membership(0, self.rank, (alone,)))
        self._departure = _Departure(self._operator)

    def should_checkpoint(self) -> bool:
        """Return whether to save the state now and call `acknowledge`; call it after each step.

        The first call announces that this program acknowledges requests. The operator, the preStop hook and SIGTERM
        request checkpoints. After an acknowledged SIGTERM, the call ends the process, as SIGTERM would.
        """
        return self._departure.is_checkpoint_requested()

    def acknowledge(self) -> bool:
        """Confirm that the state is saved; return whether the operator has stored the confirmation by the deadline."""
        return self._departure.acknowledge()

    def leave(self) -> NoReturn:
        """Acknowledge if necessary, wait until the operator deletes this replica, and exit with code 143."""
        self._departure.leave()

    @property
    def is_leaving(self) -> bool:
        """Whether this replica is about to be deleted."""
        return self._departure.is_leaving

    @property
    def deadline(self) -> float | None:
        """The value of `time.monotonic()` at which this replica is deleted, while a checkpoint is requested."""
        return self._departure.deadline

    def membership(self) -> Membership:
        """Return the running members as last known, without waiting; the generation is -1 until they are known."""
        self._watch.start()
        return self._watch.membership

    def wait_membership(self, generation: int, timeout: float) -> Membership:
        """Return the members as soon as their generation is another one, or after `timeout` seconds."""
        return self._watch.wait(generation, timeout)

    def shards(
        self,
        name: str,
        *,
        size: int,
        shard_size: int = 1,
        global_batch: int | None = None,
        epochs: int = 1,
        shuffle: int | None = None,
    ) -> Shards:
        """Return the shards of a data set for this process.

        With a master, each process gets shards of `shard_size` records at its own pace. Without a master, or with a
        `global_batch`, all ranks are in lockstep: they share the batch of each step, which is one shard for each rank,
        or `global_batch` records.
        """
        if global_batch is None and self._has_master:
            return self._lease_shards(name, size=size, shard_size=shard_size, epochs=epochs, shuffle=shuffle)
        shards = Shards(size=size, shard_size=shard_size, global_batch=global_batch, epochs=epochs, shuffle=shuffle)
        shards.resize(*self._lockstep_rank)
        return shards

    _has_master = False

    def _lease_shards(self, name: str, **numbers: int | None) -> Shards:
        raise NotImplementedError

    def report(self, **metrics: Any) -> None:
        """Print numeric metrics and send them to the operator: `report(step=10, loss=0.5)`; never blocks."""
        values = {name: float(value) for name, value in metrics.items() if value is not None}
        words = [f"{name}={int(value) if value.is_integer() else f'{value:.6g}'}" for name, value in values.items()]
        sys.stdout.write(" ".join(("pliant:", *words)) + "\n")
        sys.stdout.flush()
        if self._operator is not None:
            self._operator.report(values)

    def beat(self, step: int | None = None, samples: float | None = None) -> None:
        """Report the total steps and samples of this process to the master with the next heartbeat; never blocks."""

    def rendezvous(self) -> Round:
        """Wait for the other workers and return the rank and world size; requires a master."""
        return Round(1, "alone", 0, 1, "127.0.0.1")

    def ps_hosts(self) -> list[str]:
        """Return the parameter servers in rank order; the master assumes that this process now uses them."""
        return []

    def start(self) -> None:
        """Start the heartbeats of a job with a master."""

    def close(self) -> None:
        """Send the last values before the process exits."""
        if self._operator is not None:
            self._operator.close()

    def reset_after_fork(self) -> None:
        self._departure.restore_handler()
        self._reset()


def join(timeout: float = MASTER_TIMEOUT, checkpoints: bool = False) -> Job:
    """Return the job of this process, from the environment variables; every call returns the same object.

    A request to the master fails after `timeout` seconds. With `checkpoints`, the program announces at once, not at the
    first call of `should_checkpoint`, that it acknowledges requests.
    """
    job = _get_job(timeout)
    job.start()
    if checkpoints:
        job.should_checkpoint()
    return job


def _get_job(timeout: float = MASTER_TIMEOUT) -> Job:
    global _job
    with _job_lock:
        if _job is None:
            address = os.environ.get("DLROVER_MASTER_ADDR", "")
            _job = _MasterJob(address, timeout) if address else Job()
        return _job


def should_checkpoint() -> bool:
    """Call `Job.should_checkpoint` of this process."""
    return _get_job().should_checkpoint()


def acknowledge() -> bool:
    """Call `Job.acknowledge` of this process."""
    return _get_job().acknowledge()


def membership() -> Membership:
    """Call `Job.membership` of this process."""
    return _get_job().membership()


def shards(name: str, *, size: int, **options: Any) -> Shards:
    """Call `Job.shards` of this process."""
    return _get_job().shards(name, size=size, **options)


def report(**metrics: Any) -> None:
    """Call `Job.report` of this process."""
    _get_job().report(**metrics)


@contextmanager
def replace_file(path: str) -> Iterator[BinaryIO]:
    """Open a file that replaces `path` if the block ends without an error, so that a checkpoint is complete."""
    temporary = Path(f"{path}.{socket.gethostname()}-{os.getpid()}")
    try:
        with temporary.open("wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    finally:
        with suppress(OSError):
            temporary.unlink()


class Shards:
    """The shards of a data set, each exactly once per epoch; this implementation is for ranks in lockstep.

    The order of an epoch depends only on size, shard size, seed and epoch. All ranks are at the same position, and a
    step moves it by one batch. The position belongs into the checkpoint.
    """

    def __init__(
        self,
        *,
        size: int,
        shard_size: int = 1,
        global_batch: int | None = None,
        epochs: int = 1,
        shuffle: int | None = None,
    ) -> None:
        # The arguments may be NumPy integers.
        self._size, self._shard_size = int(size), int(shard_size)
        self._seed = None if shuffle is None else int(shuffle)
        batch = self._shard_size if global_batch is None else int(global_batch)
        numbers = {"size": size, "shard_size": shard_size, "epochs": epochs, "global_batch": batch}
        for name, value in numbers.items():
            if value < 1:
                raise ValueError(f"{name}: must be at least 1, got {value}")
        if batch % self._shard_size:
            raise ValueError(f"global_batch: must be a multiple of shard_size {shard_size}, got {global_batch}")
        self._batch = None if global_batch is None else batch // self._shard_size
        self._per_epoch = -(-self._size // self._shard_size)
        self._total = self._per_epoch * int(epochs)
        self.rank, self.world_size = 0, 1
        self._position = 0
        """Number of shards in all epochs before the current step."""
        self._current: int | None = None
        """The position of the step that the program has begun and not finished."""

    def __iter__(self) -> Iterator[Shard]:
        """Yield the shard of each step; a step counts when `advance` is called, or when the next one is requested."""
        while self._position < self._total:
            position = self._current = self._position
            try:
                yield self._part_at(position)
            except GeneratorExit:
                self._current = None
                raise
            if self._current == position:
                self.advance()

    def upcoming(self) -> Iterator[Shard]:
        """Yield the shards from the current step on without counting them, for a loader that reads ahead."""
        position = self._position
        while position < self._total:
            yield self._part_at(position)
            position = self._step_end(position)

    def advance(self) -> None:
        """Count the records of the current step: the model contains them."""
        self._position, self._current = self._step_end(self._position), None

    def resize(self, rank: int, world_size: int) -> None:
        """Continue at the same position with another number of ranks; a step that was begun is repeated."""
        if not 0 <= rank < world_size:
            raise ValueError(f"rank: must be at least 0 and below world_size {world_size}, got {rank}")
        self.rank, self.world_size, self._current = rank, world_size, None

    def state_dict(self) -> dict[str, Any]:
        """Return the position, which is the same for all ranks; save it together with the model."""
        if self._current is not None:
            raise RuntimeError("call advance() when the model contains the records of the current step, then save both")
        return {"position": self._position, **self._order}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue at the position of a checkpoint."""
        for name, value in self._order.items():
            if state[name] != value:
                raise ValueError(f"{name}: the checkpoint has {state[name]}, not {value}")
        self._position, self._current = state["position"], None

    @property
    def _order(self) -> dict[str, Any]:
        return {"size": self._size, "shard_size": self._shard_size, "shuffle": self._seed}

    def _step_end(self, position: int) -> int:
        epoch_end = (position // self._per_epoch + 1) * self._per_epoch
        return min(position + (self._batch or self.world_size), epoch_end)

    def _part_at(self, position: int) -> Shard:
        """Return the part of this rank; it may be empty in the last step of an epoch."""
        epoch, first = divmod(position, self._per_epoch)
        count = self._step_end(position) - position
        start, end = (first + count * rank // self.world_size for rank in (self.rank, self.rank + 1))
        if self._seed is None or start == end:
            return Shard(self._records(start, end), epoch)
        numbers = [_permute_index(index, self._per_epoch, f"{self._seed}/{epoch}") for index in range(start, end)]
        ranges = [self._records(number, number + 1) for number in numbers]
        return Shard(ranges[0] if len(ranges) == 1 else [record for each in ranges for record in each], epoch)

    def _records(self, start: int, end: int) -> range:
        return range(min(start * self._shard_size, self._size), min(end * self._shard_size, self._size))


def _permute_index(index: int, count: int, seed: str) -> int:
    """Map an index below `count` to another by a pseudo-random permutation; the master uses the same one.

    A Feistel network permutes the numbers of a fixed number of bits; it is applied until the result is below `count`.
    """
    half = max(1, (count - 1).bit_length() + 1 >> 1)
    mask = (1 << half) - 1
    while True:
        left, right = index >> half, index & mask
        for round_number in range(FEISTEL_ROUNDS):
            digest = blake2b(f"{seed}/{round_number}/{right}".encode(), digest_size=8).digest()
            left, right = right, left ^ (int.from_bytes(digest, "big") & mask)
        index = left << half | right
        if index < count:
            return index


class _Request(NamedTuple):
    """A checkpoint that the operator requests; the deadline is on the clock of `time.monotonic`."""

    id: int
    deadline: float
    is_leaving: bool = True
    """Whether the operator deletes this replica afterwards; it does not if the node is being drained."""


class _Departure:
    """Checkpoint requests to this replica: from the operator, from the file of the preStop hook, and by SIGTERM."""

    def __init__(self, operator: _Operator | None) -> None:
        self._operator = operator
        self._is_announced = False
        self._answered: _Request | None = None
        """The request for which the program saves its state."""
        self._acknowledged = _Request(0, 0.0)
        """The last request for which it has."""
        self._is_stored = False
        """Whether the operator has stored the last acknowledgement."""
        self._saved_until: float | None = None
        """Until when the saved state is the last one: a replica that still runs after the deadline trains on."""
        self._has_directory, self._next_file_check = False, 0.0
        self._ending_since: float | None = None
        """When the file was seen, or SIGTERM arrived."""
        self._terminated_at: float | None = None
        self._previous_handler: Any = None

    def is_checkpoint_requested(self) -> bool:
        if not self._is_announced:
            self._announce()
        request = self._open_request
        if request is not None:
            self._answered = request
            return True
        is_ending = self._is_ending()
        if self._saved_until is not None and (self._ending_since or time.monotonic()) > self._saved_until:
            self._saved_until = None
            self._remove_file("checkpoint-done")
        if self._saved_until is None or not is_ending:
            return is_ending
        if self._terminated_at is not None and self._previous_handler is signal.SIG_DFL:
            raise SystemExit(TERMINATED)
        return False

    @property
    def _open_request(self) -> _Request | None:
        request = self._operator.watch.request if self._operator is not None else None
        return request if request is not None and request.id != self._acknowledged.id else None

    @property
    def is_leaving(self) -> bool:
        requests = (self._open_request, self._acknowledged if self._acknowledged.deadline > time.monotonic() else None)
        return self._is_ending() or any(request is not None and request.is_leaving for request in requests)

    @property
    def deadline(self) -> float | None:
        acknowledged = self._acknowledged if self._acknowledged.deadline > time.monotonic() else None
        request = self._open_request or acknowledged
        deadlines = [request.deadline] if request is not None else []
        deadlines += [self._ending_since + DEFAULT_GRACE] if self._is_ending() and self._ending_since else []
        return min(deadlines, default=None)

    def acknowledge(self) -> bool:
        request, self._answered = self._answered, None
        if request is None and not self._is_ending():
            return False
        if request is None or request.is_leaving or self._is_ending():
            self._saved_until = math.inf if request is None else request.deadline
            self._write_file("checkpoint-done")
        if self._operator is None or request is None:
            return False
        self._acknowledged = request
        self._is_stored = self._operator.acknowledge(request.id, request.deadline)
        return self._is_stored

    def leave(self) -> NoReturn:
        if self._saved_until is None:
            self.acknowledge()
        deadline = min(self.deadline or 0.0, time.monotonic() + DEFAULT_GRACE)
        # The operator deletes the pod. If the process ended before that, the kubelet might restart the container.
        while self._is_stored and not self._is_ending() and time.monotonic() < deadline:
            time.sleep(FILE_CHECK_INTERVAL)
        raise SystemExit(TERMINATED)

    def _announce(self) -> None:
        self._is_announced = True
        if self._operator is not None:
            self._operator.announce()
        self._has_directory = self._write_file("acknowledges")
        if self._has_directory:
            self._remove_file("checkpoint-done")  # of an earlier container of this pod
        if threading.current_thread() is threading.main_thread():
            previous = signal.getsignal(signal.SIGTERM)
            # A handler that Python did not install cannot be called; a process that ignores SIGTERM continues to do so.
            if callable(previous) or previous is signal.SIG_DFL:
                self._previous_handler = previous
                signal.signal(signal.SIGTERM, self._handle_sigterm)

    def _handle_sigterm(self, number: int, frame: Any) -> None:
        now = time.monotonic()
        if self._terminated_at is None:
            self._terminated_at = now
            self._ending_since = self._ending_since or now
        if callable(self._previous_handler):
            self._previous_handler(number, frame)
        elif now > self._terminated_at + DEFAULT_GRACE:
            raise SystemExit(TERMINATED)  # the program no longer calls should_checkpoint

    def restore_handler(self) -> None:
        """Install the previous handler, also in a forked child, which its parent may end by SIGTERM."""
        if self._previous_handler is not None and signal.getsignal(signal.SIGTERM) == self._handle_sigterm:
            with suppress(ValueError):  # not in the main thread
                signal.signal(signal.SIGTERM, self._previous_handler)

    def _is_ending(self) -> bool:
        if self._ending_since is None and self._has_directory:
            now = time.monotonic()
            if now >= self._next_file_check:
                self._next_file_check = now + FILE_CHECK_INTERVAL
                if os.path.exists(f"{RUN_DIRECTORY}/checkpoint-requested"):  # noqa: PTH110 - cheap in every step
                    self._ending_since = now
        return self._ending_since is not None

    @staticmethod
    def _write_file(name: str) -> bool:
        try:
            Path(RUN_DIRECTORY, name).touch()
        except OSError:
            return False  # the container has no such directory
        return True

    @staticmethod
    def _remove_file(name: str) -> None:
        with suppress(OSError):
            Path(RUN_DIRECTORY, name).unlink()


class _Pauses:
    """Growing pauses with jitter between the attempts of a request."""

    def __init__(self) -> None:
        self._pause = 0.1

    def next(self, *, is_rejected: bool = False) -> float:
        pause = self._pause * random.uniform(0.5, 1.5)
        self._pause = min(2 * self._pause, 30.0 if is_rejected else 5.0)
        return pause


class _Watch:
    """The last known membership and checkpoint request; long-polls in a daemon thread keep them current."""

    def __init__(
        self,
        membership: Membership,
        poll: Callable[[_Watch, float], Membership] | None = None,
        connection: _Connection | None = None,
    ) -> None:
        self.membership, self._connection = membership, connection
        self.request: _Request | None = None
        self._poll = poll
        self._changed, self._closing = threading.Condition(), threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        if self._thread is None and self._poll is not None:
            self._thread = threading.Thread(target=self._poll_loop, args=[self._poll], name="pliant-watch", daemon=True)
            self._thread.start()

    def wait(self, generation: int, timeout: float) -> Membership:
        self.start()
        with self._changed:
            self._changed.wait_for(lambda: self.membership.generation != generation, timeout)
        return self.membership

    def close(self) -> None:
        """End the thread after its current request."""
        self._closing.set()

    def _poll_loop(self, poll: Callable[[_Watch, float], Membership]) -> None:
        wait, pauses = 0.0, _Pauses()
        while not self._closing.is_set():
            before, start = (self.membership, self.request), time.monotonic()
            try:
                membership = poll(self, wait)
            except Exception as problem:  # also a malformed response: the last known membership stays
                is_rejected = isinstance(problem, RequestRejected)
                if is_rejected:
                    _log_once("membership", f"a request for the membership was rejected: {problem}")
                self._closing.wait(pauses.next(is_rejected=is_rejected))
                continue
            with self._changed:
                self.membership = membership
                self._changed.notify_all()
            # A server that ignores `wait` must not be flooded.
            is_hasty = before == (membership, self.request) and time.monotonic() - start < wait / 2
            self._closing.wait(1.0 if is_hasty else 0.05)
            wait, pauses = LONG_POLL_TIMEOUT, _Pauses()
        if self._connection is not None:
            self._connection.close()


class _Operator:
    """Requests to the operator: one thread reports and acknowledges, another one watches the membership."""

    def __init__(self, address: str, path: str, membership: Membership) -> None:
        headers = {"Authorization": f"Bearer {os.environ.get('PLIANT_REPORT_TOKEN', '')}"}
        self._connection, self._path = _Connection(address, lambda _: headers), path
        self.watch = _Watch(membership, self._poll, self._connection)
        self._pending: dict[str, float] = {}
        self._unstored: int | None = None
        """The acknowledgement to send, until the operator has stored it."""
        self._is_rejected, self._retry_at = False, 0.0
        self._answered = threading.Condition()
        self._wakeup, self._closing = threading.Event(), threading.Event()
        self._thread: threading.Thread | None = None

    def announce(self) -> None:
        self.watch.start()
        self._unstored = 0
        self._wake()

    def acknowledge(self, request_id: int, deadline: float) -> bool:
        """Return whether the operator has stored the acknowledgement by the deadline."""
        with self._answered:
            self._unstored, self._retry_at, self._is_rejected = request_id, 0.0, False
            self._wake()
            timeout = max(0.0, min(deadline - time.monotonic(), DEFAULT_GRACE))
            self._answered.wait_for(lambda: self._unstored != request_id or self._is_rejected, timeout)
            return self._unstored != request_id

    def report(self, metrics: dict[str, float]) -> None:
        self._pending = {**self._pending, **metrics}
        self._wake()

    def _wake(self) -> None:
        self._wakeup.set()
        if self._thread is None:
            self._thread = threading.Thread(target=self._send_loop, name="pliant-report", daemon=True)
            self._thread.start()

    def close(self) -> None:
        self.watch.close()
        self._closing.set()
        self._wakeup.set()
        if self._thread is not None:
            self._thread.join(2 * REPORT_TIMEOUT)

    def _send_loop(self) -> None:
        pauses, report_at = _Pauses(), 0.0
        while True:
            is_last = self._closing.is_set()
            if (request_id := self._unstored) is not None and time.monotonic() >= self._retry_at:
                if self._send_acknowledgement(request_id):
                    pauses = _Pauses()
                elif self._unstored == request_id:
                    self._retry_at = time.monotonic() + pauses.next(is_rejected=self._is_rejected)
            if self._pending and (is_last or time.monotonic() >= report_at):
                metrics, self._pending = self._pending, {}
                self._send_report(metrics)
                report_at = time.monotonic() + MIN_REPORT_INTERVAL
            if is_last:
                self._connection.close()
                return
            due = [self._retry_at] if self._unstored is not None else []
            due += [report_at] if self._pending else []
            self._wakeup.wait(max(0.0, min(due) - time.monotonic()) if due else None)
            self._wakeup.clear()

    def _send_acknowledgement(self, request_id: int) -> bool:
        is_stored = is_rejected = False
        try:
            self._connection.send(self._path, {"acknowledgedCheckpoint": request_id}, ACKNOWLEDGE_TIMEOUT)
            is_stored = True
        except RequestRejected as problem:
            is_rejected = True
            _log_once("acknowledgement", f"the operator rejects acknowledgements of checkpoints: {problem}")
        except (OSError, HTTPException):
            pass  # the operator is unreachable
        with self._answered:
            if self._unstored == request_id:
                self._unstored, self._is_rejected = None if is_stored else request_id, is_rejected
                self._answered.notify_all()
        return is_stored

    def _send_report(self, metrics: dict[str, float]) -> None:
        # JSON cannot represent NaN and infinity, which are possible losses.
        body = {name: value if math.isfinite(value) else str(value) for name, value in metrics.items()}
        with suppress(OSError, HTTPException, RequestRejected, ValueError, TypeError, KeyError):
            answer, date = self._connection.send(self._path, body, REPORT_TIMEOUT)
            if answer.get("checkpoint"):  # a response without a checkpoint may be from a replica that knows of none
                self.watch.request = _parse_checkpoint(answer["checkpoint"], date, self.watch.request)

    def _poll(self, watch: _Watch, wait: float) -> Membership:
        checkpoint = watch.request.id if watch.request is not None else 0
        query = f"?generation={max(0, watch.membership.generation)}&checkpoint={checkpoint}&wait={wait:g}"
        answer, date = self._connection.send(self._path + query, None, wait + RESPONSE_TIMEOUT)
        names = ("name", "group", "index", "rank", "address")
        members = tuple(Member(*(member[name] for name in names)) for member in answer["members"])
        rank = None if answer["rank"] is None else int(answer["rank"])
        membership = Membership(int(answer["generation"]), rank, members)
        watch.request = _parse_checkpoint(answer["checkpoint"], date, watch.request)
        return membership


def _parse_url(url: str) -> tuple[str, str] | None:
    """Return address and path of the operator's URL, or None if there is none or it is invalid."""
    try:
        parts = urlsplit(url)
        return (f"{parts.hostname}:{parts.port or 80}", parts.path) if parts.hostname else None
    except ValueError:
        return None


def _parse_checkpoint(fields: Any, date: str | None, known: _Request | None) -> _Request | None:
    """Read a request; the deadline is compared with the operator's clock, which may differ from that of the node."""
    if fields is None:
        return None
    request_id = int(fields["id"])
    if known is not None and known.id == request_id:
        return known
    try:
        end = datetime.fromisoformat(fields["deadline"].replace("Z", "+00:00"))
        left = (end - parsedate_to_datetime(date or "")).total_seconds() - 1.0  # the date has no fractions of seconds
    except (KeyError, ValueError, TypeError, AttributeError):
        left = DEFAULT_GRACE
    return _Request(request_id, time.monotonic() + left, fields.get("reason") != NODE_DRAINING)


class _Connection:
    """HTTP requests with JSON to one server, with one connection per thread."""

    def __init__(self, address: str, make_headers: Callable[[str], dict[str, str]]) -> None:
        self._address = address
        self._make_headers = make_headers
        self._thread_local = threading.local()

    def send(self, path: str, body: dict[str, Any] | None, timeout: float) -> tuple[dict[str, Any], str | None]:
        """Return the response and its date; repeat the request if a reused connection was closed while idle."""
        is_reused = getattr(self._thread_local, "connection", None) is not None
        try:
            status, text, date = self._send_once(path, body, timeout)
        except (ConnectionError, HTTPException):
            if not is_reused:
                raise
            status, text, date = self._send_once(path, body, timeout)
        return _parse_response(status, text), date

    def close(self) -> None:
        """Close the connection of this thread."""
        connection: HTTPConnection | None = getattr(self._thread_local, "connection", None)
        if connection is not None:
            connection.close()
            self._thread_local.connection = None

    def _send_once(self, path: str, body: dict[str, Any] | None, timeout: float) -> tuple[int, str, str | None]:
        connection: HTTPConnection | None = getattr(self._thread_local, "connection", None)
        if connection is None:
            host, _, port = self._address.rpartition(":")
            connection = self._thread_local.connection = HTTPConnection(host.strip("[]"), int(port))
        connection.timeout = timeout
        if connection.sock is not None:
            connection.sock.settimeout(timeout)
        method, data = ("GET", None) if body is None else ("POST", json.dumps(body).encode())
        try:
            connection.request(method, path, data, self._make_headers(method))
            reply = connection.getresponse()
            text = reply.read().decode(errors="replace")
        except BaseException:
            self.close()
            raise
        return reply.status, text, reply.headers["Date"]


def _parse_response(status: int, text: str) -> dict[str, Any]:
    try:
        answer = json.loads(text or "{}")
    except ValueError:
        answer = {"error": text[:200]} if 400 <= status < 500 else None
    if status // 100 not in (2, 4) or status == 429 or not isinstance(answer, dict):
        raise HTTPException(f"HTTP {status}: {text[:200]}")
    if status >= 400:
        raise (_UnknownDataset if status == 404 else RequestRejected)(answer.get("error"))
    return answer


class _MasterConnection(_Connection):
    """Requests to the master of a job."""

    def __init__(self, address: str, timeout: float) -> None:
        super().__init__(address, self._make_master_headers)
        self._timeout = timeout

    @staticmethod
    def _make_master_headers(method: str) -> dict[str, str]:
        key = os.environ.get("PLIANT_MEMBERSHIP_KEY" if method == "GET" else "PLIANT_MASTER_KEY", "")
        return {"Pliant-Job-Uid": os.environ.get("JOB_UID", ""), "Authorization": f"Bearer {key}"}

    def send_with_retries(self, path: str, body: dict[str, Any] | None = None, wait: float = 0.0) -> dict[str, Any]:
        """Send a request until it is answered; raises MasterUnavailable after the timeout."""
        start, pauses, has_logged = time.monotonic(), _Pauses(), False
        while True:
            try:
                answer, _ = self.send(path, body, wait + RESPONSE_TIMEOUT)
            except (OSError, HTTPException) as problem:
                elapsed = time.monotonic() - start
                if elapsed > self._timeout:
                    message = f"no response from {self._address} for {elapsed:.0f} s: {problem}"
                    raise MasterUnavailable(message) from None
                if not has_logged:
                    _log(f"the job's master at {self._address} does not respond ({problem}): waiting")
                    has_logged = True
                time.sleep(pauses.next())
            else:
                if has_logged:
                    _log(f"the job's master responds again after {time.monotonic() - start:.1f} s")
                return answer


class _MasterJob(Job):
    """The client of a job with a master; all requests are idempotent and identify this process."""

    _has_master = True

    def __init__(self, address: str, timeout: float) -> None:
        env = os.environ
        self._connection_args = (address, timeout)
        self._round: int | None = None
        self._ps_version: int | None = None
        super().__init__()
        self.type = env.get("NODE_TYPE") or env.get("WORKER_TYPE") or "worker"
        self.id = int(env.get("NODE_ID") or env.get("WORKER_ID") or 0)
        self.rank = int(env.get("NODE_RANK") or env.get("WORKER_RANK") or self.id)
        self._lockstep_rank = (0, 1)  # until a rendezvous

    def _reset(self) -> None:
        super()._reset()
        self._connection = _MasterConnection(*self._connection_args)
        self._watch = _Watch(Membership(-1, None, ()), self._poll_members, self._connection)
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

    def _lease_shards(self, name: str, **numbers: int | None) -> Shards:
        return _LeasedShards(self, name, numbers)

    def register(self, spec: dict[str, Any]) -> None:
        self._connection.send_with_retries("/v1/datasets", spec)
        self.start()

    def next_shard(self, spec: dict[str, Any]) -> dict[str, Any] | None:
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

    def finish_shard(self, name: str, shard: dict[str, Any]) -> None:
        self._held_shards.get(name, set()).discard(shard["position"])
        self._done_shards.setdefault(name, []).append((time.monotonic(), shard["position"]))
        self._samples_done += shard["end"] - shard["start"]
        self._wakeup.set()

    def return_shard(self, name: str, shard: dict[str, Any]) -> None:
        self._held_shards.get(name, set()).discard(shard["position"])
        # On an error, the master frees the shard at the next request or when heartbeats stop.
        with suppress(OSError, HTTPException, RequestRejected):
            body = {**self._identity, "failed": [shard["position"]]}
            self._connection.send(f"/v1/datasets/{name}/report", body, 1.0)

    def report(self, **metrics: Any) -> None:
        super().report(**metrics)
        if self._thread is not None:
            self.beat(metrics.get("step"), metrics.get("samples"))

    def beat(self, step: int | None = None, samples: float | None = None) -> None:
        metrics = {"step": _parse_metric("step", step, int), "samples": _parse_metric("samples", samples, float)}
        metrics = {name: value for name, value in metrics.items() if value is not None}
        self._latest_metrics = {**self._latest_metrics, **metrics}
        self.start()
        self._wakeup.set()

    def _poll_members(self, watch: _Watch, wait: float) -> Membership:
        path = f"/v1/membership?generation={watch.membership.generation}&wait={wait:g}"
        answer, _ = self._connection.send(path, None, wait + RESPONSE_TIMEOUT)
        members, own_rank = [], None
        for member in answer["members"]:
            group, index, rank = member["type"], member["id"], member["rank"]
            members.append(Member(f"{group}-{index}", group, index, rank, member["address"]))
            if (group, index) == (self.type, self.id):
                own_rank = rank
        return Membership(answer["generation"], own_rank, tuple(members))

    def rendezvous(self) -> Round:
        body = {**self._identity, "address": os.environ.get("POD_IP", ""), "wait": LONG_POLL_TIMEOUT}
        self._round = None  # heartbeats must not report the round that this process leaves
        while True:
            answer = self._connection.send_with_retries("/v1/rendezvous", body, LONG_POLL_TIMEOUT)
            if "round" in answer:
                self._round, self.is_round_over = answer["round"], False
                self._wakeup.set()
                self._lockstep_rank = answer["rank"], answer["world_size"]
                names = ("round", "id", "rank", "world_size", "leader")
                return Round(*(answer[name] for name in names))
            body["ticket"] = answer["ticket"]

    def ps_hosts(self) -> list[str]:
        answer = self._connection.send_with_retries("/v1/ps")
        self._ps_version, self.is_ps_changed = answer["version"], False
        self._wakeup.set()
        return list(answer["hosts"])

    def start(self) -> None:
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
        versions = {"round": round_, "ps_version": version, "generation": max(0, self._watch.membership.generation)}
        body = {**metrics, **samples, **self._latest_metrics, **versions, "holding": held, "done": done}
        answer, _ = self._connection.send("/v1/heartbeat", {**body, **self._identity}, RESPONSE_TIMEOUT)
        if round_ == self._round:
            self.is_round_over = bool(answer.get("restart"))
        self.is_ps_changed = version == self._ps_version and answer["ps_version"] != (version or 0)
        return float(answer["heartbeat_interval"])

    def close(self) -> None:
        self._closing.set()
        self._wakeup.set()
        if self._thread is not None:
            self._thread.join(1.0)
        super().close()


class _LeasedShards(Shards):
    """Shards that the master assigns to this process; the master keeps the position."""

    def __init__(self, job: _MasterJob, name: str, numbers: dict[str, int | None]) -> None:
        self._job, self._name = job, name
        # The arguments may be NumPy integers.
        self._spec = {"name": name, **{key: None if value is None else int(value) for key, value in numbers.items()}}
        self._lease: dict[str, Any] | None = None

    def __iter__(self) -> Iterator[Shard]:
        self._job.register(self._spec)
        while (lease := self._job.next_shard(self._spec)) is not None:
            self._lease = lease
            try:
                yield Shard(range(lease["start"], lease["end"]), lease["epoch"])
            except GeneratorExit:
                if self._lease is not None:
                    self._job.return_shard(self._name, lease)
                raise
            self.advance()

    def upcoming(self) -> Iterator[Shard]:
        raise NotImplementedError("the master assigns shards one by one: iterate over the shards themselves")

    def advance(self) -> None:
        lease, self._lease = self._lease, None
        if lease is not None:
            self._job.finish_shard(self._name, lease)

    def resize(self, rank: int, world_size: int) -> None:
        """Do nothing: the shards do not depend on the number of workers."""

    def state_dict(self) -> dict[str, Any]:
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Do nothing: the master has the position."""


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
_job: Job | None = None
_job_lock = threading.Lock()
_mask_before_fork = threading.local()


def _block_sigterm() -> None:
    """Hold SIGTERM until a forked child has no longer the handler of its parent; otherwise it might be lost."""
    _mask_before_fork.mask = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])


def _unblock_sigterm() -> None:
    signal.pthread_sigmask(signal.SIG_SETMASK, _mask_before_fork.mask)


def _reset_after_fork() -> None:
    """Reset the job in a forked child, which inherits locks but no threads; its shards belong to the parent."""
    global _job_lock
    _job_lock = threading.Lock()
    if _job is not None:
        _job.reset_after_fork()
    _unblock_sigterm()


def _close_job() -> None:
    if _job is not None:
        _job.close()


os.register_at_fork(before=_block_sigterm, after_in_parent=_unblock_sigterm, after_in_child=_reset_after_fork)
atexit.register(_close_job)
