"""Everybody who fell is made anew at the same rank, all in one plan."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from pliant.master.brain import words
from pliant.master.brain.case import Case, Move
from pliant.master.brain.failures import QUICK, Cause, Verdict, asked_at, cause_of, fell_quickly, verdicts
from pliant.master.brain.memory import Memory, Place
from pliant.master.model import NewPod, Node, Step


def relaunched(case: Case) -> Move | None:
    """One plan for all who fell and whose wait is over."""
    due = [
        (place, node, verdict)
        for place, (node, verdict) in verdicts(case).items()
        if verdict.is_filled and _is_due(case, place, node, verdict)
    ]
    if not due:
        return None
    keys = case.next_keys(place.type for place, _, _ in due)
    pods = tuple(
        NewPod(key=key, rank=place.rank, resources=verdict.resources)
        for key, (place, _, verdict) in zip(keys, due, strict=True)
    )
    step = Step(reason=_reason(due), stage=case.memory.stage, create=pods)
    return step, _charged(case, asked_for(case, pods), due)


def asked_for(case: Case, pods: tuple[NewPod, ...]) -> Memory:
    """The memory with these members on their way."""
    memory = case.memory
    ids = dict(memory.ids)
    for pod in pods:
        ids[pod.key.type] = max(ids.get(pod.key.type, -1), pod.key.id)
    return replace(
        memory,
        ids=ids,
        members={**memory.members, **{str(Place(pod.key.type, pod.rank)): pod.key.id for pod in pods}},
        impressions=replace(
            memory.impressions, asked={**memory.impressions.asked, **{pod.key: case.now for pod in pods}}
        ),
    )


def _is_due(case: Case, place: Place, node: Node | None, verdict: Verdict) -> bool:
    if case.picture.is_work_done and not case.is_critical(place):
        return False  # nothing is left for it to do
    # Nobody saw when one ended that is not to be seen any more.
    since = asked_at(case, place) if node is None else node.ended_at or node.created_at
    return not verdict.wait or since is None or case.now - since >= timedelta(seconds=verdict.wait)


def _charged(case: Case, memory: Memory, due: list[tuple[Place, Node | None, Verdict]]) -> Memory:
    charges, falls = dict(memory.charges), dict(memory.falls)
    shapes, too_small = dict(memory.shapes), dict(memory.too_small)
    for place, node, verdict in due:
        name = str(place)
        if verdict.is_charged:
            charges[name] = charges.get(name, 0) + 1
        elif node is not None and cause_of(node) is Cause.MEMORY:
            shapes[place.type] = verdict.resources
            too_small[place.type] = max(too_small.get(place.type, 0), node.resources.memory or 0)
        else:
            falls[name] = falls.get(name, 0) + 1 if _was_quick(case, place, node, verdict) else 0
    kept = {name: number for name, number in falls.items() if number}
    return replace(memory, charges=charges, falls=kept, shapes=shapes, too_small=too_small)


def _was_quick(case: Case, place: Place, node: Node | None, verdict: Verdict) -> bool:
    """Whether somebody fell soon after it began; of one that vanished, as far as anybody can tell."""
    if node is not None:
        return fell_quickly(node)
    since = asked_at(case, place)
    return since is not None and case.now - since < QUICK + timedelta(seconds=verdict.wait)


def _reason(due: list[tuple[Place, Node | None, Verdict]]) -> str:
    """Alike ends are told together: `worker-1, worker-2 and 28 more were killed`."""
    by_reason: dict[str, list[str]] = {}
    for place, node, verdict in due:
        who = str(node.key) if node is not None else f"{place.type} of rank {place.rank}"
        by_reason.setdefault(verdict.reason, []).append(who)
    return "; ".join(f"{words.several(names)} {reason}" for reason, names in by_reason.items())
