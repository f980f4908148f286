"""Members that hang: they once spoke, and have said nothing for long."""

from __future__ import annotations

from dataclasses import replace

from pliant.master.brain import words
from pliant.master.brain.case import CHIEF, WORKER, Case, Move
from pliant.master.brain.memory import Place
from pliant.master.brain.relaunching import asked_for
from pliant.master.model import NewPod, Node, Step

STUCK = 3.0
"""How many times as long a member may speak on without getting any further."""


def woken(case: Case) -> Move | None:
    """New members in place of all that hang, at the cost of a restart each; who has none left is left alone."""
    hung = [
        node
        for type_ in (WORKER, CHIEF)
        for node in case.running(type_)
        if is_hung(case, node) and _may_restart(case, node)
    ]
    if not hung or case.picture.is_work_done:
        return None
    keys = case.next_keys(node.key.type for node in hung)
    pods = tuple(
        NewPod(key=key, rank=node.rank, resources=node.resources) for key, node in zip(keys, hung, strict=True)
    )
    leaving = tuple(node.key for node in hung)
    step = Step(
        reason=f"{words.several(leaving)} said nothing new for {case.tempo.hang:g} s",
        stage=case.memory.stage,
        create=pods,
        remove=leaving,
    )
    memory = asked_for(case, pods)
    charges = dict(memory.charges)
    for node in hung:
        place = str(Place(node.key.type, node.rank))
        charges[place] = charges.get(place, 0) + 1
    return step, replace(memory, charges=charges, dismissed=(*memory.dismissed, *map(str, leaving)))


def is_hung(case: Case, node: Node) -> bool:
    """Whether a member has stopped speaking, or speaks on and gets nowhere though there is work."""
    known = case.memory.impressions.progress.get(node.key)
    if known is None:
        return False
    if case.lasted(max(known.heard_at, known.moved_at), case.tempo.hang):
        return True
    has_work = case.picture.work_left != 0 and (known.step is not None or known.samples is not None)
    return has_work and case.lasted(known.moved_at, STUCK * case.tempo.hang)


def _may_restart(case: Case, node: Node) -> bool:
    place = str(Place(node.key.type, node.rank))
    return case.memory.charges.get(place, 0) < case.role(node.key.type).restart_limit
