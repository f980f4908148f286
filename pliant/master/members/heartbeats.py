"""What members say of themselves: the latest of each, all its processes together, and what it tells of the job."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

from pliant.master.data.shards import ShardLeaseHolder
from pliant.master.model import Heartbeat, MemberKey


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessReport:
    """What one process says."""

    step: int | None = None
    samples: float | None = None
    cpu: float | None = None
    memory: int | None = None
    ps_version: int | None = None


class _ReceivedReport(NamedTuple):
    report: ProcessReport
    at: datetime
    received_at: float


class HeartbeatTracker:
    """The latest of each member."""

    def __init__(self, process_timeout: float) -> None:
        self._process_timeout = process_timeout
        """Seconds after which a process is left out if others of its pod speak."""
        self._reports: dict[MemberKey, dict[int, _ReceivedReport]] = {}
        self._ended_samples: dict[MemberKey, float] = {}
        self._heartbeats: dict[MemberKey, Heartbeat] = {}

    def by_member(self) -> Mapping[MemberKey, Heartbeat]:
        """The latest that each member said."""
        return self._heartbeats

    def record(self, holder: ShardLeaseHolder, report: ProcessReport, at: datetime, now: float) -> Heartbeat:
        """Take down what a process says; tells what its member says now."""
        lines = self._reports.setdefault(holder.member, {})
        lines[holder.process] = _ReceivedReport(report, at, now)
        for process in [process for process, line in lines.items() if now - line.received_at > self._process_timeout]:
            # What it learned stays learned.
            ended = self._ended_samples.get(holder.member, 0.0) + (lines.pop(process).report.samples or 0.0)
            self._ended_samples[holder.member] = ended
        beat = _aggregate_reports([line.report for line in lines.values()], self._ended_samples.get(holder.member), at)
        self._heartbeats[holder.member] = beat
        return beat

    def retain_only(self, keys: Collection[MemberKey]) -> None:
        """Forget everybody else."""
        for key in self._heartbeats.keys() - set(keys):
            del self._heartbeats[key]
            self._reports.pop(key, None)
            self._ended_samples.pop(key, None)


def _aggregate_reports(reports: list[ProcessReport], ended_samples: float | None, at: datetime) -> Heartbeat:
    steps = [each.step for each in reports if each.step is not None]
    samples = [each.samples for each in reports if each.samples is not None]
    cpus = [each.cpu for each in reports if each.cpu is not None]
    memories = [each.memory for each in reports if each.memory is not None]
    versions = [each.ps_version for each in reports if each.ps_version is not None]
    return Heartbeat(
        at=at,
        step=max(steps, default=None),
        samples=sum(samples) + (ended_samples or 0.0) if samples or ended_samples else None,
        cpu=sum(cpus) if cpus else None,
        memory=sum(memories) if memories else None,
        # The member has switched when all of its processes have.
        ps_version=min(versions, default=None),
    )


class GoodputTracker:
    """Which part of the time was of use: the time in which the job came further than it ever was."""

    MIN_STALL_SECONDS = 5.0
    """Seconds between two steps that are never taken for a standstill."""

    def __init__(self) -> None:
        self.elapsed_seconds = 0.0
        self.useful_seconds = 0.0
        self.max_step = 0
        """The furthest that anybody came."""
        self._usual_gap = 0.0
        self._last_progress: float | None = None
        self._last_tick: float | None = None

    def record_progress(self, step: int | None, has_new_samples: bool, now: float) -> None:
        """Take down a step, or that more was learned; steps done again after a failure are no progress."""
        self.advance_time(now)
        if not has_new_samples and (step is None or step <= self.max_step):
            return
        self.max_step = max(self.max_step, step or 0)
        if self._last_progress is not None:
            gap = now - self._last_progress
            if gap <= max(self.MIN_STALL_SECONDS, 3 * self._usual_gap):
                self.useful_seconds += gap
                self._usual_gap += 0.2 * (gap - self._usual_gap)
            else:
                # Steps may have become longer: the next such gap is not a surprise any more.
                self._usual_gap = max(self._usual_gap, gap / 6)
        self._last_progress = now

    def advance_time(self, now: float) -> None:
        """Let time pass."""
        if self._last_tick is not None:
            self.elapsed_seconds += now - self._last_tick
        self._last_tick = now

    @property
    def goodput(self) -> float:
        """Useful time by elapsed time."""
        return min(1.0, self.useful_seconds / self.elapsed_seconds) if self.elapsed_seconds > 0 else 0.0

    def dump_state(self) -> dict[str, Any]:
        """Everything as a small JSON value."""
        return {
            "elapsed": round(self.elapsed_seconds, 3),
            "useful": round(self.useful_seconds, 3),
            "step": self.max_step,
        }

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Go on where another was saved."""
        self.elapsed_seconds, self.useful_seconds, self.max_step = state["elapsed"], state["useful"], state["step"]
