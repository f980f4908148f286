"""The first plan: everybody the author asked for, and a small guess where he left it open."""

from __future__ import annotations

from dataclasses import replace

from pliant.master.brain import limits, words
from pliant.master.brain.case import Case, Move
from pliant.master.model import Resources, RoleSpec, Stage, Step, Wanted

GUESS = Resources(cpu=1.0, memory=words.GIB)
"""What the first member of a type gets when nobody has said: it is measured soon enough."""


def first_plan(case: Case) -> Move | None:
    """Everybody, as long as nobody was ever there."""
    if case.memory.stage is not Stage.CREATE or case.memory.members or not case.job.roles:
        return None
    resumes = case.memory.resumes
    sizes = {
        name: role.by_hand or resumes.get(name) or role.replicas or max(role.least, 1)
        for name, role in case.job.roles.items()
        if not resumes or resumes.get(name)
    }
    shares = sum(sizes.values())
    kept = {**case.memory.shapes, **(case.memory.latest if resumes else {})}
    shapes = {name: kept.get(name) or _shape(case, case.role(name), shares) for name in sizes}
    wanted = {name: Wanted(replicas=number, resources=shapes[name]) for name, number in sorted(sizes.items())}
    told = ", ".join(
        f"{words.count(each.replicas, name)} with {words.shape(each.resources)}" for name, each in wanted.items()
    )
    begins = "goes on" if resumes else "begins"
    step = Step(reason=f"the job {begins}: {told}", stage=Stage.CREATE, replicas=wanted)
    return step, replace(case.memory, shapes={**case.memory.shapes, **shapes}, resumes={})


def _shape(case: Case, role: RoleSpec, shares: int) -> Resources:
    """What the author gave, and for the rest a guess that leaves as much for each of the others."""
    said = role.resources
    if not case.may_tune(role.type):
        return said
    room = limits.left(case)
    cpu = min(GUESS.cpu or 0.0, (room.cpu or 0.0) / shares)
    memory = min(GUESS.memory or 0, (room.memory or 0) // shares)
    guess = limits.rounded(cpu, memory, said.others)
    return replace(
        guess,
        cpu=guess.cpu if said.cpu is None else said.cpu,
        memory=guess.memory if said.memory is None else said.memory,
    )
