"""Members that no machine takes: growth is given up, everybody else is made smaller."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from pliant.master.brain import limits, words
from pliant.master.brain.case import WORKER, Case, Move
from pliant.master.brain.growing import may_choose
from pliant.master.brain.initial import seen_shape
from pliant.master.brain.memory import Place
from pliant.master.brain.relaunching import asked_for
from pliant.master.model import NewPod, Node, NodeKey, NodeStatus, Resources, Stage, Step, Wanted


def given_up(case: Case) -> Move | None:
    """Do without the workers that have waited for long, if others run and the number is ours to choose."""
    waiting = [node for node in case.of(WORKER, NodeStatus.PENDING) if node.rank > 0]
    running = len(case.running(WORKER))
    over = [node for node in waiting if case.lasted(node.created_at, case.tempo.growth_patience)]
    if not over or not running or not may_choose(case) or running < case.role(WORKER).least:
        return None
    leaving = tuple(node.key for node in waiting)
    because = next((f": {node.reason}" for node in over if node.reason), "")
    step = Step(
        reason=f"no machine took {words.several(leaving)} within {case.tempo.growth_patience:g} s{because}; "
        f"going on with {words.count(running, WORKER)}",
        stage=case.memory.stage,
        replicas={WORKER: Wanted(replicas=running, resources=case.shape(WORKER))},
        remove=leaving,
    )
    return step, replace(
        case.without(Place(WORKER, node.rank) for node in waiting),
        cap=running,
        cap_until=case.now + timedelta(seconds=case.tempo.hold_off),
    )


def made_smaller(case: Case) -> Move | None:
    """Less for everybody who has waited for too long, as far as the author left it open.

    What nobody has measured yet is only a guess, and soon given up; so is what others were seen not to need.
    """
    small: dict[NodeKey, Resources] = {}
    for node in case.occupants.values():
        shape = _seen(case, node)
        is_guess = shape is not None or case.memory.stage is not Stage.RUNNING
        patience = case.tempo.growth_patience if is_guess else case.tempo.pending_timeout
        if node.status is NodeStatus.PENDING and case.lasted(node.created_at, patience):
            shape = shape or halved(case, node)
            if shape is not None:
                small[node.key] = shape
    nodes = [node for node in case.occupants.values() if node.key in small]
    if not nodes:
        return None
    keys = case.next_keys(node.key.type for node in nodes)
    pods = tuple(
        NewPod(key=key, rank=node.rank, resources=small[node.key]) for key, node in zip(keys, nodes, strict=True)
    )
    leaving = tuple(node.key for node in nodes)
    because = next((f": {node.reason.rstrip('.')}" for node in nodes if node.reason), "")
    step = Step(
        reason=f"no machine took {words.several(leaving)}{because}; trying with {words.shape(pods[0].resources)}",
        stage=case.memory.stage,
        create=pods,
        remove=leaving,
    )
    memory = asked_for(case, pods)
    shapes = {**memory.shapes, **{pod.key.type: pod.resources for pod in pods}}
    return step, replace(memory, shapes=shapes, dismissed=(*memory.dismissed, *map(str, leaving)))


def _seen(case: Case, node: Node) -> Resources | None:
    """What members of its type were seen to need, if that is less than it asks for."""
    had, seen = node.resources, seen_shape(case, node.key.type)
    if node.key.type not in case.memory.impressions.peaks or had.cpu is None or had.memory is None:
        return None
    cpu, memory = seen.cpu or had.cpu, seen.memory or had.memory
    is_less = cpu <= had.cpu and memory <= had.memory and (cpu, memory) != (had.cpu, had.memory)
    return replace(seen, cpu=cpu, memory=memory) if is_less else None


def halved(case: Case, node: Node) -> Resources | None:
    """Half of what a member asks for, the author's own figures kept; None if there is nothing to take away."""
    type_, had = node.key.type, node.resources
    if not case.may_tune(type_):
        return None
    said = case.role(type_).resources
    cpu = had.cpu if said.cpu is not None or had.cpu is None else max(limits.LEAST.cpu or 0.0, had.cpu / 2)
    memory = had.memory
    if said.memory is None and memory is not None:
        half = max(limits.LEAST.memory or 0, memory // 2)
        memory = half if half > case.memory.too_small.get(type_, 0) else memory
    shape = limits.rounded(cpu, memory, had.others)
    return shape if (shape.cpu, shape.memory) != (had.cpu, had.memory) else None
