"""Updates the state of the brain from a snapshot, before anything is decided."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime

from pliant.master.brain.context import PS, WORKER, DecisionContext, parse_slot
from pliant.master.brain.rules.initial_sizing import unmet_requested_sizes
from pliant.master.brain.state import BrainState, CpuUsageWindow, MemberProgress, TransientObservations
from pliant.master.model import Heartbeat, JobMember, MemberKey, MemberSlot, MemberStatus, PodResources, SizingStage


def state_with_snapshot(context: DecisionContext) -> BrainState:
    state, snapshot = context.state, context.snapshot
    keys = {str(member.key) for member in snapshot.members}
    removed = tuple(key for key in state.removed_members if key in keys)
    newest_ids, highest_ids = dict(state.newest_ids), dict(state.highest_ids)
    abandoned = dict(state.abandoned_slots)
    for member in snapshot.members:
        highest_ids[member.key.type] = max(highest_ids.get(member.key.type, -1), member.key.id)
        slot = str(member.slot)
        if str(member.key) not in removed and newest_ids.get(slot, -1) < member.key.id:
            newest_ids[slot] = member.key.id
            abandoned.pop(slot, None)
    stage = _next_stage(state.stage, newest_ids)
    state = replace(
        state,
        stage=stage,
        newest_ids=newest_ids,
        highest_ids=highest_ids,
        removed_members=removed,
        abandoned_slots=abandoned,
        succeeded_slots=_succeeded_slots(context),
        latest_resources=_latest_resources(context),
        observations=_update_observations(context, stage),
    )
    are_missing = bool(unmet_requested_sizes(context.with_state(state)))
    missing_since = (state.observations.members_missing_since or context.now) if are_missing else None
    state = replace(state, observations=replace(state.observations, members_missing_since=missing_since))
    if context.job.is_suspended and not snapshot.members and newest_ids:
        return _state_when_suspended(state)
    return _state_with_ps_hosts(context.with_state(state))


def _next_stage(stage: SizingStage, newest_ids: Mapping[str, int]) -> SizingStage:
    types = {parse_slot(text).type for text in newest_ids}
    if stage is SizingStage.CREATE and types:
        stage = SizingStage.WORKER_INITIAL
    if stage is SizingStage.WORKER_INITIAL and types and WORKER not in types:
        stage = SizingStage.PS_INITIAL
    return SizingStage.RUNNING if stage is SizingStage.PS_INITIAL and PS not in types else stage


def _state_when_suspended(state: BrainState) -> BrainState:
    """Return the state of a suspended job: its sizes are kept, its members get new ids."""
    ended = (*state.succeeded_slots, *state.abandoned_slots)
    types = [parse_slot(text).type for text in state.newest_ids if text not in ended]
    sizes = {type_: types.count(type_) for type_ in dict.fromkeys(types)}
    return replace(state, stage=SizingStage.CREATE, newest_ids={}, removed_members=(), resume_sizes=sizes)


def state_with_appeared_members(state: BrainState, rank_by_member: Mapping[MemberKey, int]) -> BrainState:
    """Return the state after members appeared, which may be gone already."""
    newest_ids, highest_ids = dict(state.newest_ids), dict(state.highest_ids)
    for key, rank in rank_by_member.items():
        if str(key) in state.removed_members:
            continue
        highest_ids[key.type] = max(highest_ids.get(key.type, -1), key.id)
        slot = str(MemberSlot(key.type, rank))
        newest_ids[slot] = max(newest_ids.get(slot, -1), key.id)
    observations = replace(
        state.observations, observed_members=state.observations.observed_members | rank_by_member.keys()
    )
    return replace(state, newest_ids=newest_ids, highest_ids=highest_ids, observations=observations)


def _latest_resources(context: DecisionContext) -> dict[str, PodResources]:
    members = sorted(context.unremoved_members, key=lambda member: member.key.id)
    return {**context.state.latest_resources, **{member.key.type: member.resources for member in members}}


def _succeeded_slots(context: DecisionContext) -> tuple[str, ...]:
    done = [
        str(slot) for slot, member in context.newest_member_by_slot.items() if member.status is MemberStatus.SUCCEEDED
    ]
    return tuple(dict.fromkeys((*context.state.succeeded_slots, *done))) if done else context.state.succeeded_slots


def _update_observations(context: DecisionContext, stage: SizingStage) -> TransientObservations:
    old, now = context.state.observations, context.now
    if old.started_at is None or context.job.is_suspended:
        old = TransientObservations(started_at=now, requested_at=old.requested_at)
    running = [member for member in context.unremoved_members if member.status is MemberStatus.RUNNING]
    workers = frozenset(member.key for member in running if member.key.type == WORKER)
    reporting = [(member, member.heartbeat) for member in running if member.heartbeat is not None]
    servers = [(member.key, heartbeat) for member, heartbeat in reporting if member.key.type == PS]
    keys = {member.key for member in context.snapshot.members}
    return replace(
        old,
        stage_since=old.stage_since if stage is context.state.stage and old.stage_since else now,
        running_workers=workers,
        workers_unchanged_since=old.workers_unchanged_since if workers == old.running_workers else now,
        observed_members=old.observed_members | keys,
        requested_at={key: at for key, at in old.requested_at.items() if key not in keys},
        throughput_windows={key: window for key, window in old.throughput_windows.items() if key in workers},
        cpu_windows={key: _update_cpu_window(old.cpu_windows.get(key), heartbeat, now) for key, heartbeat in servers},
        progress_by_member={
            m.key: _update_progress(old.progress_by_member.get(m.key), heartbeat, now) for m, heartbeat in reporting
        },
        peak_usage=_update_peak_usage(old.peak_usage, reporting),
    )


def _update_cpu_window(window: CpuUsageWindow | None, heartbeat: Heartbeat, now: datetime) -> CpuUsageWindow:
    if window is None:
        window = CpuUsageWindow(now, heartbeat.at)
    elif heartbeat.at <= window.last_reading_at:
        return window
    if heartbeat.cpu is None:
        return window._replace(last_reading_at=heartbeat.at)
    return CpuUsageWindow(window.started_at, heartbeat.at, window.total_cores + heartbeat.cpu, window.readings + 1)


def _update_progress(previous: MemberProgress | None, heartbeat: Heartbeat, now: datetime) -> MemberProgress:
    """Update by the clock of this process; a report from before it started says nothing about the present."""
    if previous is None or (heartbeat.step, heartbeat.samples) != (previous.step, previous.samples):
        return MemberProgress(now, now, heartbeat.step, heartbeat.samples)
    return previous._replace(reported_at=max(previous.reported_at, min(heartbeat.at, now)))


def _update_peak_usage(
    previous: Mapping[str, PodResources], reporting_members: list[tuple[JobMember, Heartbeat]]
) -> dict[str, PodResources]:
    peaks = dict(previous)
    for member, heartbeat in reporting_members:
        peak = peaks.get(member.key.type, PodResources())
        cpu = max(heartbeat.cpu or 0.0, peak.cpu or 0.0) or None
        memory = max(heartbeat.memory or 0, peak.memory or 0) or None
        if cpu or memory:
            peaks[member.key.type] = PodResources(cpu=cpu, memory=memory)
    return peaks


def _state_with_ps_hosts(context: DecisionContext) -> BrainState:
    """Publish a new set of parameter servers once every slot of the set has a running server."""
    slots = [slot for slot in context.required_slots if slot.type == PS]
    hosts = tuple(server.address for server in context.running_members(PS) if server.address)
    if not slots or len(hosts) < len(slots) or hosts == context.state.ps_hosts:
        return context.state
    return replace(context.state, ps_version=context.state.ps_version + 1, ps_hosts=hosts)
