"""Workers that are far slower than their peers, look after look."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from statistics import median

from pliant.master.brain.case import WORKER, Case, Move
from pliant.master.brain.memory import Mark, Memory
from pliant.master.brain.tempo import SLOW, SLOW_LOOKS
from pliant.master.model import NewPod, Node, Stage, Step

PEERS = 3
"""Fewer workers than these have no middle to be compared with."""
HOUR = timedelta(hours=1)


def measured(case: Case) -> Memory:
    """The memory with another look at every worker whose last look is over."""
    marks = dict(case.memory.impressions.marks)
    over = []
    for node in case.running(WORKER):
        if node.beat is None or node.beat.samples is None:
            continue
        mark = marks.get(node.key)
        if mark is None:
            marks[node.key] = Mark(case.now, node.beat.samples)
        elif case.lasted(mark.at, case.tempo.look):
            rate = (node.beat.samples - mark.samples) / (case.now - mark.at).total_seconds()
            marks[node.key] = Mark(case.now, node.beat.samples, mark.slow, rate)
            over.append(node.key)
    rates = {key: mark.rate for key, mark in marks.items() if mark.rate is not None}
    for key in over:
        others = [rate for other, rate in rates.items() if other != key]
        is_slow = len(others) >= PEERS - 1 and rates[key] < SLOW * median(others)
        marks[key] = marks[key]._replace(slow=marks[key].slow + 1 if is_slow else 0)
    if marks == case.memory.impressions.marks:
        return case.memory
    return replace(case.memory, impressions=replace(case.memory.impressions, marks=marks))


def replaced(case: Case) -> Move | None:
    """A new worker for the slowest one; it leaves when the new one runs, for slow is better than nobody."""
    if case.memory.stage is not Stage.RUNNING or not case.may_tune(WORKER) or case.picture.work_left == 0:
        return None
    recent = tuple(at for at in case.memory.replaced if case.now - at < HOUR)
    slow = [node for node in case.running(WORKER) if _is_slow(case, node)]
    if not slow or len(recent) >= case.tempo.replacements:
        return None
    node = min(slow, key=lambda each: case.memory.impressions.marks[each.key].rate or 0.0)
    (key,) = case.next_keys([WORKER])
    pod = NewPod(key=key, rank=node.rank, resources=node.resources)
    rates = [mark.rate for mark in case.memory.impressions.marks.values() if mark.rate is not None]
    rate = case.memory.impressions.marks[node.key].rate or 0.0
    step = Step(
        reason=f"{node.key} is slow: {rate:.3g} samples a second where the others do {median(rates):.3g}",
        stage=case.memory.stage,
        migrate=(pod,),
    )
    # The operator may give it another id: it is noted when it is there.
    impressions = case.memory.impressions
    marks = {key: mark for key, mark in impressions.marks.items() if key != node.key}
    impressions = replace(impressions, marks=marks)
    return step, replace(case.memory, replaced=(*recent, case.now), impressions=impressions)


def _is_slow(case: Case, node: Node) -> bool:
    mark = case.memory.impressions.marks.get(node.key)
    return mark is not None and mark.slow >= SLOW_LOOKS
