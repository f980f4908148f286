"""Pods to phase, counts and message."""

from __future__ import annotations

from collections import Counter
from datetime import datetime, timedelta

from msgspec.structs import replace

from pliant.engine.context import Context, Transition, make_transition
from pliant.engine.pods.deletion import list_stuck_terminating
from pliant.engine.pods.replicas import Replica, Replicas, ReplicaState
from pliant.engine.sizing import RESIZED_REASON
from pliant.engine.status.failures import list_new_failures, record_failures
from pliant.engine.status.messages import describe_failure, describe_problems, join_names, pluralize
from pliant.engine.timeline import with_timeline_entry
from pliant.model.job import Job, MembershipSource, ReplicaGroup
from pliant.model.labels import normalize_group_name
from pliant.model.state import (
    EngineState,
    GroupMember,
    GroupState,
    JobPhase,
    ReplicaCounts,
    ReplicaOutcome,
    SizeRequest,
    SizeRequester,
)

SERVER_GROUPS = frozenset({"ps"})
"""Groups of those who never end by themselves."""
STATUS_WRITE_DELAY = timedelta(seconds=1)
"""Counts that change faster are written once they settle: a thousand pods coming up are not a thousand writes."""


def roll_up_status(context: Context) -> EngineState:
    """The memory brought up to date with what is seen, before it is known whether that is worth a write."""
    job, roster, state, now = context.job, context.replicas, context.state, context.now
    phase = _compute_phase(roster, state)
    current = replace(
        record_failures(state, list_new_failures(state, roster.all), now),
        phase=phase,
        message=_compose_message(context, phase),
        replica_counts={group.name: _count_replicas(group, roster.in_group(group), state) for group in job.groups},
        groups={**state.groups, **_record_outcomes(job, roster, state)},
        emitted_warnings=tuple(warning for warning in state.emitted_warnings if warning in job.warnings),
    )
    current = replace(
        current, work_done_since=(state.work_done_since or now) if is_work_done(job, roster, current) else None
    )
    if phase is JobPhase.RUNNING and state.phase is not JobPhase.RUNNING:
        current = with_timeline_entry(current, now, str(phase), current.message)
        current = replace(
            current, first_running_at=state.first_running_at or now, active_since=state.active_since or now
        )
    return current


def is_work_done(job: Job, replicas: Replicas, state: EngineState) -> bool:
    """Whether members whom a master looks after have all done their work, those who serve others apart."""
    working = [
        group
        for group in job.groups
        if group.membership_source is MembershipSource.MASTER and group.name not in SERVER_GROUPS
    ]
    if not any(state.group(group.name).replica_outcomes for group in working):
        return False
    return all(place.state is ReplicaState.SUCCEEDED for place in replicas.all if place.rank.group in working)


def final_counts(state: EngineState) -> dict[str, ReplicaCounts]:
    """The counts of a job that holds nothing any more: only ends are left to count."""
    return {
        name: replace(counts, pending=0, scheduled=0, active=0, restarting=0)
        for name, counts in state.replica_counts.items()
    }


def must_write_now(before: EngineState | None, after: EngineState) -> bool:
    """Whether a change must be told at once rather than when things have settled."""
    if before is None or _size_requests(before) != _size_requests(after):
        return True  # which of two requests came later is known only if the first is written before the second
    if _membership_lists(before) != _membership_lists(after) or before.plan_executions != after.plan_executions:
        return True  # who was there once is not made again
    return before.phase is not after.phase and after.phase is not JobPhase.CREATING


def has_status_changed(before: EngineState | None, after: EngineState) -> bool:
    """Whether there is anything to tell at all."""
    return before is None or replace(before, status_written_at=None) != replace(after, status_written_at=None)


def status_write_delay(before: EngineState, now: datetime) -> timedelta:
    """How long to hold back a change that is not pressing."""
    # By a clock that was put back, or another operator's, it may lie ahead: that must not silence the job.
    if before.status_written_at is None or before.status_written_at > now:
        return timedelta(0)
    return max(before.status_written_at + STATUS_WRITE_DELAY - now, timedelta(0))


def _size_requests(state: EngineState) -> dict[str, dict[SizeRequester, SizeRequest]]:
    return {name: memory.size_requests for name, memory in state.groups.items() if memory.size_requests}


def _membership_lists(state: EngineState) -> dict[str, dict[int, GroupMember]]:
    return {name: memory.members for name, memory in state.groups.items() if memory.members}


def _compute_phase(replicas: Replicas, state: EngineState) -> JobPhase:
    if state.phase is JobPhase.SUSPENDED:
        return state.phase
    # Of a job with a master nothing more can be told than whether that runs: who else there is to be, it decides.
    standings = [place.state for place in replicas.list_engine_managed()]
    if all(standing.has_started for standing in standings):
        return JobPhase.RUNNING
    if state.phase in (JobPhase.RUNNING, JobPhase.RESTARTING):
        return state.phase
    is_unscheduled = any(standing in (ReplicaState.ABSENT, ReplicaState.PENDING) for standing in standings)
    return JobPhase.PENDING if is_unscheduled and state.phase is JobPhase.PENDING else JobPhase.CREATING


def _compose_message(context: Context, phase: JobPhase) -> str:
    late = list_stuck_terminating(context.observed, context.now)
    if phase is JobPhase.SUSPENDED:
        control = {normalize_group_name(group.name) for group in context.job.groups if group.is_master}
        left = sum(pod.group not in control for pod in context.observed.pods)
        told = [f"suspended; {pluralize(left, 'pod')} still to go" if left else "suspended"]
        return ": ".join([*told, join_names(late)]) if late else told[0]
    places = context.replicas.all
    wanted = [place for place in places if not place.state.has_started]
    told = [f"waits for pods that should be gone: {join_names(late)}"] if late else []
    told += [f"cannot create {name}: {why}" for name, why in sorted(context.observed.create_errors.items())]
    # A container that its node starts again and again is in trouble, though its pod counts as running.
    told += describe_problems(place for place in places if place.outcome is None) + _describe_node_faults(
        context.replicas
    )
    if told:
        return join_names(told)
    if phase is JobPhase.RESTARTING:
        return _restart_message(context.state)
    if context.job.has_master and not any(place.rank.group.is_master for place in wanted):
        return _master_job_message(context)
    if not wanted:
        return _running_message(context.replicas)
    waiting = join_names([place.display_name for place in wanted])
    return f"{pluralize(len(wanted), 'member')} of {len(places)} not up yet: {waiting}"


def _restart_message(state: EngineState) -> str:
    """What led to the restart, also when the message has told of other troubles meanwhile."""
    reasons = (
        moment.message for moment in reversed(state.timeline) if moment.reason in (JobPhase.RESTARTING, RESIZED_REASON)
    )
    return next(reasons, state.message)


def _describe_node_faults(replicas: Replicas) -> list[str]:
    """Nodes at fault under members that are not given up yet."""
    shaky = [place.pod for place in replicas.all if place.pod is not None and place.state is ReplicaState.RUNNING]
    return list(
        dict.fromkeys(f"node {pod.node} {pod.node_fault.description}" for pod in shaky if pod.node_fault is not None)
    )


def _master_job_message(context: Context) -> str:
    """Who is there of those whom a master looks after, and of how many, as far as that is known."""
    told = []
    for group in (group for group in context.job.groups if group.membership_source is MembershipSource.MASTER):
        places = context.replicas.in_group(group)
        running = sum(place.state is ReplicaState.RUNNING for place in places)
        ended = sum(place.outcome is not None for place in places)
        wanted = max(context.state.group(group.name).applied_size or 0, len(places) - ended)
        if wanted or ended:
            told.append(f"{running} of {wanted} {group.name}" + (f" and {ended} ended" if ended else ""))
    return f"the master runs, with {join_names(told)}" if told else "the master runs, and has asked for nobody yet"


def _running_message(replicas: Replicas) -> str:
    if not replicas.all:
        return "the job has no members"
    # A job that may lose members must not lose them in silence.
    if lost := [describe_failure(place) for place in replicas.list_failed()]:
        return f"goes on although {join_names(lost)}"
    ended = sum(place.outcome is not None for place in replicas.all)
    running = pluralize(len(replicas.all) - ended, "member")
    return f"{running} running, {ended} ended" if ended else "every member runs"


def _count_replicas(group: ReplicaGroup, replicas: tuple[Replica, ...], state: EngineState) -> ReplicaCounts:
    tally = Counter(place.state for place in replicas)
    absent = tally[ReplicaState.ABSENT] if state.phase is not JobPhase.SUSPENDED else 0
    is_restarting = state.phase is JobPhase.RESTARTING
    returning = tally[ReplicaState.STALE] + tally[ReplicaState.TERMINATING] + tally[ReplicaState.DISRUPTED]
    return ReplicaCounts(
        size=group.size if group.membership_source is MembershipSource.ENGINE else len(replicas),
        pending=tally[ReplicaState.PENDING] + (0 if is_restarting else absent),
        scheduled=tally[ReplicaState.SCHEDULED],
        active=tally[ReplicaState.RUNNING],
        succeeded=tally[ReplicaState.SUCCEEDED],
        restarting=returning + (absent if is_restarting else 0),
        failed=tally[ReplicaState.FAILED] + tally[ReplicaState.LOST],
    )


def _record_outcomes(job: Job, replicas: Replicas, state: EngineState) -> dict[str, GroupState]:
    """Remember who has ended, so that a pod object lost afterwards does not train again."""
    endings: dict[str, GroupState] = {}
    for group in job.groups:
        memory, places = state.group(group.name), replicas.in_group(group)
        if group.membership_source is MembershipSource.MASTER:
            endings |= _record_successes(group.name, memory, places)
            continue
        seen = {
            place.rank.index: _OUTCOME_BY_STATE[place.state] for place in places if place.state in _OUTCOME_BY_STATE
        }
        # Only restarts and resizes forget: a pod from before a suspension hides an end that still stands.
        ended = memory.replica_outcomes | seen
        stuck_from = None if all(place.state.has_started for place in places) else memory.creation_stuck_since
        if (ended, stuck_from) != (memory.replica_outcomes, memory.creation_stuck_since):
            endings[group.name] = replace(memory, replica_outcomes=ended, creation_stuck_since=stuck_from)
    return endings


def _record_successes(group_name: str, group_state: GroupState, replicas: tuple[Replica, ...]) -> dict[str, GroupState]:
    """Who has done its work, by id: some masters delete the pods of those, and might forget them themselves."""
    done = {place.rank.index: ReplicaOutcome.SUCCEEDED for place in replicas if place.state is ReplicaState.SUCCEEDED}
    finished = group_state.replica_outcomes | done
    return (
        {group_name: replace(group_state, replica_outcomes=finished)}
        if finished != group_state.replica_outcomes
        else {}
    )


_OUTCOME_BY_STATE = {ReplicaState.SUCCEEDED: ReplicaOutcome.SUCCEEDED, ReplicaState.FAILED: ReplicaOutcome.FAILED}
"""Ends that last; a member lost with its node may turn up again."""


SPEC_WARNING_REASON = "OddSpec"
"""What it is called there."""


def emit_warnings(context: Context) -> Transition | None:
    """Tell of what has not been told yet, if there is anything; the job goes on as it would."""
    news = [warning for warning in context.job.warnings if warning not in context.state.emitted_warnings]
    if not news:
        return None
    return make_transition(
        replace(context.state, emitted_warnings=context.job.warnings), context.now, SPEC_WARNING_REASON, "; ".join(news)
    )
