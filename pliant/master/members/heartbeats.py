"""Heartbeats of members, aggregated over their processes, and the goodput of the job."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import datetime
from typing import Any

from pliant.master.data.shards import MemberProcess
from pliant.master.model import Heartbeat, MemberKey


class HeartbeatTracker:
    def __init__(self, process_timeout: float) -> None:
        self._process_timeout = process_timeout
        """A process without reports for this many seconds is dropped when another process of its pod reports."""
        self._reports: dict[MemberKey, dict[int, tuple[Heartbeat, float]]] = {}
        """The last report of each process, and when it was received."""
        self._ended_samples: dict[MemberKey, float] = {}
        self._heartbeats: dict[MemberKey, Heartbeat] = {}

    def by_member(self) -> Mapping[MemberKey, Heartbeat]:
        return self._heartbeats

    def record_process_report(self, sender: MemberProcess, process_report: Heartbeat, now: float) -> Heartbeat:
        """Store the report of one process; return the heartbeat of its member."""
        reports = self._reports.setdefault(sender.member, {})
        reports[sender.process] = (process_report, now)
        for process in [process for process, (_, at) in reports.items() if now - at > self._process_timeout]:
            # The samples of an ended process still count.
            ended = self._ended_samples.get(sender.member, 0.0) + (reports.pop(process)[0].samples or 0.0)
            self._ended_samples[sender.member] = ended
        ended_samples = self._ended_samples.get(sender.member)
        heartbeat = _aggregate_reports([report for report, _ in reports.values()], ended_samples, process_report.at)
        self._heartbeats[sender.member] = heartbeat
        return heartbeat

    def retain_only_members(self, keys: Collection[MemberKey]) -> None:
        for key in self._heartbeats.keys() - set(keys):
            del self._heartbeats[key]
            self._reports.pop(key, None)
            self._ended_samples.pop(key, None)


def _aggregate_reports(reports: list[Heartbeat], ended_samples: float | None, at: datetime) -> Heartbeat:
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
    """The share of time in which the job made progress beyond its highest step so far."""

    MIN_STALL_SECONDS = 5.0  # a shorter gap between two steps is never a stall

    def __init__(self) -> None:
        self.elapsed_seconds = 0.0
        self.useful_seconds = 0.0
        self.max_step = 0
        self._usual_gap = 0.0
        self._last_progress: float | None = None
        self._last_tick: float | None = None

    def record_progress(self, step: int | None, has_new_samples: bool, now: float) -> None:
        """Record a step or new samples; steps repeated after a failure are no progress."""
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
                # Steps may have become longer: the next such gap counts as useful.
                self._usual_gap = max(self._usual_gap, gap / 6)
        self._last_progress = now

    def advance_time(self, now: float) -> None:
        if self._last_tick is not None:
            self.elapsed_seconds += now - self._last_tick
        self._last_tick = now

    @property
    def goodput(self) -> float:
        return min(1.0, self.useful_seconds / self.elapsed_seconds) if self.elapsed_seconds > 0 else 0.0

    def dump_state(self) -> dict[str, Any]:
        useful, elapsed = round(self.useful_seconds, 3), round(self.elapsed_seconds, 3)
        return {"elapsed": elapsed, "useful": useful, "step": self.max_step}

    def load_state(self, state: Mapping[str, Any]) -> None:
        self.elapsed_seconds, self.useful_seconds, self.max_step = state["elapsed"], state["useful"], state["step"]
