"""Combines what is known of a job over time: progress, sizes, restarts and phases."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from pliant.cli.cluster.job_lookup import JobObject
from pliant.cli.output.progress import parse_number
from pliant.engine.plans.membership import job_in_effect
from pliant.engine.sizing import RESIZED_REASON
from pliant.frontends.status.engine_state import raw_status
from pliant.frontends.status.results import ProgressPoint, read_progress
from pliant.model.english import render
from pliant.model.job import Job
from pliant.model.messages import Message, MessageReason
from pliant.model.state import EngineState, JobPhase, TimelineEntry

STEP_METRIC = "step"
DISRUPTED_REASON = "Disrupted"  # the event of a restart that is not counted
MIN_RATE_SECONDS = 1.0
MAX_RATES = 120


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgressSample:
    """What a replica reported at one time."""

    at: datetime
    step: int | None = None
    metrics: Mapping[str, float] = field(default_factory=dict)

    def value(self, metric: str) -> float | None:
        return self.step if metric == STEP_METRIC else self.metrics.get(metric)


@dataclass(frozen=True, slots=True)
class ReplicaProgress:
    """The progress of one replica, from its log."""

    replica: str
    samples: Sequence[ProgressSample]  # the oldest first


@dataclass(frozen=True, slots=True)
class GroupSize:
    """The size of a group from a time on."""

    at: datetime
    group: str
    size: int


@dataclass(frozen=True, slots=True)
class StepRate:
    """The number of steps per second before a time; None after a fall back to an earlier step."""

    at: datetime
    steps_per_second: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class JobHistory:
    name: str
    kind: str
    namespace: str
    phase: str
    started_at: datetime
    ended_at: datetime  # for a job that has not ended, when the history was read
    samples: Sequence[ProgressSample] = ()
    log_replica: str = ""  # the replica whose log contains the samples
    sizes: Sequence[GroupSize] = ()
    restarts: Sequence[TimelineEntry] = ()
    phases: Sequence[TimelineEntry] = ()
    restart_count: int = 0  # including those that the timeline has dropped

    @property
    def metrics(self) -> list[str]:
        """The reported metrics, losses first; `step` if steps are all that is reported."""
        names = list(dict.fromkeys(name for sample in self.samples for name in sample.metrics))
        if not names and any(sample.step is not None for sample in self.samples):
            return [STEP_METRIC]
        return sorted(names, key=lambda name: "loss" not in name.lower())

    def step_rates(self) -> list[StepRate]:
        """Return the throughput over intervals that are long enough to measure it."""
        steps = [(sample.at, sample.step) for sample in self.samples if sample.step is not None]
        if not steps:
            return []
        interval = max((steps[-1][0] - steps[0][0]).total_seconds() / MAX_RATES, MIN_RATE_SECONDS)
        rates: list[StepRate] = []
        start_at, start_step = steps[0]
        for at, step in steps[1:]:
            seconds = (at - start_at).total_seconds()
            if step < start_step:
                rates.append(StepRate(at, None))
            elif seconds >= interval:
                rates.append(StepRate(at, (step - start_step) / seconds))
            else:
                continue
            start_at, start_step = at, step
        return rates


def build_job_history(job_object: JobObject, from_log: ReplicaProgress | None, now: datetime) -> JobHistory:
    state = job_object.state
    timeline = state.timeline if state is not None else ()
    reported = list(reported_samples(job_object))
    samples = merge_samples(reported, from_log.samples if from_log else ())
    created_at = state.started_at if state is not None else job_object.created_at or now
    return JobHistory(
        name=job_object.key.name,
        kind=job_object.frontend.kind,
        namespace=job_object.key.namespace,
        phase=job_object.phase,
        started_at=min([created_at, *(sample.at for sample in samples[:1])]),
        ended_at=max([(state.ended_at if state else None) or now, *(sample.at for sample in samples[-1:])]),
        samples=samples,
        log_replica=from_log.replica if from_log else "",
        sizes=_size_changes(job_object.job, state) if job_object.job and state else (),
        restarts=[entry for entry in timeline if entry.reason in (JobPhase.RESTARTING, DISRUPTED_REASON)],
        phases=[entry for entry in timeline if entry.reason in frozenset(JobPhase)],
        restart_count=state.restart_count if state is not None else 0,
    )


def reported_samples(job_object: JobObject) -> Iterator[ProgressSample]:
    """Yield the history of reports in the status, and the latest report."""
    progress = read_progress(raw_status(job_object.raw))
    if progress is None:
        return
    last: ProgressPoint | None = None
    for point in progress.history.points if progress.history else ():
        last = point
        yield ProgressSample(at=point.time, step=point.step, metrics=_parse_metrics(point.metrics))
    is_newer = last is None or (progress.time is not None and progress.time >= last.time)
    if progress.time is not None and is_newer and (last is None or progress.step != last.step):
        yield ProgressSample(at=progress.time, step=progress.step, metrics=_parse_metrics(progress.metrics))


def merge_samples(reported: Sequence[ProgressSample], from_log: Sequence[ProgressSample]) -> list[ProgressSample]:
    """Return the samples of a log, which are finer, and reports of the time before and after it."""
    if not from_log:
        return list(reported)
    first, last = from_log[0].at, from_log[-1].at
    earlier = [sample for sample in reported if sample.at < first.replace(microsecond=0)]
    return [*earlier, *from_log, *(sample for sample in reported if sample.at > last)]


def _parse_metrics(metrics: Mapping[str, str]) -> dict[str, float]:
    return {name: number for name, text in metrics.items() if (number := parse_number(text)) is not None}


def _size_changes(job: Job, state: EngineState) -> list[GroupSize]:
    """Return the sizes of the groups from the start on; resizes that the timeline has dropped are unknown."""
    changes = [
        (entry.at, change)
        for entry in state.timeline
        for change in _group_resizes(entry)
        if isinstance(change.parameters.get("after"), int)
    ]
    sizes: list[GroupSize] = []
    for group in job_in_effect(job, state).groups:
        own = [(at, change.parameters) for at, change in changes if change.parameters.get("group") == group.name]
        initial = own[0][1].get("before", 0) if own else group.size
        sizes.append(GroupSize(state.started_at, group.name, int(initial)))
        sizes += [GroupSize(at, group.name, int(parameters["after"])) for at, parameters in own]
    return sorted(sizes, key=lambda size: size.at)


def _group_resizes(entry: TimelineEntry) -> Iterable[Message]:
    is_resize = entry.reason == RESIZED_REASON or entry.message.reason == MessageReason.PLAN_STARTED
    return (detail for detail in entry.message.details if is_resize and detail.reason == MessageReason.GROUP_RESIZED)


def restart_text(entry: TimelineEntry) -> str:
    return render(entry.message)
