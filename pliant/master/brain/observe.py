"""Takes in what a picture shows, before anything is decided upon it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime

from pliant.master.brain.context import PS, WORKER, DecisionContext, parse_slot
from pliant.master.brain.rules.creation import unmet_sizes
from pliant.master.brain.state import (
    BrainState,
    CpuUsageWindow,
    MemberProgress,
    MemberSlot,
    ThroughputWindow,
    TransientObservations,
)
from pliant.master.model import Heartbeat, JobMember, MemberKey, MemberStatus, PodResources, SizingStage


def state_with_snapshot(context: DecisionContext) -> BrainState:
    """The memory with everything that can be seen now."""
    memory, picture = context.state, context.snapshot
    visible = {str(node.key) for node in picture.members}
    members, ids, dropped = dict(memory.newest_ids), dict(memory.highest_ids), dict(memory.abandoned_slots)
    dismissed = tuple(key for key in memory.removed_members if key in visible)
    for node in picture.members:
        ids[node.key.type] = max(ids.get(node.key.type, -1), node.key.id)
        place = str(MemberSlot(node.key.type, node.rank))
        if str(node.key) not in dismissed and members.get(place, -1) < node.key.id:
            members[place] = node.key.id
            dropped.pop(place, None)  # somebody else has a try
    stage = memory.stage
    if stage is SizingStage.CREATE and members:
        stage = SizingStage.WORKER_INITIAL
    if stage is SizingStage.WORKER_INITIAL and members and not any(text.startswith("worker/") for text in members):
        stage = SizingStage.PS_INITIAL
    if stage is SizingStage.PS_INITIAL and not any(text.startswith("ps/") for text in members):
        stage = SizingStage.RUNNING
    after = replace(
        memory,
        stage=stage,
        newest_ids=members,
        highest_ids=ids,
        removed_members=dismissed,
        abandoned_slots=dropped,
        succeeded_slots=_succeeded_slots(context),
        latest_resources=_latest_resources(context),
        observations=_update_observations(context, stage),
    )
    is_short = bool(unmet_sizes(context.with_state(after)))
    since = after.observations.members_missing_since or context.now
    after = replace(after, observations=replace(after.observations, members_missing_since=since if is_short else None))
    if context.job.is_suspended and not picture.members and members:
        return _state_when_suspended(after)
    return _state_with_ps_hosts(context.with_state(after))


def _state_when_suspended(state: BrainState) -> BrainState:
    """The memory of a job whose members were sent home: as many begin again, at whatever ids."""
    still = [
        parse_slot(text).type
        for text in state.newest_ids
        if text not in (*state.succeeded_slots, *state.abandoned_slots)
    ]
    numbers = {type_: still.count(type_) for type_ in dict.fromkeys(still)}
    return replace(state, stage=SizingStage.CREATE, newest_ids={}, removed_members=(), resume_sizes=numbers)


def state_with_arrivals(state: BrainState, rank_by_member: Mapping[MemberKey, int]) -> BrainState:
    """The memory with members that were seen to come, by rank; they may be gone already."""
    members, ids = dict(state.newest_ids), dict(state.highest_ids)
    for key, rank in rank_by_member.items():
        if str(key) in state.removed_members:
            continue
        ids[key.type] = max(ids.get(key.type, -1), key.id)
        place = str(MemberSlot(key.type, rank))
        members[place] = max(members.get(place, -1), key.id)
    impressions = replace(state.observations, observed=state.observations.observed | rank_by_member.keys())
    return replace(state, newest_ids=members, highest_ids=ids, observations=impressions)


def _latest_resources(context: DecisionContext) -> dict[str, PodResources]:
    newest: dict[str, JobMember] = {}
    for node in context.members:
        if node.key.type not in newest or newest[node.key.type].key.id < node.key.id:
            newest[node.key.type] = node
    return {**context.state.latest_resources, **{type_: node.resources for type_, node in newest.items()}}


def _succeeded_slots(context: DecisionContext) -> tuple[str, ...]:
    done = [str(place) for place, node in context.member_by_slot.items() if node.status is MemberStatus.SUCCEEDED]
    return tuple(dict.fromkeys((*context.state.succeeded_slots, *done))) if done else context.state.succeeded_slots


def _update_observations(context: DecisionContext, stage: SizingStage) -> TransientObservations:
    was, now = context.state.observations, context.now
    if was.started_at is None or context.job.is_suspended:
        was = TransientObservations(started_at=now, requested_at=was.requested_at)
    running = [node for node in context.members if node.status is MemberStatus.RUNNING]
    crew = frozenset(node.key for node in running if node.key.type == WORKER)
    heard = [(node, node.heartbeat) for node in running if node.heartbeat is not None]
    keys = {node.key for node in context.snapshot.members}
    return replace(
        was,
        stage_since=was.stage_since if stage is context.state.stage and was.stage_since else now,
        running_workers=crew,
        workers_unchanged_since=was.workers_unchanged_since if crew == was.running_workers else now,
        observed=was.observed | keys,
        requested_at={key: at for key, at in was.requested_at.items() if key not in keys},
        throughput_windows=_retain_windows(was.throughput_windows, crew),
        cpu_windows={
            n.key: _update_cpu_window(was.cpu_windows.get(n.key), b, now) for n, b in heard if n.key.type == PS
        },
        progress={node.key: _update_progress(was.progress.get(node.key), beat, now) for node, beat in heard},
        peak_usage=_update_peak_usage(was.peak_usage, heard),
    )


def _retain_windows(
    windows: Mapping[MemberKey, ThroughputWindow], keys: frozenset[MemberKey]
) -> dict[MemberKey, ThroughputWindow]:
    return {key: mark for key, mark in windows.items() if key in keys}


def _update_cpu_window(window: CpuUsageWindow | None, heartbeat: Heartbeat, now: datetime) -> CpuUsageWindow:
    if window is None:
        window = CpuUsageWindow(now, heartbeat.at)
    elif heartbeat.at <= window.last_reading_at:
        return window
    if heartbeat.cpu is None:
        return window._replace(last_reading_at=heartbeat.at)
    return CpuUsageWindow(window.started_at, heartbeat.at, window.total_cores + heartbeat.cpu, window.readings + 1)


def _update_progress(known: MemberProgress | None, heartbeat: Heartbeat, now: datetime) -> MemberProgress:
    """By our own clock: a member's may differ, and what was said before we woke tells nothing of now."""
    if known is None:
        return MemberProgress(now, now, heartbeat.step, heartbeat.samples)
    if (heartbeat.step, heartbeat.samples) != (known.step, known.samples):
        return MemberProgress(now, now, heartbeat.step, heartbeat.samples)
    return known._replace(heard_at=max(known.heard_at, min(heartbeat.at, now)))


def _update_peak_usage(
    known: Mapping[str, PodResources], reporting_members: list[tuple[JobMember, Heartbeat]]
) -> dict[str, PodResources]:
    peaks = dict(known)
    for node, beat in reporting_members:
        peak = peaks.get(node.key.type, PodResources())
        if (beat.cpu or 0.0) > (peak.cpu or 0.0) or (beat.memory or 0) > (peak.memory or 0):
            cpu = max(beat.cpu or 0.0, peak.cpu or 0.0) or None
            peaks[node.key.type] = PodResources(cpu=cpu, memory=max(beat.memory or 0, peak.memory or 0) or None)
    return peaks


def _state_with_ps_hosts(context: DecisionContext) -> BrainState:
    """Publish another set of parameter servers once every place of the set has somebody at work."""
    ranks = [place for place in context.required_slots if place.type == PS]
    running = context.running_members(PS)
    hosts = tuple(node.address for node in running if node.address)
    if not ranks or len(hosts) < len(ranks) or hosts == context.state.ps_hosts:
        return context.state
    return replace(context.state, ps_version=context.state.ps_version + 1, ps_hosts=hosts)
