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
from pliant.frameworks.progress_reporting import REPORT_PATH_PREFIX, ProgressReporting, report_path, report_token
from pliant.kube.client import KubeClient
from pliant.kube.resources import Resource
from pliant.model.job import Job
from pliant.runtime.clock import Clock
from pliant.runtime.http_posts import PostRequest, PostResponse, serve_posts

STATUS_WRITE_INTERVAL = 30.0
"""Seconds between two writes about one job, however often its members report."""
MAX_TRACKED_JOBS = 10_000
MAX_METRICS = 8
MAX_STEP = 2**53
_METRIC_NAME_PATTERN = re.compile(r"[A-Za-z_][\w.]{0,31}")
_PATH_SEGMENT_PATTERN = re.compile(r"[A-Za-z0-9][-.A-Za-z0-9]{0,252}")

log = logging.getLogger(__name__)


class _MalformedReport(ValueError):
    """A report that cannot be used, and why."""


class JobReportPath(NamedTuple):
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
class _LatestProgress:
    """What is known of one job, and whether that has been written."""

    step: int | None = None
    total: int | None = None
    metrics: dict[str, str] = field(default_factory=dict)
    reported_by: str = ""
    reported_at: str = ""
    is_unwritten: bool = False

    def update(self, values: Mapping[str, float], reported_by: str, reported_at: str) -> None:
        """Add what is told to what is known."""
        for name, value in values.items():
            if name in ("step", "total"):
                setattr(self, name, int(value))
            elif name in self.metrics or len(self.metrics) < MAX_METRICS:
                self.metrics[name] = f"{value:.6g}"
        self.reported_by, self.reported_at, self.is_unwritten = reported_by, reported_at, True

    def as_status(self) -> dict[str, Any]:
        """What the status shall say."""
        found = {"step": self.step, "total": self.total, "metrics": dict(self.metrics), "by": self.reported_by}
        return {name: value for name, value in {**found, "at": self.reported_at}.items() if value not in (None, {}, "")}


class ProgressReceiver:
    """Holds the latest report of each job, and writes it as seldom as it must.

    It needs nothing but the secret: not the lease, not the job's object. So every operator of several can take
    every report.
    """

    def __init__(self, client: KubeClient, clock: Clock, secret: bytes, url: str) -> None:
        self.reporting = ProgressReporting(url, secret)
        self._client = client
        self._clock = clock
        self._secret = secret
        self._latest: dict[JobReportPath, _LatestProgress] = {}
        self._tasks: asyncio.TaskGroup | None = None
        self._writers: set[asyncio.Task[None]] = set()

    @asynccontextmanager
    async def serve(self, address: socket | tuple[str | None, int]) -> AsyncIterator[None]:
        """Take reports while the block runs."""
        async with self.write_in_background(), serve_posts(self.receive, address):
            yield

    @asynccontextmanager
    async def write_in_background(self) -> AsyncIterator[None]:
        """Write down what is taken while the block runs."""
        async with asyncio.TaskGroup() as tasks:
            self._tasks = tasks
            try:
                yield
            finally:
                self._tasks = None
                for writer in self._writers:
                    writer.cancel()

    def receive(self, post: PostRequest) -> PostResponse:
        """Note one report, if it comes from a member of the job it speaks of."""
        path, _, member = post.path.rpartition("/")
        job = _parse_job_path(path)
        if job is None or not _PATH_SEGMENT_PATTERN.fullmatch(member):
            return PostResponse("post to $PLIANT_REPORT_URL", HTTPStatus.NOT_FOUND)
        kind, _, given = post.headers.get("authorization", "").partition(" ")
        wanted = report_token(self._secret, f"{path}/")
        if kind.lower() != "bearer" or not hmac.compare_digest(given.strip().encode(), wanted.encode()):
            return PostResponse("send `Authorization: Bearer $PLIANT_REPORT_TOKEN`", HTTPStatus.UNAUTHORIZED)
        try:
            told = parse_report(post.body)
        except _MalformedReport as problem:
            return PostResponse(str(problem), HTTPStatus.BAD_REQUEST)
        return self._record(job, told, member)

    def status_fields(self, job: Job) -> dict[str, Any]:
        """What the status shall say of reports at its next write, whoever makes it; empty if nothing came in."""
        path = _parse_job_path(report_path(job).removesuffix("/"))
        page = self._latest.get(path) if path else None
        return {"progress": page.as_status()} if page else {}

    def _record(self, job: JobReportPath, values: Mapping[str, float], reported_by: str) -> PostResponse:
        page = self._latest.get(job)
        if self._tasks is None or (page is None and len(self._latest) >= MAX_TRACKED_JOBS):
            return PostResponse("too busy; report again later", HTTPStatus.SERVICE_UNAVAILABLE)
        at = self._clock.now().replace(microsecond=0).isoformat().replace("+00:00", "Z")
        if page is None:
            page = self._latest[job] = _LatestProgress()
            writer = self._tasks.create_task(self._write_periodically(job, page))
            self._writers.add(writer)
            writer.add_done_callback(self._writers.discard)
        page.update(values, reported_by, at)
        return PostResponse(status=HTTPStatus.ACCEPTED)

    async def _write_periodically(self, job: JobReportPath, latest: _LatestProgress) -> None:
        """Write what is new, then nothing for a while; a job that has gone silent is forgotten."""
        try:
            while latest.is_unwritten:
                latest.is_unwritten = False
                await self._patch_status(job, latest)
                await asyncio.sleep(STATUS_WRITE_INTERVAL)
        finally:
            del self._latest[job]

    async def _patch_status(self, job: JobReportPath, latest: _LatestProgress) -> None:
        patch = {"metadata": {"uid": job.uid}, "status": {"progress": latest.as_status()}}
        try:
            await self._client.patch(job.resource, job.namespace, job.name, patch, subresource="status")
        except ApiError as problem:
            # The job is gone, or the API server busy: nothing of this is worth another try.
            log.debug("report not written", extra={"job": f"{job.namespace}/{job.name}", "because": str(problem)})


def parse_report(body: bytes) -> dict[str, float]:
    """The numbers of a report by name; raises ValueError saying what is wrong with it."""
    try:
        told = msgspec.json.decode(body, type=dict[str, float | str | None])
    except msgspec.DecodeError as error:
        raise _MalformedReport(
            f'a report is JSON of names and numbers, as {{"step": 10, "loss": 0.5}}: {error}'
        ) from None
    found: dict[str, float] = {}
    for name, value in list(told.items())[: MAX_METRICS + 2]:
        if value is not None:
            found[name] = _parse_metric(name, value)
    if not found:
        raise _MalformedReport('a report says something, as {"step": 10, "loss": 0.5}')
    return found


def _parse_metric(name: str, value: float | str) -> float:
    if not _METRIC_NAME_PATTERN.fullmatch(name):
        raise _MalformedReport(f"{name!r}: a name has letters, digits, `_` and `.`, and 32 of them at most")
    try:
        number = float(value)  # JSON has no word for nan, but losses have
    except ValueError:
        raise _MalformedReport(f"{name}: {value!r} is not a number") from None
    if name in ("step", "total") and not (math.isfinite(number) and 0 <= number <= MAX_STEP):
        raise _MalformedReport(f"{name}: {value} is not a number of steps")
    return number


def _parse_job_path(path: str) -> JobReportPath | None:
    parts = path.removeprefix(REPORT_PATH_PREFIX).split("/")
    if not path.startswith(REPORT_PATH_PREFIX) or len(parts) != len(JobReportPath._fields):
        return None
    return JobReportPath(*parts) if all(map(_PATH_SEGMENT_PATTERN.fullmatch, parts)) else None


def progress_fields(status: Mapping[str, Any]) -> dict[str, Any]:
    """What a status holds of reports: whoever writes the rest of it leaves that alone."""
    return {"progress": status["progress"]} if status.get("progress") else {}
