"""Workers that are far slower than their peers, look after look."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from statistics import median

from pliant.master.brain.context import WORKER, DecisionContext, RuleResult
from pliant.master.brain.state import BrainState, ThroughputWindow
from pliant.master.brain.timing import STRAGGLER_MIN_WINDOWS, STRAGGLER_SPEED_RATIO
from pliant.master.model import JobMember, MemberPodRequest, ScaleAction, SizingStage

MIN_WORKERS_TO_COMPARE = 3
"""Fewer workers than these have no middle to be compared with."""
REPLACEMENT_WINDOW = timedelta(hours=1)


def state_with_worker_speeds(context: DecisionContext) -> BrainState:
    """The memory with another look at every worker whose last look is over."""
    marks = dict(context.state.observations.throughput_windows)
    over = []
    for node in context.running_members(WORKER):
        if node.heartbeat is None or node.heartbeat.samples is None:
            continue
        mark = marks.get(node.key)
        if mark is None:
            marks[node.key] = ThroughputWindow(context.now, node.heartbeat.samples)
        elif context.has_elapsed(mark.started_at, context.timing.look):
            rate = (node.heartbeat.samples - mark.samples) / (context.now - mark.started_at).total_seconds()
            marks[node.key] = ThroughputWindow(context.now, node.heartbeat.samples, mark.slow_windows, rate)
            over.append(node.key)
    rates = {key: mark.rate for key, mark in marks.items() if mark.rate is not None}
    for key in over:
        others = [rate for other, rate in rates.items() if other != key]
        is_slow = len(others) >= MIN_WORKERS_TO_COMPARE - 1 and rates[key] < STRAGGLER_SPEED_RATIO * median(others)
        marks[key] = marks[key]._replace(slow_windows=marks[key].slow_windows + 1 if is_slow else 0)
    if marks == context.state.observations.throughput_windows:
        return context.state
    return replace(context.state, observations=replace(context.state.observations, throughput_windows=marks))


def replace_slowest_straggler(context: DecisionContext) -> RuleResult | None:
    """A new worker for the slowest one; it leaves when the new one runs, for slow is better than nobody."""
    if (
        context.state.stage is not SizingStage.RUNNING
        or not context.may_tune(WORKER)
        or context.snapshot.shards_left == 0
    ):
        return None
    recent = tuple(at for at in context.state.straggler_replaced_at if context.now - at < REPLACEMENT_WINDOW)
    slow = [node for node in context.running_members(WORKER) if _is_straggler(context, node)]
    if not slow or len(recent) >= context.timing.replacements:
        return None
    node = min(slow, key=lambda each: context.state.observations.throughput_windows[each.key].rate or 0.0)
    (key,) = context.allocate_keys([WORKER])
    pod = MemberPodRequest(key=key, rank=node.rank, resources=node.resources)
    rates = [mark.rate for mark in context.state.observations.throughput_windows.values() if mark.rate is not None]
    rate = context.state.observations.throughput_windows[node.key].rate or 0.0
    step = ScaleAction(
        reason=f"{node.key} is slow: {rate:.3g} samples a second where the others do {median(rates):.3g}",
        stage=context.state.stage,
        migrate_pods=(pod,),
    )
    # The operator may give it another id: it is noted when it is there.
    impressions = context.state.observations
    marks = {key: mark for key, mark in impressions.throughput_windows.items() if key != node.key}
    impressions = replace(impressions, throughput_windows=marks)
    return step, replace(context.state, straggler_replaced_at=(*recent, context.now), observations=impressions)


def _is_straggler(context: DecisionContext, member: JobMember) -> bool:
    mark = context.state.observations.throughput_windows.get(member.key)
    return mark is not None and mark.slow_windows >= STRAGGLER_MIN_WINDOWS
