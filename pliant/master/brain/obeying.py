"""What people ask for while the job runs: the operator sees to it, and the master takes it as it comes."""

from __future__ import annotations

from pliant.master.brain.case import Case
from pliant.master.brain.failures import fallen
from pliant.master.brain.memory import Memory, Place


def heeded(case: Case) -> Memory:
    """The memory without places that are empty because a person wants fewer members: the highest ranks went."""
    numbers = {name: role.by_hand for name, role in case.job.roles.items() if role.by_hand is not None}
    if not numbers:
        return case.memory
    empty = fallen(case)
    gone: set[Place] = set()
    for name, number in numbers.items():
        places = [place for place in case.places if place.type == name]
        surplus = max(len(places) - number, 0)
        gone |= set([place for place in reversed(places) if place in empty][:surplus])
    return case.without(gone) if gone else case.memory
