"""What the author asks for while the job runs: another number of members."""

from __future__ import annotations

from dataclasses import replace

from pliant.master.brain import words
from pliant.master.brain.case import PS, Case, Move
from pliant.master.model import NodeStatus, Step, Wanted

_HERE = (NodeStatus.PENDING, NodeStatus.RUNNING)


def obeyed(case: Case) -> Move | None:
    """The step to a number that was edited; numbers that are as they were are left to others."""
    for name, role in sorted(case.job.roles.items()):
        if role.replicas is None or role.replicas == case.memory.given.get(name) or name == PS:
            continue
        memory = replace(case.memory, given={**case.memory.given, name: role.replicas})
        present = case.of(name, *_HERE)
        if role.replicas == len(present):
            return None, memory
        reason = f"its author asks for {words.count(role.replicas, name)} instead of {len(present)}"
        if role.replicas > len(present):
            wanted = {name: Wanted(replicas=role.replicas, resources=case.shape(name))}
            return Step(reason=reason, stage=memory.stage, replicas=wanted), memory
        leaving = present[role.replicas :]
        places = {f"{name}/{node.rank}" for node in leaving}
        keys = tuple(node.key for node in leaving)
        return Step(reason=reason, stage=memory.stage, remove=keys), replace(
            memory,
            members={place: id_ for place, id_ in memory.members.items() if place not in places},
            dismissed=(*memory.dismissed, *map(str, keys)),
        )
    return None


def adopted(case: Case, types: frozenset[str]) -> Case:
    """The case after somebody set the number of these types by hand: whoever is not there was sent away."""
    visible = {f"{node.key.type}/{node.rank}" for node in case.nodes if node.status is not NodeStatus.LOST}
    memory = case.memory
    members = {
        place: id_
        for place, id_ in memory.members.items()
        if place.rpartition("/")[0] not in types or place in visible
    }
    leaving = [str(n.key) for n in case.nodes if n.key.type in types and n.status is NodeStatus.LOST]
    return case.with_memory(
        replace(
            memory,
            members=members,
            dismissed=tuple(dict.fromkeys((*memory.dismissed, *leaving))),
            pinned=tuple(sorted({*memory.pinned, *types})),
        )
    )
