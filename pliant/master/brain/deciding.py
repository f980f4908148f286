"""The master's mind on one screen: what the job needs next, one step at a time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from pliant.master.brain.case import Case, Move
from pliant.master.brain.creating import first_plan
from pliant.master.brain.ending import ended
from pliant.master.brain.failures import judged
from pliant.master.brain.growing import grown
from pliant.master.brain.initial import first_look, first_look_at_servers
from pliant.master.brain.memory import Memory
from pliant.master.brain.noting import noted
from pliant.master.brain.obeying import heeded
from pliant.master.brain.relaunching import relaunched
from pliant.master.brain.servers import cooled, relieved
from pliant.master.brain.silence import woken
from pliant.master.brain.stragglers import measured, replaced
from pliant.master.brain.stuck import given_up, made_smaller
from pliant.master.brain.tempo import Tempo
from pliant.master.brain.topping import topped_up
from pliant.master.model import End, Picture, Step

REMEDIES: Final[tuple[Callable[[Case], Move | None], ...]] = (
    first_plan,
    relaunched,
    topped_up,
    woken,
    given_up,
    made_smaller,
    relieved,
    first_look,
    first_look_at_servers,
    cooled,
    replaced,
    grown,
)
"""In this order: who is needed at all, who is missing, what was asked for, what cannot be had, what is better."""


def noticed(picture: Picture, memory: Memory, tempo: Tempo | None = None) -> Memory:
    """What to remember of a picture while nothing may be decided."""
    return noted(Case(picture, memory, tempo or Tempo()))


def next_step(picture: Picture, memory: Memory, tempo: Tempo | None = None) -> tuple[Step | End | None, Memory]:
    """What to do now, if anything, and what to remember if it is done."""
    case = Case(picture, memory, tempo or Tempo())
    case = case.with_memory(noted(case))
    if picture.job.is_suspended:
        return None, case.memory
    case = case.with_memory(heeded(case))
    case = case.with_memory(judged(case))
    if (end := ended(case)) is not None:
        return end, case.memory
    case = case.with_memory(measured(case))
    for remedy in REMEDIES:
        move = remedy(case)
        if move is not None:
            step, memory = move
            if step is not None:
                return step, memory
            case = case.with_memory(memory)
    return None, case.memory
