"""What members report about their training: any operator takes it, and writes it into the status now and then."""

from __future__ import annotations

import asyncio
import hmac
import logging
import math
import re
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from socket import socket
from typing import Any, NamedTuple

import msgspec

from pliant.errors import ApiError
from pliant.frameworks.reporting import PREFIX, Reporting, path_of, token
from pliant.kube.client import KubeClient
from pliant.kube.resources import Resource
from pliant.model.job import Job
from pliant.runtime.clock import Clock
from pliant.runtime.posts import Answer, Post, taking

EVERY = 30.0
"""Seconds between two writes about one job, however often its members report."""
MOST_JOBS = 10_000
MOST_FIGURES = 8
LARGEST = 2**53
_NAME = re.compile(r"[A-Za-z_][\w.]{0,31}")
_SEGMENT = re.compile(r"[A-Za-z0-9][-.A-Za-z0-9]{0,252}")

log = logging.getLogger(__name__)


class _Malformed(ValueError):
    """A report that cannot be used, and why."""


class JobPath(NamedTuple):
    """A job as the path of a report names it."""

    group: str
    version: str
    plural: str
    namespace: str
    name: str
    uid: str

    @property
    def resource(self) -> Resource:
        """Where the job is served."""
        return Resource(self.group, self.version, self.plural, "")


@dataclass(slots=True)
class _Page:
    """What is known of one job, and whether that has been written."""

    step: int | None = None
    total: int | None = None
    figures: dict[str, str] = field(default_factory=dict)
    by: str = ""
    at: str = ""
    is_new: bool = False

    def note(self, told: Mapping[str, float], by: str, at: str) -> None:
        """Add what is told to what is known."""
        for name, value in told.items():
            if name in ("step", "total"):
                setattr(self, name, int(value))
            elif name in self.figures or len(self.figures) < MOST_FIGURES:
                self.figures[name] = f"{value:.6g}"
        self.by, self.at, self.is_new = by, at, True

    def progress(self) -> dict[str, Any]:
        """What the status shall say."""
        found = {"step": self.step, "total": self.total, "metrics": dict(self.figures), "by": self.by}
        return {name: value for name, value in {**found, "at": self.at}.items() if value not in (None, {}, "")}


class ReportDesk:
    """Holds the latest report of each job, and writes it as seldom as it must.

    It needs nothing but the secret: not the lease, not the job's object. So every operator of several can take
    every report.
    """

    def __init__(self, client: KubeClient, clock: Clock, secret: bytes, url: str) -> None:
        self.contract = Reporting(url, secret)
        self._client = client
        self._clock = clock
        self._secret = secret
        self._pages: dict[JobPath, _Page] = {}
        self._tasks: asyncio.TaskGroup | None = None
        self._writers: set[asyncio.Task[None]] = set()

    @asynccontextmanager
    async def open(self, where: socket | tuple[str | None, int]) -> AsyncIterator[None]:
        """Take reports while the block runs."""
        async with self.writing(), taking(self.take, where):
            yield

    @asynccontextmanager
    async def writing(self) -> AsyncIterator[None]:
        """Write down what is taken while the block runs."""
        async with asyncio.TaskGroup() as tasks:
            self._tasks = tasks
            try:
                yield
            finally:
                self._tasks = None
                for writer in self._writers:
                    writer.cancel()

    def take(self, post: Post) -> Answer:
        """Note one report, if it comes from a member of the job it speaks of."""
        path, _, member = post.path.rpartition("/")
        job = _job_at(path)
        if job is None or not _SEGMENT.fullmatch(member):
            return Answer("post to $PLIANT_REPORT_URL", HTTPStatus.NOT_FOUND)
        kind, _, given = post.headers.get("authorization", "").partition(" ")
        wanted = token(self._secret, f"{path}/")
        if kind.lower() != "bearer" or not hmac.compare_digest(given.strip().encode(), wanted.encode()):
            return Answer("send `Authorization: Bearer $PLIANT_REPORT_TOKEN`", HTTPStatus.UNAUTHORIZED)
        try:
            told = figures_in(post.body)
        except _Malformed as problem:
            return Answer(str(problem), HTTPStatus.BAD_REQUEST)
        return self._note(job, told, member)

    def reported(self, job: Job) -> dict[str, Any]:
        """What the status shall say of reports at its next write, whoever makes it; empty if nothing came in."""
        path = _job_at(path_of(job).removesuffix("/"))
        page = self._pages.get(path) if path else None
        return {"progress": page.progress()} if page else {}

    def _note(self, job: JobPath, told: Mapping[str, float], by: str) -> Answer:
        page = self._pages.get(job)
        if self._tasks is None or (page is None and len(self._pages) >= MOST_JOBS):
            return Answer("too busy; report again later", HTTPStatus.SERVICE_UNAVAILABLE)
        at = self._clock.now().replace(microsecond=0).isoformat().replace("+00:00", "Z")
        if page is None:
            page = self._pages[job] = _Page()
            writer = self._tasks.create_task(self._write_up(job, page))
            self._writers.add(writer)
            writer.add_done_callback(self._writers.discard)
        page.note(told, by, at)
        return Answer(status=HTTPStatus.ACCEPTED)

    async def _write_up(self, job: JobPath, page: _Page) -> None:
        """Write what is new, then nothing for a while; a job that has gone silent is forgotten."""
        try:
            while page.is_new:
                page.is_new = False
                await self._write(job, page)
                await asyncio.sleep(EVERY)
        finally:
            del self._pages[job]

    async def _write(self, job: JobPath, page: _Page) -> None:
        patch = {"metadata": {"uid": job.uid}, "status": {"progress": page.progress()}}
        try:
            await self._client.patch(job.resource, job.namespace, job.name, patch, subresource="status")
        except ApiError as problem:
            # The job is gone, or the API server busy: nothing of this is worth another try.
            log.debug("report not written", extra={"job": f"{job.namespace}/{job.name}", "because": str(problem)})


def figures_in(body: bytes) -> dict[str, float]:
    """The numbers of a report by name; raises ValueError saying what is wrong with it."""
    try:
        told = msgspec.json.decode(body, type=dict[str, float | str | None])
    except msgspec.DecodeError as error:
        raise _Malformed(
            f'a report is JSON of names and numbers, as {{"step": 10, "loss": 0.5}}: {error}'
        ) from None
    found: dict[str, float] = {}
    for name, value in list(told.items())[: MOST_FIGURES + 2]:
        if value is not None:
            found[name] = _number(name, value)
    if not found:
        raise _Malformed('a report says something, as {"step": 10, "loss": 0.5}')
    return found


def _number(name: str, value: float | str) -> float:
    if not _NAME.fullmatch(name):
        raise _Malformed(f"{name!r}: a name has letters, digits, `_` and `.`, and 32 of them at most")
    try:
        number = float(value)  # JSON has no word for nan, but losses have
    except ValueError:
        raise _Malformed(f"{name}: {value!r} is not a number") from None
    if name in ("step", "total") and not (math.isfinite(number) and 0 <= number <= LARGEST):
        raise _Malformed(f"{name}: {value} is not a number of steps")
    return number


def _job_at(path: str) -> JobPath | None:
    parts = path.removeprefix(PREFIX).split("/")
    if not path.startswith(PREFIX) or len(parts) != len(JobPath._fields):
        return None
    return JobPath(*parts) if all(map(_SEGMENT.fullmatch, parts)) else None


def kept(status: Mapping[str, Any]) -> dict[str, Any]:
    """What a status holds of reports: whoever writes the rest of it leaves that alone."""
    return {"progress": status["progress"]} if status.get("progress") else {}
