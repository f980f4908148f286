"""What happens to a job, as typed values: the items of `Job.follow`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime

from pliant.api.status import JobProgress, read_job_progress
from pliant.cli.cluster.job_lookup import JobObject
from pliant.model.english import render
from pliant.model.messages import Message, MessageReason
from pliant.model.state import FINAL_PHASES, JobPhase, TimelineEntry

_RESTART_REASONS = frozenset({str(JobPhase.RESTARTING), "Disrupted", "MasterIdleRestart"})
_RESIZE_REASON = "Resized"


@dataclass(frozen=True, slots=True, kw_only=True)
class JobUpdate:
    """A change of a job; the class tells which."""

    at: datetime
    reason: str
    """The stable reason of the message (docs/reasons.md)."""
    text: str

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True, kw_only=True)
class PhaseUpdate(JobUpdate):
    """The job entered a phase."""

    phase: str
    is_final: bool = False

    def __str__(self) -> str:
        return f"{self.phase}: {self.text}"


@dataclass(frozen=True, slots=True, kw_only=True)
class RestartUpdate(JobUpdate):
    """Replicas failed, or were disrupted, and are replaced."""

    group: str = ""
    causes: tuple[str, ...] = ()
    """What happened to the replicas: `worker-1 was killed by SIGKILL (exit code 137)`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResizeUpdate(JobUpdate):
    """Groups got other sizes."""

    sizes: Mapping[str, int]
    """The new sizes by group."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgressUpdate(JobUpdate):
    """The program reported progress."""

    progress: JobProgress


class UpdateTracker:
    """Returns what is new in successive states of one job."""

    def __init__(self) -> None:
        self._seen: set[tuple[datetime, str, str]] = set()
        self._progress: JobProgress | None = None

    def new_updates(self, job_object: JobObject) -> Iterator[JobUpdate]:
        """Yield the changes since the last call; at first, all that the status holds."""
        state = job_object.state
        entries = list(state.timeline) if state else []
        is_end = bool(entries) and entries[-1].reason in FINAL_PHASES
        yield from self._new_entries(entries[:-1] if is_end else entries)
        progress = read_job_progress(job_object)
        if progress is not None and progress != self._progress:
            self._progress = progress
            at = progress.at or (entries[-1].at if entries else None)
            if at is not None:
                yield ProgressUpdate(at=at, reason="Progress", text=_progress_text(progress), progress=progress)
        # The end is last, whatever was reported before it.
        yield from self._new_entries(entries[-1:] if is_end else [])

    def _new_entries(self, entries: list[TimelineEntry]) -> Iterator[JobUpdate]:
        for entry in entries:
            key = (entry.at, entry.reason, render(entry.message))
            if key not in self._seen:
                self._seen.add(key)
                yield _to_update(entry)


def _to_update(entry: TimelineEntry) -> JobUpdate:
    reason, text = entry.message.reason or entry.reason, render(entry.message)
    if entry.reason in _RESTART_REASONS:
        group, causes = str(entry.message.parameters.get("group", "")), tuple(map(render, entry.message.details))
        return RestartUpdate(at=entry.at, reason=reason, text=text, group=group, causes=causes)
    if entry.reason == _RESIZE_REASON:
        return ResizeUpdate(at=entry.at, reason=reason, text=text, sizes=_new_sizes(entry.message))
    if entry.reason in frozenset(JobPhase):
        is_final = entry.reason in FINAL_PHASES
        return PhaseUpdate(at=entry.at, reason=reason, text=text, phase=entry.reason, is_final=is_final)
    return JobUpdate(at=entry.at, reason=reason, text=text)


def _new_sizes(message: Message) -> dict[str, int]:
    resized = (detail for detail in message.details if detail.reason == MessageReason.GROUP_RESIZED)
    return {str(each.parameters["group"]): int(each.parameters["after"]) for each in resized}


def _progress_text(progress: JobProgress) -> str:
    step = "" if progress.step is None else f"step {progress.step}" + (f"/{progress.total}" if progress.total else "")
    return "  ".join(filter(None, [step, *(f"{name} {value:.4g}" for name, value in progress.metrics.items())]))
