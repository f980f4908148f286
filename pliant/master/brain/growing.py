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

from pliant.autoscale.curves import Curve, fitted
from pliant.master.brain import limits, words
from pliant.master.brain.case import WORKER, Case, Move
from pliant.master.brain.memory import Place
from pliant.master.model import NodeStatus, Resources, Stage, Step, Wanted

NOISE = 0.01
"""Speeds are medians of a whole minute: a curve has to explain them better than single measures."""
BEYOND = 1.5
"""How many times the largest size is tried next at least, as long as it may be the best."""
FAR = 2
"""After a search, only a wish this far from the present size begins another."""


def grown(case: Case) -> Move | None:
    """Another number of workers, if the present one has been measured and another would be better."""
    if case.memory.stage is not Stage.RUNNING or not may_measure(case):
        return None
    return resized(case, case.shape(WORKER))


def resized(case: Case, shape: Resources) -> Move | None:
    """The step to the number of workers that the measured speeds ask for, new ones in this shape."""
    workers = case.running(WORKER)
    size = len(workers)
    speeds = {number: speed for number, speed in case.picture.speeds.items() if number > 0 and speed > 0}
    best = wanted(speeds, size, ceiling(case, shape), case.tempo.worth)
    best = max(best, case.role(WORKER).least, 1)
    rested = case.memory.rested
    if rested == size and abs(best - size) < FAR:
        return None
    if best == size:
        return (None, replace(case.memory, rested=size)) if rested != size else None
    memory = replace(case.memory, rested=best if best in speeds else None)
    why = _why(speeds, size, best)
    if best > size:
        step = Step(
            reason=f"{words.count(best, WORKER)} instead of {size}: {why}",
            stage=case.memory.stage,
            replicas={WORKER: Wanted(replicas=best, resources=shape)},
        )
        return step, replace(memory, shapes={**memory.shapes, WORKER: shape})
    leaving = tuple(node.key for node in workers[best:])
    step = Step(
        reason=f"{words.count(best, WORKER)} instead of {size}: {why}",
        stage=case.memory.stage,
        replicas={WORKER: Wanted(replicas=best, resources=shape)},
        remove=leaving,
    )
    places = [Place(WORKER, node.rank) for node in workers[best:]]
    return step, case.with_memory(memory).without(places)


def may_measure(case: Case) -> bool:
    """Whether the number of workers is ours to choose, and has lasted long enough to tell how good it is."""
    if not may_choose(case) or _is_ending(case):
        return False
    workers = case.of(WORKER)
    if not workers or any(node.status is not NodeStatus.RUNNING for node in workers):
        return False
    if len(workers) < sum(place.type == WORKER for place in case.places):
        return False  # somebody is missing: the others are not what was to be measured
    settled = case.lasted(case.memory.impressions.crew_since, case.tempo.settle)
    return settled and len(workers) in case.picture.speeds


def may_choose(case: Case) -> bool:
    """Whether the author left the number of workers to us."""
    role = case.job.roles.get(WORKER)
    if role is None or not case.may_tune(WORKER):
        return False
    if role.by_hand is not None and role.by_hand != role.replicas:
        return False  # somebody knows better
    return not role.replicas or role.most is not None


def ceiling(case: Case, shape: Resources) -> int:
    """The most workers there may be: by the author's word, his limits, the work left, and what machines took."""
    size = len(case.of(WORKER, NodeStatus.RUNNING, NodeStatus.PENDING))
    most = [limits.MOST_WORKERS, size + limits.how_many(limits.left(case), shape)]
    if (said := case.role(WORKER).most) is not None:
        most.append(said)
    if case.picture.work_left is not None:
        most.append(size + case.picture.work_left)
    if case.memory.cap is not None and case.memory.cap_until is not None and case.now < case.memory.cap_until:
        most.append(case.memory.cap)
    return max(1, min(most))


def wanted(speeds: Mapping[int, float], size: int, most: int, worth: float) -> int:
    """The size to try next: what the curve holds best, or beyond it as long as nothing larger was measured."""
    if not speeds:
        return size
    curve, fewest, top = fitted(_points(speeds), NOISE), min(speeds), max(speeds)
    best = paying(curve, fewest, most, worth)
    enough = worth / 4 * speeds[fewest] / fewest
    for low, high in combinations(sorted(speeds), 2):
        # Where speed has come to a stop at once, no smooth curve tells so.
        if high >= low + 2 and speeds[high] - speeds[low] < enough * (high - low):
            best = min(best, low)
    if best < top:
        return best
    return min(most, max(min(best, 2 * top), ceil(BEYOND * top)))


def paying(curve: Curve, fewest: int, most: int, worth: float) -> int:
    """The largest size whose last worker adds enough; each adds less than the one before."""
    size = 1
    while size < most and curve.worth(size, fewest) >= worth:
        size += 1
    return size


def _is_ending(case: Case) -> bool:
    """Whether newcomers would find nothing to do."""
    left = case.picture.work_left
    return case.picture.is_work_done or left == 0 or bool(case.of(WORKER, NodeStatus.SUCCEEDED))


def _why(speeds: Mapping[int, float], size: int, best: int) -> str:
    seen = "they were not measured"
    if size in speeds:
        seen = f"{size} {'does' if size == 1 else 'do'} {_rate(speeds[size])} samples a second"
    if best > size:
        return f"{seen}, and more of them may pay"
    if best in speeds:
        return f"{seen}, and {best} did {_rate(speeds[best])}"
    adds = round(100 * fitted(_points(speeds), NOISE).worth(size - 1, min(speeds)))
    return f"{seen}, and the last one adds {max(adds, 0)} % of what one alone does"


def _rate(speed: float) -> str:
    return f"{speed:,.0f}" if speed >= 100 else f"{speed:.3g}"


def _points(speeds: Mapping[int, float]) -> tuple[tuple[int, float], ...]:
    return tuple(sorted(speeds.items()))
