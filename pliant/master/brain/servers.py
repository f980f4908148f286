"""Parameter servers that are too small: a bigger one takes over, and the old one leaves once nobody needs it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pliant.master.brain import limits, words
from pliant.master.brain.case import CHIEF, PS, WORKER, Case, Move
from pliant.master.brain.relaunching import asked_for
from pliant.master.brain.tempo import HEAT
from pliant.master.model import NewPod, Node, NodeStatus, Resources, Stage, Step


def cooled(case: Case) -> Move | None:
    """A server with twice the CPU for each one that has used nearly all of its own for a while."""
    if case.memory.stage is not Stage.RUNNING or not case.may_tune(PS):
        return None
    if case.memory.servers_changed_at and not case.lasted(case.memory.servers_changed_at, case.tempo.server_pause):
        return None
    if any(node.key.type == PS and _is_superseded(case, node) for node in case.nodes):
        return None  # one change after the other
    hot = [node for node in case.running(PS) if is_hot(case, node)]
    if not hot or len(case.running(PS)) < sum(place.type == PS for place in case.places):
        return None
    had = max(node.resources.cpu or 0.0 for node in hot)
    shape = case.shape(PS)
    bigger = replace(shape, cpu=min(2 * had, _most(case, len(hot))))
    if (bigger.cpu or 0.0) <= had:
        return None
    return made_bigger(case, hot, bigger, f"it uses nearly all of its {had:g} CPU")


def is_hot(case: Case, node: Node) -> bool:
    """Whether a server has used nearly all of its CPU during a whole look, on average."""
    meter = case.memory.impressions.meters.get(node.key)
    if meter is None or not meter.readings or not node.resources.cpu:
        return False
    return case.lasted(meter.since, case.tempo.look) and meter.total / meter.readings >= HEAT * node.resources.cpu


def made_bigger(case: Case, nodes: Sequence[Node], shape: Resources, because: str) -> Move | None:
    """Another server beside each of these, at the same rank; who was there stays until nobody needs it."""
    if limits.how_many(limits.left(case), shape) < len(nodes):
        return None
    keys = case.next_keys(PS for _ in nodes)
    pods = tuple(NewPod(key=key, rank=node.rank, resources=shape) for key, node in zip(keys, nodes, strict=True))
    step = Step(
        reason=f"{words.several([node.key for node in nodes])} with {words.shape(shape)} anew: {because}",
        stage=case.memory.stage,
        create=pods,
    )
    memory = asked_for(case, pods)
    return step, replace(memory, servers_changed_at=case.now, shapes={**memory.shapes, PS: shape})


def relieved(case: Case) -> Move | None:
    """Send servers away whose successors run, once every worker has turned to them or had time enough to."""
    old = [node for node in case.nodes if node.key.type == PS and _is_superseded(case, node)]
    if not old:
        return None
    successors = [case.occupants[place] for place in case.occupants if place.type == PS]
    if any(node.status is not NodeStatus.RUNNING for node in successors):
        return None
    newest = max((node.started_at or node.created_at for node in successors), default=None)
    if not has_everybody_turned(case) and not case.lasted(newest, case.tempo.handover):
        return None
    leaving = tuple(node.key for node in old)
    step = Step(
        reason=f"{words.several(leaving)} handed over to {words.several([node.key for node in successors])}",
        stage=case.memory.stage,
        remove=leaving,
        ps_hosts=case.memory.ps_hosts,
    )
    return step, replace(case.memory, dismissed=(*case.memory.dismissed, *map(str, leaving)))


def has_everybody_turned(case: Case) -> bool:
    """Whether every worker has said that it works with the present set of servers."""
    users = [*case.running(WORKER), *case.running(CHIEF)]
    version = case.memory.ps_version
    return all(node.beat is not None and (node.beat.ps_version or 0) >= version for node in users)


def _is_superseded(case: Case, node: Node) -> bool:
    newest = max(
        (other.key.id for other in case.nodes if other.key.type == PS and other.rank == node.rank),
        default=node.key.id,
    )
    return node.key.id < newest and node.status in (NodeStatus.RUNNING, NodeStatus.PENDING)


def _most(case: Case, number: int) -> float:
    return (limits.left(case).cpu or 0.0) / max(number, 1)
