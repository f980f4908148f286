"""What a member's end means: whether its place is filled again, at whose cost, and with how much memory."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum

from pliant.master.brain import limits, words
from pliant.master.brain.case import CHIEF, SERVED, WORKER, Case
from pliant.master.brain.memory import Memory, Place
from pliant.master.model import Node, NodeKey, NodeStatus, Resources

OOM_STEP = 8 * words.GIB
QUICK = timedelta(seconds=60)
"""Who lived shorter than this and was lost fell quickly."""
LONGEST_WAIT = 300.0


class Cause(StrEnum):
    """Why a member ended, as far as the next one at its place is concerned."""

    MEMORY = "ran out of memory"
    KILLED = "was killed"
    LOST = "was lost"
    FATAL = "failed"
    HARDWARE = "met broken hardware"


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What becomes of a place."""

    is_filled: bool
    reason: str
    resources: Resources
    is_charged: bool = False
    wait: float = 0.0
    """Seconds after its end until the next one may start."""


def cause_of(node: Node) -> Cause:
    """Why a member that did not succeed has ended."""
    if node.reason == "OOMKilled" or node.exit_code == 247:
        return Cause.MEMORY
    if node.status is NodeStatus.LOST or node.exit_code is None:
        return Cause.LOST
    if node.exit_code in (137, 143):
        return Cause.KILLED
    return Cause.HARDWARE if node.exit_code in (201, 202, 14) else Cause.FATAL


def fallen(case: Case) -> dict[Place, Node | None]:
    """Every place without anybody at work or on the way to it; None for whoever is not to be seen any more."""
    found: dict[Place, Node | None] = {}
    for place in case.places:
        if str(place) in case.memory.done:
            continue
        node = case.occupants.get(place)
        newest = NodeKey(place.type, case.memory.members[str(place)])
        if node is None or node.key.id < newest.id:
            if _is_missing(case, newest):
                found[place] = None
        elif node.status in (NodeStatus.FAILED, NodeStatus.LOST):
            found[place] = node
    return found


def judged(case: Case) -> Memory:
    """The memory with every place given up that is beyond recovery."""
    dropped = dict(case.memory.dropped)
    for place, (_, verdict) in verdicts(case).items():
        if not verdict.is_filled:
            dropped[str(place)] = verdict.reason
    if len(dropped) == len(case.memory.dropped):
        return case.memory
    left = sum(place.type == WORKER and str(place) not in dropped for place in case.places)
    # Newcomers would meet with the same: the others go on alone for a while.
    until = case.now + timedelta(seconds=case.tempo.hold_off)
    return replace(case.memory, dropped=dropped, cap=max(left, 1), cap_until=until)


def verdicts(case: Case) -> dict[Place, tuple[Node | None, Verdict]]:
    """Who fell at each place, and what becomes of it; all together stay within the limits of the job."""
    found = fallen(case)
    room = limits.left(case).memory or 0
    share = room // max(len(found), 1) // limits.GRAIN * limits.GRAIN
    held = {place: _held(case, place, node, share) for place, node in found.items()}
    spare = max(room - sum(held.values()), 0)
    answers: dict[Place, tuple[Node | None, Verdict]] = {}
    for place, node in found.items():
        verdict = _verdict_on(case, place, node, held[place] + spare)
        if verdict.is_filled:
            spare -= max((verdict.resources.memory or 0) - held[place], 0)
        answers[place] = (node, verdict)
    return answers


def _held(case: Case, place: Place, node: Node | None, share: int) -> int:
    """What the last one at a place had; of one that cannot be seen any more not more than its share is sure."""
    if node is not None and node.resources.memory:
        return node.resources.memory
    return min(case.shape(place.type).memory or 0, share)


def _verdict_on(case: Case, place: Place, node: Node | None, most: int) -> Verdict:
    """Whether a place is filled again, and how; with so much memory at most."""
    shape = _shape(case, place, node, most)
    if node is None:
        return Verdict(is_filled=True, reason="was lost", resources=shape, wait=_pause(case, place))
    match cause_of(node):
        case Cause.MEMORY:
            return _out_of_memory(case, place, node, most)
        case Cause.LOST | Cause.KILLED as cause:
            wait = _pause(case, place) if fell_quickly(node) else 0.0
            return Verdict(is_filled=True, reason=_told(node, cause), resources=shape, wait=wait)
        case Cause.FATAL as cause if node.exit_code in (1, 134) and _is_final(case, place):
            return Verdict(is_filled=False, reason=f"{node.key} {_told(node, cause)}", resources=shape)
        case cause:
            return _charged(case, place, node, _told(node, cause), shape)


def _out_of_memory(case: Case, place: Place, node: Node, most: int) -> Verdict:
    shape = _shape(case, place, node, most)
    had = node.resources.memory or shape.memory
    if had is None or not case.may_tune(place.type):
        return _charged(case, place, node, "ran out of memory", shape)
    more = min(max(2 * had, shape.memory or 0), had + OOM_STEP, limits.MOST_MEMORY, most)
    more = had + (more - had) // limits.GRAIN * limits.GRAIN
    if more <= had:
        return Verdict(
            is_filled=False,
            reason=f"{node.key} ran out of memory with {words.size(had)}, and more may not be given",
            resources=shape,
        )
    told = f"ran out of memory: from {words.size(had)} to {words.size(more)}"
    return Verdict(is_filled=True, reason=told, resources=replace(shape, memory=more))


def _charged(case: Case, place: Place, node: Node, told: str, shape: Resources) -> Verdict:
    limit, spent = case.role(place.type).restart_limit, case.memory.charges.get(str(place), 0)
    if spent >= limit:
        tried = f", after {words.count(spent, 'restart')}" if spent else ""
        return Verdict(is_filled=False, reason=f"{node.key} {told}{tried}", resources=shape)
    return Verdict(
        is_filled=True, reason=f"{told} (restart {spent + 1} of {limit})", resources=shape, is_charged=True
    )


def _is_final(case: Case, place: Place) -> bool:
    """Whether the program's own word of failure stands: where parameter servers hold what was learned."""
    served = case.job.strategy == SERVED and place.type in (WORKER, CHIEF)
    return served and not case.role(place.type).restarts_always


def _is_missing(case: Case, key: NodeKey) -> bool:
    """Whether a member is gone that was seen, or has not come though there was time enough."""
    impressions = case.memory.impressions
    if key in impressions.seen:
        return True
    woke = impressions.woke_at or case.now
    since = max(woke, impressions.asked.get(key, woke))
    return case.lasted(since, case.tempo.appear)


def _pause(case: Case, place: Place) -> float:
    """Seconds between two who fall quickly at one place: longer each time."""
    falls = case.memory.falls.get(str(place), 0)
    return min(2.0 ** min(falls, 10), LONGEST_WAIT) if falls else 0.0


def asked_at(case: Case, place: Place) -> datetime | None:
    """When the newest at a place was asked for; None if that was another master's doing."""
    newest = NodeKey(place.type, case.memory.members[str(place)])
    return case.memory.impressions.asked.get(newest)


def fell_quickly(node: Node) -> bool:
    """Whether a member ended soon after it began."""
    return node.ended_at is not None and node.ended_at - (node.started_at or node.created_at) < QUICK


def _shape(case: Case, place: Place, node: Node | None, most: int) -> Resources:
    """What the next one at a place asks for: as its type does now, and not less than the last one here did."""
    shape = case.shape(place.type)
    if shape.memory is None:
        return shape
    if node is None or node.resources.memory is None:
        return replace(shape, memory=min(shape.memory, max(most, limits.LEAST.memory or 0)))
    return replace(shape, memory=max(min(shape.memory, most), node.resources.memory))


def _told(node: Node, cause: Cause) -> str:
    code = "" if node.exit_code is None else f" with exit code {node.exit_code}"
    because = f" ({node.reason})" if node.reason and node.reason != "Error" else ""
    return f"{cause.value}{code}{because}"
