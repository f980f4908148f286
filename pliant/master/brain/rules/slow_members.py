"""Replaces members that hang, and workers that are much slower than the others."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from statistics import median

from pliant.master.brain import formatting
from pliant.master.brain.context import CHIEF, WORKER, DecisionContext, RuleResult
from pliant.master.brain.state import BrainState, ThroughputWindow
from pliant.master.model import JobMember, ScaleAction, SizingStage

NO_PROGRESS_TIMEOUT_FACTOR = 3.0  # how many times the hang timeout a member may send heartbeats without progress
STRAGGLER_SPEED_RATIO = 0.5  # a worker is slow below this fraction of the median speed of the others
STRAGGLER_MIN_SLOW_WINDOWS = 2  # consecutive slow windows before a worker is replaced
MIN_WORKERS_TO_COMPARE = 3
STRAGGLER_REPLACEMENT_LIMIT_PERIOD = timedelta(hours=1)


def replace_hung_members(context: DecisionContext) -> RuleResult | None:
    """Replace all hung members that have restarts left; each replacement counts as a restart."""
    counts, hung = dict(context.state.restart_counts), []
    for member in (*context.running_members(WORKER), *context.running_members(CHIEF)):
        restart_limit = context.role_spec(member.key.type).restart_limit
        if is_hung(context, member) and counts.get(str(member.slot), 0) < restart_limit:
            hung.append(member)
    if not hung or context.snapshot.are_shards_done:
        return None
    pods = context.build_pod_requests((member.slot, member.resources) for member in hung)
    removed = tuple(member.key for member in hung)
    action = ScaleAction(
        reason=f"{formatting.format_names(removed)} hung for {context.timing.hang_timeout:g} s",
        stage=context.state.stage,
        create_pods=pods,
        remove_members=removed,
    )
    state = context.state_with_requested_pods(pods)
    for slot in (str(member.slot) for member in hung):
        counts[slot] = counts.get(slot, 0) + 1
    return action, replace(state, restart_counts=counts, removed_members=(*state.removed_members, *map(str, removed)))


def is_hung(context: DecisionContext, member: JobMember) -> bool:
    """Return whether a member sends no heartbeats, or makes no progress although there is work."""
    progress = context.state.observations.progress_by_member.get(member.key)
    if progress is None:
        return False
    timeout = context.timing.hang_timeout
    if context.has_elapsed(max(progress.reported_at, progress.progressed_at), timeout):
        return True
    has_work = context.snapshot.unassigned_shard_count != 0 and (
        progress.step is not None or progress.samples is not None
    )
    return has_work and context.has_elapsed(progress.progressed_at, NO_PROGRESS_TIMEOUT_FACTOR * timeout)


def state_with_worker_speeds(context: DecisionContext) -> BrainState:
    """Measure the speed of every worker whose observation window has ended."""
    windows, finished = dict(context.state.observations.throughput_windows), []
    for worker in context.running_members(WORKER):
        if worker.heartbeat is None or worker.heartbeat.samples is None:
            continue
        window, samples = windows.get(worker.key), worker.heartbeat.samples
        if window is None:
            windows[worker.key] = ThroughputWindow(context.now, samples)
        elif context.has_elapsed(window.started_at, context.timing.observation_window):
            rate = (samples - window.samples_at_start) / (context.now - window.started_at).total_seconds()
            windows[worker.key] = ThroughputWindow(context.now, samples, window.slow_window_count, rate)
            finished.append(worker.key)
    rates = {
        key: window.previous_window_rate for key, window in windows.items() if window.previous_window_rate is not None
    }
    for key in finished:
        others = [rate for other, rate in rates.items() if other != key]
        is_slow = len(others) >= MIN_WORKERS_TO_COMPARE - 1 and rates[key] < STRAGGLER_SPEED_RATIO * median(others)
        windows[key] = windows[key]._replace(slow_window_count=windows[key].slow_window_count + 1 if is_slow else 0)
    if windows == context.state.observations.throughput_windows:
        return context.state
    return replace(context.state, observations=replace(context.state.observations, throughput_windows=windows))


def replace_slowest_straggler(context: DecisionContext) -> RuleResult | None:
    """Migrate the slowest straggler, which keeps working until the new worker runs."""
    state, observations = context.state, context.state.observations
    if (
        state.stage is not SizingStage.RUNNING
        or not context.may_tune(WORKER)
        or context.snapshot.unassigned_shard_count == 0
    ):
        return None
    windows = observations.throughput_windows
    recent = tuple(at for at in state.straggler_replaced_at if context.now - at < STRAGGLER_REPLACEMENT_LIMIT_PERIOD)
    stragglers = [
        worker
        for worker in context.running_members(WORKER)
        if worker.key in windows and windows[worker.key].slow_window_count >= STRAGGLER_MIN_SLOW_WINDOWS
    ]
    if not stragglers or len(recent) >= context.timing.max_replacements_per_hour:
        return None
    slowest = min(stragglers, key=lambda worker: windows[worker.key].previous_window_rate or 0.0)
    speed = median(
        window.previous_window_rate for window in windows.values() if window.previous_window_rate is not None
    )
    rate = windows[slowest.key].previous_window_rate or 0.0
    action = ScaleAction(
        reason=f"{slowest.key} is a straggler: {rate:.3g} samples/s, the median is {speed:.3g}",
        stage=state.stage,
        migrate_pods=context.build_pod_requests([(slowest.slot, slowest.resources)]),
    )
    # The operator may give the new worker another id, so it is recorded when it appears.
    others = {key: window for key, window in windows.items() if key != slowest.key}
    observations = replace(observations, throughput_windows=others)
    return action, replace(state, straggler_replaced_at=(*recent, context.now), observations=observations)
