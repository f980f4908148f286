"""Searches the best number of workers from measured speeds.

The best size is the largest whose last worker adds at least `min_worker_gain` of what each of the fewest workers does.
The size at most doubles from one step to the next, until a size beyond the best one has been measured; then it goes
back. The search ends when the fitted curve suggests the present size or one that was measured before.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import combinations
from math import ceil

from pliant.autoscale.speedup import SpeedupCurve, fit_speedup_curve
from pliant.master.brain import formatting, limits
from pliant.master.brain.context import WORKER, DecisionContext, RuleResult
from pliant.master.model import MemberStatus, PodResources, ReplicaSizing, ScaleAction, SizingStage

RELATIVE_SPEED_NOISE = 0.01
"""Relative noise of a speed, which is a median over a minute and thus more precise than a single measurement."""
MIN_SEARCH_GROWTH_FACTOR = 1.5
"""The next size is at least this factor of the largest measured one, while that may be the best."""
MIN_RESIZE_AFTER_SETTLING = 2  # after a search, only a size that differs by this much starts another one


def tune_worker_count(context: DecisionContext) -> RuleResult | None:
    if context.state.stage is not SizingStage.RUNNING or not can_resize_workers_now(context):
        return None
    return resize_workers_by_speed(context, context.resources_for(WORKER))


def resize_workers_by_speed(context: DecisionContext, resources: PodResources) -> RuleResult | None:
    """Resize the workers by the measured speeds; new workers get these resources."""
    workers = context.running_members(WORKER)
    size, settled_size = len(workers), context.state.settled_size
    speeds = {
        number: speed for number, speed in context.snapshot.speed_by_worker_count.items() if number > 0 and speed > 0
    }
    best = next_worker_count(speeds, size, max_worker_count(context, resources), context.timing.min_worker_gain)
    best = max(best, context.role_spec(WORKER).min_size, 1)
    if settled_size == size and abs(best - size) < MIN_RESIZE_AFTER_SETTLING:
        return None
    if best == size:
        return None, replace(context.state, settled_size=size)
    state = replace(context.state, settled_size=best if best in speeds else None)
    removed = workers[best:]
    action = ScaleAction(
        reason=f"from {size} to {formatting.format_count(best, WORKER)}: {_explain_resize(speeds, size, best)}",
        stage=context.state.stage,
        sizing_by_type={WORKER: ReplicaSizing(replicas=best, resources=resources)},
        remove_members=tuple(worker.key for worker in removed),
    )
    if best > size:
        return action, replace(state, resources_by_type={**state.resources_by_type, WORKER: resources})
    return action, context.with_state(state).state_without_slots(worker.slot for worker in removed)


def can_resize_workers_now(context: DecisionContext) -> bool:
    """Return whether the master may choose the number of workers, and the speed of the present ones is known."""
    has_shards = context.snapshot.unassigned_shard_count != 0 and not context.snapshot.are_shards_done
    if not has_shards or not may_choose_worker_count(context):
        return False
    workers = context.newest_members_of_type(WORKER)
    if not workers or any(worker.status is not MemberStatus.RUNNING for worker in workers):
        return False
    if len(workers) < sum(slot.type == WORKER for slot in context.required_slots):
        return False
    unchanged_since = context.state.observations.workers_unchanged_since
    has_settled = context.has_elapsed(unchanged_since, context.timing.settle_time)
    return has_settled and len(workers) in context.snapshot.speed_by_worker_count


def may_choose_worker_count(context: DecisionContext) -> bool:
    """Return whether neither the spec nor a later user request fixes the number of workers."""
    role = context.job.roles.get(WORKER)
    if role is None or not context.may_tune(WORKER):
        return False
    if role.user_requested_size is not None and role.user_requested_size != role.replicas:
        return False
    return not role.replicas or role.max_size is not None


def max_worker_count(context: DecisionContext, resources: PodResources) -> int:
    """Return the maximum by the spec, the resource limits, the shards left, and what could be scheduled."""
    state, spec_max = context.state, context.role_spec(WORKER).max_size
    size = len(context.newest_members_of_type(WORKER, MemberStatus.RUNNING, MemberStatus.PENDING))
    maxima = [
        limits.MAX_TUNED_WORKERS,
        size + limits.count_fitting_pods(limits.remaining_job_resources(context), resources),
    ]
    if spec_max is not None:
        maxima.append(spec_max)
    if context.snapshot.unassigned_shard_count is not None:
        maxima.append(size + context.snapshot.unassigned_shard_count)
    if state.worker_cap is not None and state.worker_cap_until is not None and context.now < state.worker_cap_until:
        maxima.append(state.worker_cap)
    return max(1, min(maxima))


def next_worker_count(speeds: Mapping[int, float], size: int, max_size: int, min_gain: float) -> int:
    """Return the best size by the fitted curve, or a larger one to measure if none beyond the best was measured."""
    if not speeds:
        return size
    fewest, most = min(speeds), max(speeds)
    best = largest_worthwhile_size(_fit_curve(speeds), fewest, max_size, min_gain)
    min_increase = min_gain / 4 * speeds[fewest] / fewest
    for low, high in combinations(sorted(speeds), 2):
        # A smooth curve does not show an abrupt end of the speedup.
        if high >= low + 2 and speeds[high] - speeds[low] < min_increase * (high - low):
            best = min(best, low)
    if best < most:
        return best
    return min(max_size, max(min(best, 2 * most), ceil(MIN_SEARCH_GROWTH_FACTOR * most)))


def largest_worthwhile_size(curve: SpeedupCurve, base_size: int, max_size: int, min_gain: float) -> int:
    """Return the largest size whose last worker adds enough; each worker adds less than the one before."""
    size = 1
    while size < max_size and curve.relative_marginal_gain(size, base_size) >= min_gain:
        size += 1
    return size


def _explain_resize(speeds: Mapping[int, float], size: int, new_size: int) -> str:
    measured = f"measured {_format_rate(speeds[size])} samples/s" if size in speeds else "present size not measured"
    if new_size > size:
        return f"{measured}, more workers may be faster"
    if new_size in speeds:
        return f"{measured}, and {_format_rate(speeds[new_size])} with {formatting.format_count(new_size, WORKER)}"
    gain = round(100 * _fit_curve(speeds).relative_marginal_gain(size - 1, min(speeds)))
    return f"{measured}, the last worker adds {max(gain, 0)} % of what one worker does"


def _format_rate(speed: float) -> str:
    return f"{speed:,.0f}" if speed >= 100 else f"{speed:.3g}"


def _fit_curve(speeds: Mapping[int, float]) -> SpeedupCurve:
    return fit_speedup_curve(tuple(sorted(speeds.items())), RELATIVE_SPEED_NOISE)
