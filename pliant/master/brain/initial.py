"""From guesses to what was seen: the first looks at workers and parameter servers."""

from __future__ import annotations

from dataclasses import replace

from pliant.master.brain import limits, words
from pliant.master.brain.case import PS, WORKER, Case, Move
from pliant.master.brain.growing import may_choose, may_measure, resized
from pliant.master.brain.servers import made_bigger
from pliant.master.model import Resources, Stage

CPU_MARGIN = 1.25
MEMORY_MARGIN = 1.5
"""What a member gets beyond the most that one of its type was seen to use."""


def first_look(case: Case) -> Move | None:
    """The workers' shape by what the first ones use, and more of them if the number is ours to choose."""
    if case.memory.stage is not Stage.WORKER_INITIAL or not case.running(WORKER):
        return None
    known = case.memory.impressions.peaks.get(WORKER)
    if known is None or known.memory is None:
        return None
    if may_choose(case):
        if not may_measure(case):
            return None
    elif not case.lasted(case.memory.impressions.crew_since, case.tempo.settle):
        return None
    shape = seen_shape(case, WORKER)
    move = resized(case, shape) if may_choose(case) else None
    step, memory = move or (None, case.memory)
    memory = replace(memory, stage=Stage.PS_INITIAL, shapes={**memory.shapes, WORKER: shape})
    if step is not None:
        used = words.shape(limits.rounded(known.cpu, known.memory, {}))
        step = replace(
            step, reason=f"{step.reason}; a worker uses up to {used}, so new ones get {words.shape(shape)}"
        )
    return step, memory


def first_look_at_servers(case: Case) -> Move | None:
    """The servers' shape by what they use; who has too little is replaced by a bigger one."""
    if case.memory.stage is not Stage.PS_INITIAL:
        return None
    done = replace(case.memory, stage=Stage.RUNNING)
    known = case.memory.impressions.peaks.get(PS)
    since = case.memory.impressions.stage_since
    if known is None:
        return (None, done) if case.lasted(since, case.tempo.reports) else None
    if not case.lasted(since, case.tempo.settle):
        return None
    shape = seen_shape(case, PS)
    tight = [
        node
        for node in case.running(PS)
        if (node.resources.memory or 0) and (known.memory or 0) > 0.8 * (node.resources.memory or 0)
    ]
    if not tight or not case.may_tune(PS):
        return None, replace(done, shapes={**done.shapes, PS: shape})
    move = made_bigger(case, tight, shape, "it uses most of its memory")
    return None if move is None else (move[0], replace(move[1], stage=Stage.RUNNING))


def seen_shape(case: Case, type_: str) -> Resources:
    """What the author gave, and for the rest what was seen and a margin; never less than what was too little."""
    said, old = case.role(type_).resources, case.shape(type_)
    known = case.memory.impressions.peaks.get(type_)
    if not case.may_tune(type_) or known is None:
        return old
    seen = limits.rounded(
        None if known.cpu is None else known.cpu * CPU_MARGIN,
        None if known.memory is None else round(known.memory * MEMORY_MARGIN),
        said.others,
    )
    memory = old.memory if seen.memory is None else seen.memory
    if memory is not None and memory <= case.memory.too_small.get(type_, 0):
        memory = old.memory
    return Resources(
        cpu=said.cpu if said.cpu is not None else (seen.cpu or old.cpu),
        memory=said.memory if said.memory is not None and type_ not in case.memory.too_small else memory,
        others=said.others,
    )
