"""Takes in what a picture shows, before anything is decided upon it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime

from pliant.master.brain.case import PS, WORKER, Case, place_of
from pliant.master.brain.memory import Impressions, Mark, Memory, Meter, Place, Progress
from pliant.master.brain.topping import missing
from pliant.master.model import Beat, Node, NodeKey, NodeStatus, Resources, Stage


def noted(case: Case) -> Memory:
    """The memory with everything that can be seen now."""
    memory, picture = case.memory, case.picture
    visible = {str(node.key) for node in picture.nodes}
    members, ids, dropped = dict(memory.members), dict(memory.ids), dict(memory.dropped)
    dismissed = tuple(key for key in memory.dismissed if key in visible)
    for node in picture.nodes:
        ids[node.key.type] = max(ids.get(node.key.type, -1), node.key.id)
        place = str(Place(node.key.type, node.rank))
        if str(node.key) not in dismissed and members.get(place, -1) < node.key.id:
            members[place] = node.key.id
            dropped.pop(place, None)  # somebody else has a try
    stage = memory.stage
    if stage is Stage.CREATE and members:
        stage = Stage.WORKER_INITIAL
    if stage is Stage.WORKER_INITIAL and members and not any(text.startswith("worker/") for text in members):
        stage = Stage.PS_INITIAL
    if stage is Stage.PS_INITIAL and not any(text.startswith("ps/") for text in members):
        stage = Stage.RUNNING
    after = replace(
        memory,
        stage=stage,
        members=members,
        ids=ids,
        dismissed=dismissed,
        dropped=dropped,
        done=_done(case),
        latest=_latest(case),
        impressions=_impressions(case, stage),
    )
    is_short = bool(missing(case.with_memory(after)))
    since = after.impressions.short_since or case.now
    after = replace(after, impressions=replace(after.impressions, short_since=since if is_short else None))
    if case.job.is_suspended and not picture.nodes and members:
        return _at_rest(after)
    return _with_servers(case.with_memory(after))


def _at_rest(memory: Memory) -> Memory:
    """The memory of a job whose members were sent home: as many begin again, at whatever ids."""
    still = [place_of(text).type for text in memory.members if text not in (*memory.done, *memory.dropped)]
    numbers = {type_: still.count(type_) for type_ in dict.fromkeys(still)}
    return replace(memory, stage=Stage.CREATE, members={}, dismissed=(), resumes=numbers)


def sighted(memory: Memory, found: Mapping[NodeKey, int]) -> Memory:
    """The memory with members that were seen to come, by rank; they may be gone already."""
    members, ids = dict(memory.members), dict(memory.ids)
    for key, rank in found.items():
        if str(key) in memory.dismissed:
            continue
        ids[key.type] = max(ids.get(key.type, -1), key.id)
        place = str(Place(key.type, rank))
        members[place] = max(members.get(place, -1), key.id)
    impressions = replace(memory.impressions, seen=memory.impressions.seen | found.keys())
    return replace(memory, members=members, ids=ids, impressions=impressions)


def _latest(case: Case) -> dict[str, Resources]:
    newest: dict[str, Node] = {}
    for node in case.nodes:
        if node.key.type not in newest or newest[node.key.type].key.id < node.key.id:
            newest[node.key.type] = node
    return {**case.memory.latest, **{type_: node.resources for type_, node in newest.items()}}


def _done(case: Case) -> tuple[str, ...]:
    done = [str(place) for place, node in case.occupants.items() if node.status is NodeStatus.SUCCEEDED]
    return tuple(dict.fromkeys((*case.memory.done, *done))) if done else case.memory.done


def _impressions(case: Case, stage: Stage) -> Impressions:
    was, now = case.memory.impressions, case.now
    if was.woke_at is None or case.job.is_suspended:
        was = Impressions(woke_at=now, asked=was.asked)
    running = [node for node in case.nodes if node.status is NodeStatus.RUNNING]
    crew = frozenset(node.key for node in running if node.key.type == WORKER)
    heard = [(node, node.beat) for node in running if node.beat is not None]
    keys = {node.key for node in case.picture.nodes}
    return replace(
        was,
        stage_since=was.stage_since if stage is case.memory.stage and was.stage_since else now,
        crew=crew,
        crew_since=was.crew_since if crew == was.crew else now,
        seen=was.seen | keys,
        asked={key: at for key, at in was.asked.items() if key not in keys},
        marks=_kept(was.marks, crew),
        meters={n.key: _metered(was.meters.get(n.key), b, now) for n, b in heard if n.key.type == PS},
        progress={node.key: _further(was.progress.get(node.key), beat, now) for node, beat in heard},
        peaks=_peaks(was.peaks, heard),
    )


def _kept(marks: Mapping[NodeKey, Mark], keys: frozenset[NodeKey]) -> dict[NodeKey, Mark]:
    return {key: mark for key, mark in marks.items() if key in keys}


def _metered(meter: Meter | None, beat: Beat, now: datetime) -> Meter:
    if meter is None:
        meter = Meter(now, beat.at)
    elif beat.at <= meter.last:
        return meter
    if beat.cpu is None:
        return meter._replace(last=beat.at)
    return Meter(meter.since, beat.at, meter.total + beat.cpu, meter.readings + 1)


def _further(known: Progress | None, beat: Beat, now: datetime) -> Progress:
    """By our own clock: a member's may differ, and what was said before we woke tells nothing of now."""
    if known is None:
        return Progress(now, now, beat.step, beat.samples)
    if (beat.step, beat.samples) != (known.step, known.samples):
        return Progress(now, now, beat.step, beat.samples)
    return known._replace(heard_at=max(known.heard_at, min(beat.at, now)))


def _peaks(known: Mapping[str, Resources], heard: list[tuple[Node, Beat]]) -> dict[str, Resources]:
    peaks = dict(known)
    for node, beat in heard:
        peak = peaks.get(node.key.type, Resources())
        if (beat.cpu or 0.0) > (peak.cpu or 0.0) or (beat.memory or 0) > (peak.memory or 0):
            cpu = max(beat.cpu or 0.0, peak.cpu or 0.0) or None
            peaks[node.key.type] = Resources(cpu=cpu, memory=max(beat.memory or 0, peak.memory or 0) or None)
    return peaks


def _with_servers(case: Case) -> Memory:
    """Publish another set of parameter servers once every place of the set has somebody at work."""
    ranks = [place for place in case.places if place.type == PS]
    running = case.running(PS)
    hosts = tuple(node.address for node in running if node.address)
    if not ranks or len(hosts) < len(ranks) or hosts == case.memory.ps_hosts:
        return case.memory
    return replace(case.memory, ps_version=case.memory.ps_version + 1, ps_hosts=hosts)
