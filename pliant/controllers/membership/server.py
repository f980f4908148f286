"""Answers replicas that ask for the membership and for checkpoint requests, and that acknowledge these."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Coroutine, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from http import HTTPStatus
from typing import Any, NamedTuple

import msgspec

from pliant.controllers.membership.acknowledgements import AcknowledgementStore
from pliant.controllers.membership.job_objects import JobObjects, Object, WatchedJobObjects
from pliant.controllers.membership.replica_path import MembershipUnavailable, ReplicaPath, UnknownReplica
from pliant.controllers.membership.view import MembershipView, build_view, checkpoint_request, view_inputs
from pliant.controllers.membership.wait_query import WaitQuery
from pliant.errors import InvalidSpec
from pliant.frontends.frontend import Frontend
from pliant.kube.client import KubeClient
from pliant.kube.resources import Resource
from pliant.model.departures import Departure
from pliant.model.job_keys import KeyScope
from pliant.model.labels import acknowledged_checkpoint
from pliant.plugins.isolation import call_plugin, plugin_of_kind
from pliant.plugins.registry import registered_kinds
from pliant.runtime.http_server import HttpResponse

IDLE_SECONDS = 60.0  # seconds without a request after which a job is forgotten
REPORT_REPLY_SECONDS = 0.5  # seconds that the reply to a report may wait for the job to be read
MAX_TRACKED_JOBS = 10_000
MAX_WAITING_PER_JOB = 10_000
WAKE_BATCH_SIZE = 16
"""Replicas that are woken together; other work of the operator is done between two batches."""

JSON = "application/json"


class _Waiter(NamedTuple):
    replica: str
    query: WaitQuery


@dataclass(slots=True, eq=False)
class _TrackedJob:
    """A job that replicas have asked about lately, and the requests that wait for a change of it."""

    frontend: Frontend
    scope: KeyScope
    requested_at: float
    view: MembershipView | None = None
    error: UnknownReplica | MembershipUnavailable | None = None
    """Why there is no view."""
    changes: int = 1
    """How many changes of the job there were."""
    changes_read: int = 0
    """How many of them the view contains."""
    refresh: asyncio.Task[None] | None = None
    waiters: dict[asyncio.Future[None], _Waiter] = field(default_factory=dict)

    @property
    def is_current(self) -> bool:
        return self.changes_read == self.changes and not isinstance(self.error, MembershipUnavailable)


class MembershipServer:
    """Serves the replicas of all jobs, on any operator: the stores of the leader or single watches provide the jobs."""

    def __init__(self, client: KubeClient, kinds: Iterable[Frontend] | None = None) -> None:
        self._watched = WatchedJobObjects(client, self.on_job_changed)
        self._objects: JobObjects = self._watched
        self._acknowledgements = AcknowledgementStore(client)
        self._kinds = _by_plural(registered_kinds().values() if kinds is None else kinds)
        self._jobs: dict[KeyScope, _TrackedJob] = {}

    @property
    def waiting_count(self) -> int:
        """The number of requests that wait for a change."""
        return sum(len(job.waiters) for job in self._jobs.values())

    @contextmanager
    def use(self, objects: JobObjects, kinds: Iterable[Frontend]) -> Iterator[None]:
        """Take jobs and pods from these objects while the block runs: the operator leads."""
        before, self._kinds = self._kinds, {**self._kinds, **_by_plural(kinds)}
        self._replace_objects(objects)
        try:
            yield
        finally:
            self._kinds = before
            self._replace_objects(self._watched)

    def close(self) -> None:
        self._acknowledgements.close()
        self._watched.close()
        for job in self._jobs.values():
            if job.refresh is not None:
                job.refresh.cancel()
        self._jobs.clear()

    def on_job_changed(self, resource: Resource, old: Object | None, new: Object | None) -> None:
        """Wake the replicas of a job that have to learn of a change. This must not raise."""
        for meta in {each["metadata"]["uid"]: each["metadata"] for each in (old, new) if each is not None}.values():
            scope = KeyScope(resource.group, resource.plural, meta["namespace"], meta["name"], meta["uid"])
            job = self._jobs.get(scope)
            if job is not None and view_inputs(old) != view_inputs(new):
                job.changes += 1
                self._refresh(job)

    def wait_for_change(self, path: ReplicaPath, query: str) -> HttpResponse | Coroutine[Any, Any, HttpResponse]:
        """Return the membership and the checkpoint request as soon as they differ from what the replica knows."""
        try:
            return self._wait_for_change(path, WaitQuery.parse(query))
        except ValueError as error:
            return HttpResponse(str(error), HTTPStatus.BAD_REQUEST)

    def reply_to_report(self, path: ReplicaPath) -> HttpResponse | Coroutine[Any, Any, HttpResponse]:
        """Return the reply to a report that was accepted; it has the checkpoint request, if there is one."""
        try:
            job = self._track(path)
        except (UnknownReplica, MembershipUnavailable):
            return _accepted(None)
        if not job.is_current:
            return self._reply_when_read(job, path.replica)
        return _accepted(self._open_departure(job, path.replica))

    async def acknowledge(self, path: ReplicaPath, number: int) -> HttpResponse:
        """Store that a replica has saved its state for a checkpoint request."""
        try:
            job = self._track(path)
            view = await self._read(job)
            await self._acknowledgements.store(self._objects, job.scope, view.pod_name(path.replica), number)
        except (UnknownReplica, MembershipUnavailable) as error:
            return _failure(error)
        departure = self._open_departure(job, path.replica)
        return _accepted(departure if departure is not None and departure.request > number else None)

    async def _wait_for_change(self, path: ReplicaPath, query: WaitQuery) -> HttpResponse:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + query.seconds
        try:
            job = self._track(path)
            view = await self._read(job)
            view.pod_name(path.replica)  # raises UnknownReplica for a replica that the job cannot have
            if not self._is_due(job, _Waiter(path.replica, query)) and query.seconds:
                if len(job.waiters) >= MAX_WAITING_PER_JOB:
                    raise MembershipUnavailable("too many requests of this job wait")
                await _wait(job, _Waiter(path.replica, query), deadline)
            view = await self._read(job)
        except (UnknownReplica, MembershipUnavailable) as error:
            return _failure(error)
        departure = self._open_departure(job, path.replica)
        return HttpResponse(content_type=JSON, parts=view.encode_reply(path.replica, departure))

    def _track(self, path: ReplicaPath) -> _TrackedJob:
        loop, scope = asyncio.get_running_loop(), path.job.key_scope
        job = self._jobs.get(scope)
        if job is None:
            frontend = self._kinds.get((scope.group, scope.plural))
            if frontend is None:
                raise UnknownReplica(f"not found: unknown kind {scope.plural}.{scope.group}")
            if len(self._jobs) >= MAX_TRACKED_JOBS:
                raise MembershipUnavailable("too many jobs")
            job = self._jobs[scope] = _TrackedJob(frontend, scope, loop.time())
            loop.call_later(IDLE_SECONDS, self._forget_if_idle, job)
            self._refresh(job)
        job.requested_at = loop.time()
        return job

    def _forget_if_idle(self, job: _TrackedJob) -> None:
        loop = asyncio.get_running_loop()
        if self._jobs.get(job.scope) is not job:
            return
        if job.waiters:
            job.requested_at = loop.time()
        idle_until = job.requested_at + IDLE_SECONDS
        if loop.time() < idle_until:
            loop.call_at(idle_until, self._forget_if_idle, job)
            return
        del self._jobs[job.scope]
        self._objects.release(job.scope)

    async def _read(self, job: _TrackedJob) -> MembershipView:
        """Return the current view of a job; raise the reason if there is none."""
        if not job.is_current:
            await asyncio.shield(self._refresh(job))
        if job.view is None:
            raise job.error or MembershipUnavailable("the job cannot be read now")
        return job.view

    def _refresh(self, job: _TrackedJob) -> asyncio.Task[None]:
        if job.refresh is None or job.refresh.done():
            job.refresh = asyncio.create_task(self._read_until_current(job))
        return job.refresh

    async def _read_until_current(self, job: _TrackedJob) -> None:
        """Read a job until it has not changed meanwhile, then wake the replicas that have to learn of it."""
        resource = Resource(job.frontend.group, job.frontend.version, job.frontend.plural, job.frontend.kind)
        while not job.is_current:
            changes = job.changes
            try:
                view, error = await self._read_view(resource, job), None
            except (UnknownReplica, MembershipUnavailable) as reason:
                view, error = None, reason
            job.view, job.error, job.changes_read = view, error, changes
            if error is not None:
                break
        self._wake(job)

    async def _read_view(self, resource: Resource, job: _TrackedJob) -> MembershipView:
        raw = await self._objects.get_job(resource, job.scope)
        if raw is None or raw["metadata"]["uid"] != job.scope.uid:
            raise UnknownReplica("not found: the job is gone")
        try:
            return await call_plugin(plugin_of_kind(job.frontend), partial(build_view, job.frontend, raw))
        except InvalidSpec:
            raise MembershipUnavailable("the job is invalid") from None

    def _wake(self, job: _TrackedJob) -> None:
        due = [future for future, waiter in job.waiters.items() if self._is_due(job, waiter)]
        # Replicas that leave have the least time.
        due.sort(key=lambda future: job.view is None or job.view.departure(job.waiters[future].replica) is None)
        _wake_next(asyncio.get_running_loop(), deque(due))

    def _is_due(self, job: _TrackedJob, waiter: _Waiter) -> bool:
        """Return whether there is something that the replica does not know."""
        if job.view is None or job.view.generation != waiter.query.generation:
            return True
        departure = self._open_departure(job, waiter.replica)
        return departure is not None and departure.request != waiter.query.checkpoint

    def _open_departure(self, job: _TrackedJob, replica: str) -> Departure | None:
        """Return the departure of a replica that it has not acknowledged, as far as this operator knows."""
        found = job.view.departure(replica) if job.view is not None else None
        if job.view is None or found is None:
            return None
        uid, departure = found
        pod = self._objects.find_cached_pod(job.scope.namespace, job.view.pod_name(replica))
        if pod is None:
            return departure
        acknowledged = acknowledged_checkpoint(pod.metadata.annotations) or 0
        return departure if pod.metadata.uid == uid and acknowledged < departure.request else None

    async def _reply_when_read(self, job: _TrackedJob, replica: str) -> HttpResponse:
        try:
            async with asyncio.timeout(REPORT_REPLY_SECONDS):
                await self._read(job)
        except (UnknownReplica, MembershipUnavailable, TimeoutError):
            return _accepted(None)  # the report itself was accepted
        return _accepted(self._open_departure(job, replica))

    def _replace_objects(self, objects: JobObjects) -> None:
        before, self._objects = self._objects, objects
        self._jobs = {scope: job for scope, job in self._jobs.items() if job.waiters}
        for job in self._jobs.values():
            job.changes += 1
            self._refresh(job)
        before.close()


async def _wait(job: _TrackedJob, waiter: _Waiter, deadline: float) -> None:
    """Wait until the waiter is woken or the time is over."""
    loop = asyncio.get_running_loop()
    future = loop.create_future()
    job.waiters[future] = waiter
    timer = loop.call_at(deadline, _wake_next, loop, deque([future]))
    try:
        await future
    finally:
        timer.cancel()
        del job.waiters[future]


def _wake_next(loop: asyncio.AbstractEventLoop, due: deque[asyncio.Future[None]]) -> None:
    for _ in range(min(WAKE_BATCH_SIZE, len(due))):
        future = due.popleft()
        if not future.done():
            future.set_result(None)
    if due:
        loop.call_soon(_wake_next, loop, due)


def _by_plural(kinds: Iterable[Frontend]) -> dict[tuple[str, str], Frontend]:
    return {(kind.group, kind.plural): kind for kind in kinds}


def _accepted(departure: Departure | None) -> HttpResponse:
    body = {} if departure is None else {"checkpoint": checkpoint_request(departure)}
    return HttpResponse(msgspec.json.encode(body).decode(), HTTPStatus.ACCEPTED, JSON)


def _failure(error: UnknownReplica | MembershipUnavailable) -> HttpResponse:
    is_absent = isinstance(error, UnknownReplica)
    return HttpResponse(str(error), HTTPStatus.NOT_FOUND if is_absent else HTTPStatus.SERVICE_UNAVAILABLE)
