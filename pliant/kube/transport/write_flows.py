"""Queues writes by namespace and job, and serves them by deficit round robin.

Namespaces take turns, and so do the jobs of a namespace. A turn is worth one unit of cost, which pays for one write of
ordinary size. A larger write costs more: its job and its namespace skip turns until the debt is paid.

Within a job, statuses and deletions precede creations. After `MAX_URGENT_RUN` of them, a waiting creation is next.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Generic, NamedTuple, Protocol, TypeVar

MAX_URGENT_RUN = 8
COST_UNIT_BYTES = 32 * 1024


class WriteFlow(NamedTuple):
    """The job on whose behalf a write is sent; the job is empty for other writes of the namespace, such as events."""

    namespace: str = ""
    job: str = ""


DEFAULT_FLOW = WriteFlow()
"""The flow of writes that belong to no namespace."""


class WriteClass(StrEnum):
    """The class of a write within its flow; a label value of `pliant_writes_waiting`."""

    URGENT = "urgent"
    """Statuses, deletions and repeated writes: users and other controllers wait for them."""
    CREATION = "creation"


def write_cost(body_bytes: int) -> int:
    return 1 + body_bytes // COST_UNIT_BYTES


@dataclass(slots=True, eq=False)
class QueuedWrite:
    flow: WriteFlow
    write_class: WriteClass
    slot: asyncio.Future[int]  # receives the epoch of the write
    queued_at: float
    cost: int = 1
    is_waiting: bool = True


class WriteQueue:
    """Writes that wait for a slot."""

    def __init__(self) -> None:
        self._namespaces: _RoundRobin[_RoundRobin[_JobWrites]] = _RoundRobin()
        self._counts: Counter[WriteClass] = Counter()

    def __len__(self) -> int:
        return self._counts.total()

    def count(self, write_class: WriteClass) -> int:
        return self._counts[write_class]

    def push(self, write: QueuedWrite) -> None:
        jobs = self._namespaces.members.get(write.flow.namespace)
        if jobs is None:
            jobs = self._namespaces.add(write.flow.namespace, _RoundRobin())
        job_writes = jobs.members.get(write.flow.job)
        if job_writes is None:
            job_writes = jobs.add(write.flow.job, _JobWrites())
        job_writes.append(write)
        self._counts[write.write_class] += 1

    def pop(self) -> QueuedWrite | None:
        """Remove and return the next write; None if no write waits."""
        write = self._namespaces.pop()
        if write is not None:
            self.withdraw(write)
        return write

    def withdraw(self, write: QueuedWrite) -> None:
        """Remove a write, whether it is the next one or not."""
        if write.is_waiting:
            write.is_waiting = False
            self._counts[write.write_class] -= 1

    def __iter__(self) -> Iterator[QueuedWrite]:
        for jobs in self._namespaces.members.values():
            for job_writes in jobs.members.values():
                yield from (write for write in job_writes if write.is_waiting)


class _WriteSource(Protocol):
    def pop(self) -> QueuedWrite | None:
        """Remove and return the next write that waits; None if there is none."""

    def is_empty(self) -> bool: ...


M = TypeVar("M", bound=_WriteSource)


class _RoundRobin(Generic[M]):
    """Members that take turns. A member without writes is removed, and its debt is forgotten."""

    def __init__(self) -> None:
        self.members: dict[str, M] = {}
        self._order: deque[str] = deque()  # every member once, the next one to serve first
        self._debts: dict[str, int] = {}  # turns that members have to skip

    def add(self, name: str, member: M) -> M:
        self.members[name] = member
        self._order.append(name)
        return member

    def is_empty(self) -> bool:
        return not self.members

    def pop(self) -> QueuedWrite | None:
        while self._order:
            name = self._order.popleft()
            debt = self._debts.pop(name, 0)
            if debt and self._order:
                self._end_turn(name, debt - 1)
                continue
            member = self.members[name]
            write = member.pop()
            if member.is_empty():
                del self.members[name]
            else:
                self._end_turn(name, write.cost - 1 if write is not None else 0)
            if write is not None:
                return write
        return None

    def _end_turn(self, name: str, debt: int) -> None:
        self._order.append(name)
        if debt:
            self._debts[name] = debt


class _JobWrites:
    def __init__(self) -> None:
        self._queues: dict[WriteClass, deque[QueuedWrite]] = {each: deque() for each in WriteClass}
        self._urgent_run = 0  # urgent writes since the last creation

    def __iter__(self) -> Iterator[QueuedWrite]:
        for queue in self._queues.values():
            yield from queue

    def append(self, write: QueuedWrite) -> None:
        self._queues[write.write_class].append(write)

    def is_empty(self) -> bool:
        return not any(self._queues.values())

    def pop(self) -> QueuedWrite | None:
        urgent, creations = (self._first_waiting(each) for each in (WriteClass.URGENT, WriteClass.CREATION))
        if urgent is not None and (creations is None or self._urgent_run < MAX_URGENT_RUN):
            self._urgent_run += 1
            return self._queues[WriteClass.URGENT].popleft()
        self._urgent_run = 0
        return self._queues[WriteClass.CREATION].popleft() if creations is not None else None

    def _first_waiting(self, write_class: WriteClass) -> QueuedWrite | None:
        queue = self._queues[write_class]
        while queue and not queue[0].is_waiting:
            queue.popleft()
        return queue[0] if queue else None
