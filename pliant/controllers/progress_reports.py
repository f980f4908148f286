"""Receives progress reports from replicas and writes them to the job status at intervals."""

from __future__ import annotations

import asyncio
import logging
import math
import re
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime
from http import HTTPStatus
from socket import socket
from typing import Any, NamedTuple

import msgspec

from pliant.controllers.progress_history import (
    history_metrics,
    history_to_dict,
    stored_history,
    with_earlier_history,
    with_point,
)
from pliant.errors import ApiError
from pliant.frameworks.progress_reporting import REPORT_PATH_PREFIX, ProgressReporting, report_path
from pliant.frontends.status.engine_state import raw_status
from pliant.frontends.status.results import ProgressHistory, ProgressPoint
from pliant.kube.client import KubeClient
from pliant.kube.resources import Resource
from pliant.model.job import Job
from pliant.model.job_keys import KeyPurpose, KeyScope, bearer_key, derive_job_key, is_same_key
from pliant.runtime.clock import Clock
from pliant.runtime.http_server import HttpRequest, HttpResponse, serve_requests

STATUS_WRITE_INTERVAL_SECONDS = 30.0  # seconds between two status writes for one job
MAX_TRACKED_JOBS = 10_000
MAX_METRICS = 8
MAX_STEP = 2**53
_METRIC_NAME_PATTERN = re.compile(r"[A-Za-z_][\w.]{0,31}")
_PATH_SEGMENT_PATTERN = re.compile(r"[A-Za-z0-9][-.A-Za-z0-9]{0,252}")

log = logging.getLogger(__name__)


class _MalformedReport(ValueError):
    pass


class JobReportPath(NamedTuple):
    group: str
    version: str
    plural: str
    namespace: str
    name: str
    uid: str

    @property
    def resource(self) -> Resource:
        return Resource(self.group, self.version, self.plural, "")

    @property
    def key_scope(self) -> KeyScope:
        return KeyScope(self.group, self.plural, self.namespace, self.name, self.uid)


@dataclass(slots=True)
class _LatestProgress:
    """The latest report of one job, whether it was written to the status, and the history of the reports."""

    step: int | None = None
    total: int | None = None
    metrics: dict[str, str] = field(default_factory=dict)
    reported_by: str = ""
    reported_at: datetime | None = None
    is_unwritten: bool = False
    history: ProgressHistory = field(default_factory=ProgressHistory)
    is_history_complete: bool = False
    """Whether the history continues the stored one, which an earlier operator may have written."""

    def update(self, values: Mapping[str, float], reported_by: str, reported_at: datetime) -> None:
        for name, value in values.items():
            if name in ("step", "total"):
                setattr(self, name, int(value))
            elif name in self.metrics or len(self.metrics) < MAX_METRICS:
                self.metrics[name] = f"{value:.6g}"
        self.reported_by, self.reported_at, self.is_unwritten = reported_by, reported_at, True
        point = ProgressPoint(time=reported_at, step=self.step, metrics=history_metrics(self.metrics))
        self.history = with_point(self.history, point)

    def continue_history(self, status: Mapping[str, Any]) -> None:
        """Continue the history of a stored status, once."""
        if not self.is_history_complete:
            self.history = with_earlier_history(self.history, stored_history(status))
            self.is_history_complete = True

    def as_status(self) -> dict[str, Any]:
        """Return the field `progress`; without an incomplete history, so that a merge patch keeps the stored one."""
        at = self.reported_at.isoformat().replace("+00:00", "Z") if self.reported_at else ""
        fields: dict[str, Any] = {"step": self.step, "total": self.total, "metrics": dict(self.metrics)}
        fields |= {"reportedBy": self.reported_by, "time": at}
        if self.is_history_complete:
            fields["history"] = history_to_dict(self.history)
        return {name: value for name, value in fields.items() if value not in (None, {}, "")}


class ProgressReceiver:
    """Holds the latest report of each job and writes it to the status at intervals.

    It needs the report secret only, not the lease, so every replica of the operator can receive reports.
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
        async with self.write_in_background(), serve_requests(self.receive, address):
            yield

    @asynccontextmanager
    async def write_in_background(self) -> AsyncIterator[None]:
        async with asyncio.TaskGroup() as tasks:
            self._tasks = tasks
            try:
                yield
            finally:
                self._tasks = None
                for writer in self._writers:
                    writer.cancel()

    def receive(self, post: HttpRequest) -> HttpResponse:
        """Record a report, if its token belongs to the job in its path."""
        if post.method != "POST":
            return HttpResponse("method not allowed: use POST", HTTPStatus.METHOD_NOT_ALLOWED)
        path, _, replica = post.path.rpartition("/")
        job = _parse_job_path(path)
        if job is None or not _PATH_SEGMENT_PATTERN.fullmatch(replica):
            return HttpResponse("not found: post to $PLIANT_REPORT_URL", HTTPStatus.NOT_FOUND)
        token = bearer_key(post.headers.get("authorization", ""))
        if not is_same_key(token, derive_job_key(self._secret, KeyPurpose.REPORTS, job.key_scope)):
            return HttpResponse("send `Authorization: Bearer $PLIANT_REPORT_TOKEN`", HTTPStatus.UNAUTHORIZED)
        try:
            values = parse_report(post.body)
        except _MalformedReport as error:
            return HttpResponse(str(error), HTTPStatus.BAD_REQUEST)
        return self._record(job, values, replica)

    def status_fields(self, job: Job, before: Mapping[str, Any]) -> dict[str, Any]:
        """Return the status fields to add to the status `before`; empty without a report."""
        path = _parse_job_path(report_path(job).removesuffix("/"))
        latest = self._latest.get(path) if path else None
        if latest is None:
            return {}
        latest.continue_history(before)
        return {"progress": latest.as_status()}

    def _record(self, job: JobReportPath, values: Mapping[str, float], reported_by: str) -> HttpResponse:
        latest = self._latest.get(job)
        if self._tasks is None or (latest is None and len(self._latest) >= MAX_TRACKED_JOBS):
            return HttpResponse("too busy; report again later", HTTPStatus.SERVICE_UNAVAILABLE)
        at = self._clock.now().replace(microsecond=0)
        if latest is None:
            latest = self._latest[job] = _LatestProgress()
            writer = self._tasks.create_task(self._write_periodically(job, latest))
            self._writers.add(writer)
            writer.add_done_callback(self._writers.discard)
        latest.update(values, reported_by, at)
        return HttpResponse(status=HTTPStatus.ACCEPTED)

    async def _write_periodically(self, job: JobReportPath, latest: _LatestProgress) -> None:
        """Write new reports at intervals; forget the job once no report arrives within one interval."""
        try:
            while latest.is_unwritten:
                latest.is_unwritten = False
                await self._patch_status(job, latest)
                await asyncio.sleep(STATUS_WRITE_INTERVAL_SECONDS)
        finally:
            del self._latest[job]

    async def _patch_status(self, job: JobReportPath, latest: _LatestProgress) -> None:
        patch = {"metadata": {"uid": job.uid}, "status": {"progress": latest.as_status()}}
        try:
            written = await self._client.patch(job.resource, job.namespace, job.name, patch, subresource="status")
            latest.continue_history(raw_status(written))
        except ApiError as error:
            # The job is gone or the API server is busy: a later report replaces this one.
            log.debug("progress report not written", extra={"job": f"{job.namespace}/{job.name}", "error": str(error)})


def parse_report(body: bytes) -> dict[str, float]:
    """Return the numbers of a report by name; raise ValueError if it is malformed."""
    try:
        values = msgspec.json.decode(body, type=dict[str, float | str | None])
    except msgspec.DecodeError as error:
        raise _MalformedReport(
            f'a report must be a JSON object of numbers, for example {{"step": 10, "loss": 0.5}}: {error}'
        ) from None
    fields: dict[str, float] = {}
    for name, value in list(values.items())[: MAX_METRICS + 2]:
        if value is not None:
            fields[name] = _parse_metric(name, value)
    if not fields:
        raise _MalformedReport('a report must have at least one value, for example {"step": 10, "loss": 0.5}')
    return fields


def _parse_metric(name: str, value: float | str) -> float:
    if not _METRIC_NAME_PATTERN.fullmatch(name):
        raise _MalformedReport(f"{name!r}: a name must consist of at most 32 letters, digits, `_` and `.`")
    try:
        number = float(value)  # JSON has no NaN, so it arrives as a string
    except ValueError:
        raise _MalformedReport(f"{name}: {value!r} is not a number") from None
    if name in ("step", "total") and not (math.isfinite(number) and 0 <= number <= MAX_STEP):
        raise _MalformedReport(f"{name}: must be an integer from 0 to 2^53, not {value}")
    return number


def _parse_job_path(path: str) -> JobReportPath | None:
    parts = path.removeprefix(REPORT_PATH_PREFIX).split("/")
    if not path.startswith(REPORT_PATH_PREFIX) or len(parts) != len(JobReportPath._fields):
        return None
    return JobReportPath(*parts) if all(map(_PATH_SEGMENT_PATTERN.fullmatch, parts)) else None


def progress_fields(status: Mapping[str, Any]) -> dict[str, Any]:
    """Return the progress field of a status, which other status writers must preserve."""
    return {"progress": status["progress"]} if status.get("progress") else {}
