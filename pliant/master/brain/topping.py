"""Members that came and went without being seen, or were forgotten: asked for by number once more."""

from __future__ import annotations

from pliant.master.brain import words
from pliant.master.brain.case import Case, Move, place_of
from pliant.master.model import Stage, Step, Wanted


def missing(case: Case) -> dict[str, int]:
    """How many members of each type there are to be, where fewer are known."""
    known = [place_of(text).type for text in case.memory.members]
    numbers = {name: role.asked for name, role in case.job.roles.items() if role.asked}
    return {name: number for name, number in numbers.items() if known.count(name) < number}


def topped_up(case: Case) -> Move | None:
    """As many as the operator was asked for, if they have not been seen for long."""
    short = missing(case)
    if not short or case.memory.stage is Stage.CREATE:
        return None
    if not case.lasted(case.memory.impressions.short_since, case.tempo.appear):
        return None
    told = ", ".join(words.count(number, name) for name, number in sorted(short.items()))
    wanted = {name: Wanted(replicas=number, resources=case.shape(name)) for name, number in sorted(short.items())}
    return Step(reason=f"there are to be {told}", stage=case.memory.stage, replicas=wanted), case.memory
