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

from pliant.controllers.membership.replica_path import JobReportPath, ReplicaPath, parse_job_path, parse_replica_path
from pliant.controllers.membership.server import MembershipServer
from pliant.controllers.progress_history import (
    history_metrics,
    history_to_dict,
    stored_history,
    with_earlier_history,
    with_point,
)
from pliant.errors import ApiError
from pliant.frameworks.progress_reporting import ProgressReporting, report_path
from pliant.frontends.status.engine_state import raw_status
from pliant.frontends.status.results import ProgressHistory, ProgressPoint
from pliant.kube.client import KubeClient
from pliant.model.job import Job
from pliant.model.job_keys import KeyScope
from pliant.runtime.clock import Clock
from pliant.runtime.http_server import EventualResponse, HttpRequest, HttpResponse, serve_requests

STATUS_WRITE_INTERVAL_SECONDS = 30.0  # seconds between two status writes for one job
MAX_TRACKED_JOBS = 10_000
MAX_METRICS = 8
MAX_STEP = 2**53
ACKNOWLEDGEMENT_FIELD = "acknowledgedCheckpoint"
_METRIC_NAME_PATTERN = re.compile(r"[A-Za-z_][\w.]{0,31}")

log = logging.getLogger(__name__)


class _MalformedReport(ValueError):
    pass


class ProgressReport(NamedTuple):
    values: dict[str, float]
    """The numbers of the report by name."""
    acknowledged_checkpoint: int | None
    """The checkpoint request for which the replica has saved its state."""


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

    It needs the report secret only, not the lease, so every replica of the operator can receive reports. It hands
    requests for the membership, and acknowledgements of checkpoint requests, to `membership`.
    """

    def __init__(self, client: KubeClient, clock: Clock, secret: bytes, url: str) -> None:
        self.reporting = ProgressReporting(url, secret)
        self.membership = MembershipServer(client)
        self._client = client
        self._clock = clock
        self._secret = secret
        self._latest: dict[KeyScope, _LatestProgress] = {}
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
                self.membership.close()
                for writer in self._writers:
                    writer.cancel()

    def receive(self, request: HttpRequest) -> EventualResponse:
        """Answer a request of a replica, if its token belongs to the job in its path."""
        path = parse_replica_path(request.path)
        if path is None:
            return HttpResponse("not found: use $PLIANT_REPORT_URL", HTTPStatus.NOT_FOUND)
        if not path.job.is_authorized(self._secret, request.headers.get("authorization", "")):
            return HttpResponse("send `Authorization: Bearer $PLIANT_REPORT_TOKEN`", HTTPStatus.UNAUTHORIZED)
        if request.method == "GET":
            return self.membership.wait_for_change(path, request.query)
        try:
            report = parse_report(request.body)
        except _MalformedReport as error:
            return HttpResponse(str(error), HTTPStatus.BAD_REQUEST)
        if report.values and not self._record(path, report.values):
            return HttpResponse("too busy; report again later", HTTPStatus.SERVICE_UNAVAILABLE)
        if report.acknowledged_checkpoint is not None:
            return self.membership.acknowledge(path, report.acknowledged_checkpoint)
        return self.membership.reply_to_report(path)

    def status_fields(self, job: Job, before: Mapping[str, Any]) -> dict[str, Any]:
        """Return the status fields to add to the status `before`; empty without a report."""
        path = parse_job_path(report_path(job).removesuffix("/"))
        latest = self._latest.get(path.key_scope) if path else None
        if latest is None:
            return {}
        latest.continue_history(before)
        return {"progress": latest.as_status()}

    def _record(self, path: ReplicaPath, values: Mapping[str, float]) -> bool:
        """Record a report; return whether there is room for it."""
        job, reported_by = path
        latest = self._latest.get(job.key_scope)
        if self._tasks is None or (latest is None and len(self._latest) >= MAX_TRACKED_JOBS):
            return False
        at = self._clock.now().replace(microsecond=0)
        if latest is None:
            latest = self._latest[job.key_scope] = _LatestProgress()
            writer = self._tasks.create_task(self._write_periodically(job, latest))
            self._writers.add(writer)
            writer.add_done_callback(self._writers.discard)
        latest.update(values, reported_by, at)
        return True

    async def _write_periodically(self, job: JobReportPath, latest: _LatestProgress) -> None:
        """Write new reports at intervals; forget the job once no report arrives within one interval."""
        try:
            while latest.is_unwritten:
                latest.is_unwritten = False
                await self._patch_status(job, latest)
                await asyncio.sleep(STATUS_WRITE_INTERVAL_SECONDS)
        finally:
            del self._latest[job.key_scope]

    async def _patch_status(self, job: JobReportPath, latest: _LatestProgress) -> None:
        patch = {"metadata": {"uid": job.uid}, "status": {"progress": latest.as_status()}}
        try:
            written = await self._client.patch(job.resource, job.namespace, job.name, patch, subresource="status")
            latest.continue_history(raw_status(written))
        except ApiError as error:
            # The job is gone or the API server is busy: a later report replaces this one.
            log.debug("progress report not written", extra={"job": f"{job.namespace}/{job.name}", "error": str(error)})


def parse_report(body: bytes) -> ProgressReport:
    """Return the content of a report; raise ValueError if it is malformed."""
    try:
        values = msgspec.json.decode(body, type=dict[str, float | str | None])
    except msgspec.DecodeError as error:
        raise _MalformedReport(
            f'a report must be a JSON object of numbers, for example {{"step": 10, "loss": 0.5}}: {error}'
        ) from None
    acknowledged = _parse_acknowledgement(values.pop(ACKNOWLEDGEMENT_FIELD, None))
    fields: dict[str, float] = {}
    for name, value in list(values.items())[: MAX_METRICS + 2]:
        if value is not None:
            fields[name] = _parse_metric(name, value)
    if not fields and acknowledged is None:
        raise _MalformedReport('a report must have at least one value, for example {"step": 10, "loss": 0.5}')
    return ProgressReport(fields, acknowledged)


def _parse_acknowledgement(value: float | str | None) -> int | None:
    if value is None:
        return None
    if isinstance(value, str) or not (0 <= value <= MAX_STEP and value.is_integer()):
        raise _MalformedReport(f"{ACKNOWLEDGEMENT_FIELD}: must be an integer from 0 to 2^53, not {value}")
    return int(value)


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


def progress_fields(status: Mapping[str, Any]) -> dict[str, Any]:
    """Return the progress field of a status, which other status writers must preserve."""
    return {"progress": status["progress"]} if status.get("progress") else {}
