"""As many workers as pay: tried out upward, told from the curve of what was measured.

The best size is the largest whose last worker adds at least a fifth of what each of the fewest does. The number is
doubled at most from one size to the next, until one was measured that is beyond the best; then it goes back. When
the curve wants no other size than the present one, or one that was measured before, the search is over.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import combinations
from math import ceil

from pliant.autoscale.speedup import SpeedupCurve, fit_speedup_curve
from pliant.master.brain import formatting, limits
from pliant.master.brain.context import WORKER, DecisionContext, RuleResult
from pliant.master.brain.state import MemberSlot
from pliant.master.model import MemberStatus, PodResources, ReplicaSizing, ScaleAction, SizingStage

SPEED_NOISE = 0.01
"""Speeds are medians of a whole minute: a curve has to explain them better than single measures."""
MIN_GROWTH_FACTOR = 1.5
"""How many times the largest size is tried next at least, as long as it may be the best."""
MIN_SIZE_CHANGE = 2
"""After a search, only a wish this far from the present size begins another."""


def scale_workers(context: DecisionContext) -> RuleResult | None:
    """Another number of workers, if the present one has been measured and another would be better."""
    if context.state.stage is not SizingStage.RUNNING or not may_resize_workers(context):
        return None
    return resize_workers(context, context.resources_for(WORKER))


def resize_workers(context: DecisionContext, resources: PodResources) -> RuleResult | None:
    """The step to the number of workers that the measured speeds ask for, new ones in this shape."""
    workers = context.running_members(WORKER)
    size = len(workers)
    speeds = {number: speed for number, speed in context.snapshot.speed_by_workers.items() if number > 0 and speed > 0}
    best = next_worker_count(speeds, size, max_worker_count(context, resources), context.timing.worth)
    best = max(best, context.role_spec(WORKER).min_size, 1)
    rested = context.state.settled_size
    if rested == size and abs(best - size) < MIN_SIZE_CHANGE:
        return None
    if best == size:
        return (None, replace(context.state, settled_size=size)) if rested != size else None
    memory = replace(context.state, settled_size=best if best in speeds else None)
    why = _explain_resize(speeds, size, best)
    if best > size:
        step = ScaleAction(
            reason=f"{formatting.format_count(best, WORKER)} instead of {size}: {why}",
            stage=context.state.stage,
            sizing_by_type={WORKER: ReplicaSizing(replicas=best, resources=resources)},
        )
        return step, replace(memory, resources_by_type={**memory.resources_by_type, WORKER: resources})
    leaving = tuple(node.key for node in workers[best:])
    step = ScaleAction(
        reason=f"{formatting.format_count(best, WORKER)} instead of {size}: {why}",
        stage=context.state.stage,
        sizing_by_type={WORKER: ReplicaSizing(replicas=best, resources=resources)},
        remove_members=leaving,
    )
    places = [MemberSlot(WORKER, node.rank) for node in workers[best:]]
    return step, context.with_state(memory).state_without_slots(places)


def may_resize_workers(context: DecisionContext) -> bool:
    """Whether the number of workers is ours to choose, and has lasted long enough to tell how good it is."""
    if not may_choose_worker_count(context) or _is_job_ending(context):
        return False
    workers = context.members_of_type(WORKER)
    if not workers or any(node.status is not MemberStatus.RUNNING for node in workers):
        return False
    if len(workers) < sum(place.type == WORKER for place in context.required_slots):
        return False  # somebody is missing: the others are not what was to be measured
    settled = context.has_elapsed(context.state.observations.workers_unchanged_since, context.timing.settle)
    return settled and len(workers) in context.snapshot.speed_by_workers


def may_choose_worker_count(context: DecisionContext) -> bool:
    """Whether the author left the number of workers to us."""
    role = context.job.roles.get(WORKER)
    if role is None or not context.may_tune(WORKER):
        return False
    if role.user_requested_size is not None and role.user_requested_size != role.replicas:
        return False  # somebody knows better
    return not role.replicas or role.max_size is not None


def max_worker_count(context: DecisionContext, resources: PodResources) -> int:
    """The most workers there may be: by the author's word, his limits, the work left, and what machines took."""
    size = len(context.members_of_type(WORKER, MemberStatus.RUNNING, MemberStatus.PENDING))
    most = [limits.MAX_WORKERS, size + limits.count_fitting_pods(limits.remaining_resources(context), resources)]
    if (said := context.role_spec(WORKER).max_size) is not None:
        most.append(said)
    if context.snapshot.shards_left is not None:
        most.append(size + context.snapshot.shards_left)
    if (
        context.state.worker_cap is not None
        and context.state.worker_cap_until is not None
        and context.now < context.state.worker_cap_until
    ):
        most.append(context.state.worker_cap)
    return max(1, min(most))


def next_worker_count(speeds: Mapping[int, float], size: int, max_size: int, min_gain: float) -> int:
    """The size to try next: what the curve holds best, or beyond it as long as nothing larger was measured."""
    if not speeds:
        return size
    curve, fewest, top = fit_speedup_curve(_curve_points(speeds), SPEED_NOISE), min(speeds), max(speeds)
    best = largest_worthwhile_size(curve, fewest, max_size, min_gain)
    enough = min_gain / 4 * speeds[fewest] / fewest
    for low, high in combinations(sorted(speeds), 2):
        # Where speed has come to a stop at once, no smooth curve tells so.
        if high >= low + 2 and speeds[high] - speeds[low] < enough * (high - low):
            best = min(best, low)
    if best < top:
        return best
    return min(max_size, max(min(best, 2 * top), ceil(MIN_GROWTH_FACTOR * top)))


def largest_worthwhile_size(curve: SpeedupCurve, base_size: int, max_size: int, min_gain: float) -> int:
    """The largest size whose last worker adds enough; each adds less than the one before."""
    size = 1
    while size < max_size and curve.marginal_gain(size, base_size) >= min_gain:
        size += 1
    return size


def _is_job_ending(context: DecisionContext) -> bool:
    """Whether newcomers would find nothing to do."""
    left = context.snapshot.shards_left
    return (
        context.snapshot.are_shards_done or left == 0 or bool(context.members_of_type(WORKER, MemberStatus.SUCCEEDED))
    )


def _explain_resize(speeds: Mapping[int, float], size: int, new_size: int) -> str:
    seen = "they were not measured"
    if size in speeds:
        seen = f"{size} {'does' if size == 1 else 'do'} {_format_rate(speeds[size])} samples a second"
    if new_size > size:
        return f"{seen}, and more of them may pay"
    if new_size in speeds:
        return f"{seen}, and {new_size} did {_format_rate(speeds[new_size])}"
    adds = round(100 * fit_speedup_curve(_curve_points(speeds), SPEED_NOISE).marginal_gain(size - 1, min(speeds)))
    return f"{seen}, and the last one adds {max(adds, 0)} % of what one alone does"


def _format_rate(speed: float) -> str:
    return f"{speed:,.0f}" if speed >= 100 else f"{speed:.3g}"


def _curve_points(speeds: Mapping[int, float]) -> tuple[tuple[int, float], ...]:
    return tuple(sorted(speeds.items()))
