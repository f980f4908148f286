"""The phase, replica counts and message of a job, computed from its pods."""

from __future__ import annotations

from collections import Counter
from datetime import datetime, timedelta

from msgspec.structs import replace

from pliant.engine.context import Context, Transition, make_transition, with_timeline_entry
from pliant.engine.departures import waiting_message, with_checkpoint_results
from pliant.engine.members import publish_membership
from pliant.engine.plans.master_status import count_pods_besides_master, have_managed_workers_succeeded, master_message
from pliant.engine.plans.membership import membership_of
from pliant.engine.pods.deletion import list_stuck_terminating_pods
from pliant.engine.pods.replicas import Replica, Replicas, ReplicaState
from pliant.engine.sizing import RESIZED_REASON
from pliant.engine.status.failures import list_new_failures, record_failures
from pliant.engine.status.messages import failure_message, start_problems
from pliant.model.job import Job, ReplicaGroup
from pliant.model.messages import MAX_DETAILS, Message, MessageReason, message
from pliant.model.state import EngineState, GroupState, JobPhase, ReplicaCounts

MINOR_STATUS_WRITE_DELAY = timedelta(seconds=1)
"""Changes of counts are batched: a thousand starting pods must not cause a thousand writes."""
MEMBERSHIP_WRITE_DELAY = timedelta(seconds=0.2)
"""Replicas of a running job that start or end together are published as one change of the membership."""


def roll_up_status(context: Context) -> EngineState:
    job, replicas, state, now = context.job, context.replicas, context.state, context.now
    phase = _compute_phase(replicas, state)
    current = replace(
        record_failures(state, list_new_failures(state, replicas.all), now),
        phase=phase,
        message=_compose_message(context, phase),
        replica_counts={
            group.name: _count_replicas(group, replicas.in_group(group), state) for group in job.training_groups
        },
        groups={**state.groups, **_record_outcomes(job, replicas, state)},
        emitted_warnings=tuple(warning for warning in state.emitted_warnings if warning in job.warnings),
    )
    current = publish_membership(current, job, replicas.all)
    current = with_checkpoint_results(context.before, current, now)
    done_since = (state.work_done_since or now) if have_managed_workers_succeeded(job, replicas, current) else None
    current = replace(current, work_done_since=done_since)
    if phase is JobPhase.RUNNING and state.phase is not JobPhase.RUNNING:
        current = with_timeline_entry(current, now, str(phase), current.message)
        first_running_at, active_since = state.first_running_at or now, state.active_since or now
        return replace(current, first_running_at=first_running_at, active_since=active_since)
    return current


def final_counts(state: EngineState) -> dict[str, ReplicaCounts]:
    """Return the counts of a job without pods: only succeeded and failed replicas."""
    return {
        name: replace(counts, pending=0, scheduled=0, active=0, restarting=0)
        for name, counts in state.replica_counts.items()
    }


def has_status_changed(before: EngineState | None, after: EngineState) -> bool:
    return before is None or replace(before, status_written_at=None) != replace(after, status_written_at=None)


def status_write_delay(before: EngineState | None, after: EngineState, now: datetime) -> timedelta:
    """Return how long to delay the write of a status change; 0 if the change is important."""
    if before is None or _fields_written_at_once(before) != _fields_written_at_once(after):
        return timedelta(0)
    is_new_phase = before.phase is not after.phase and after.phase is not JobPhase.CREATING
    written_at = before.status_written_at
    # The last write may lie in the future if the clock was set back or another operator wrote it.
    if is_new_phase or written_at is None or written_at > now:
        return timedelta(0)
    if before.membership != after.membership and _generation(before) == _generation(after):
        return timedelta(0)  # only the file is behind
    is_active = after.phase in (JobPhase.RUNNING, JobPhase.RESTARTING)
    has_new_members = is_active and before.membership != after.membership
    delay = MEMBERSHIP_WRITE_DELAY if has_new_members else MINOR_STATUS_WRITE_DELAY
    return max(written_at + delay - now, timedelta(0))


def _generation(state: EngineState) -> int:
    return state.membership.generation if state.membership is not None else 0


def _fields_written_at_once(state: EngineState) -> tuple[object, ...]:
    # The order of two size requests is known only if the first is written before the second,
    # and the pod of a member must not be created twice.
    requests = {name: each.size_requests for name, each in state.groups.items() if each.size_requests}
    members = {name: each.members for name, each in state.groups.items() if each.members}
    # Acknowledgements are in the pods, too: when thousands of replicas leave, not each of them is written by itself.
    pending = {each.request for each in state.departures.values() if each.acknowledged_at is None}
    checkpoints = {each.request: each.request in pending for each in state.departures.values()}
    return requests, members, state.plan_executions, checkpoints


def _compute_phase(replicas: Replicas, state: EngineState) -> JobPhase:
    if state.phase is JobPhase.SUSPENDED:
        return state.phase
    # The phase of a job with a master depends on the master alone, which decides about all other replicas.
    replica_states = [replica.state for replica in replicas.list_engine_managed()]
    if all(replica_state.has_started for replica_state in replica_states):
        return JobPhase.RUNNING
    if state.phase in (JobPhase.RUNNING, JobPhase.RESTARTING):
        return state.phase
    is_unscheduled = any(each in (ReplicaState.ABSENT, ReplicaState.PENDING) for each in replica_states)
    return JobPhase.PENDING if is_unscheduled and state.phase is JobPhase.PENDING else JobPhase.CREATING


def _compose_message(context: Context, phase: JobPhase) -> Message:
    stuck_pods = list_stuck_terminating_pods(context.observed, context.now)
    if phase is JobPhase.SUSPENDED:
        return _suspended_message(context, stuck_pods)
    errors = context.observed.create_errors.values()
    if conflict := next((each for each in errors if each.reason == MessageReason.NAME_CONFLICT), None):
        return conflict  # nothing else can happen before it is resolved
    replicas = context.replicas.all
    if (waiting := waiting_message(context)) is not None:
        return waiting
    if problems := _list_problems(context, stuck_pods):
        return message(MessageReason.DEGRADED, problems)
    if phase is JobPhase.RESTARTING:
        return _restart_message(context.state)
    replicas = context.replicas.list_training()
    missing = [replica for replica in replicas if not replica.state.has_started]
    if (current := master_message(context, missing)) is not None:
        return current
    if not missing:
        return _running_message(context.replicas)
    running = sum(replica.state is ReplicaState.RUNNING for replica in replicas)
    return message(
        MessageReason.WAITING_FOR_REPLICAS,
        (message(MessageReason.REPLICA, replica=replica.display_name) for replica in missing[:MAX_DETAILS]),
        more=len(missing) - MAX_DETAILS if len(missing) > MAX_DETAILS else None,
        running=running,
        total=len(replicas),
    )


def _list_problems(context: Context, stuck_pods: list[Message]) -> list[Message]:
    replicas = context.replicas.all
    # A pod whose container is restarted again and again counts as running, but has a problem.
    problems = start_problems(replica for replica in replicas if replica.outcome is None)
    problems += [message(MessageReason.PODS_NOT_TERMINATING, stuck_pods)] if stuck_pods else []
    problems += [error for _, error in sorted(context.observed.create_errors.items())]
    # Faulty nodes of replicas that do not count as lost yet.
    pods = [each.pod for each in replicas if each.pod is not None and each.state is ReplicaState.RUNNING]
    faults = {(pod.node, pod.node_fault.description): None for pod in pods if pod.node_fault is not None}
    return problems + [message(MessageReason.NODE_FAULTY, node=node, fault=fault) for node, fault in faults]


def _suspended_message(context: Context, stuck_pods: list[Message]) -> Message:
    return message(MessageReason.SUSPENDED, stuck_pods, pods=count_pods_besides_master(context) or None)


def _restart_message(state: EngineState) -> Message:
    """Return the cause of the restart from the timeline: the status message may have shown other problems since."""
    reasons = (JobPhase.RESTARTING, RESIZED_REASON)
    return next((entry.message for entry in reversed(state.timeline) if entry.reason in reasons), state.message)


def _running_message(replicas: Replicas) -> Message:
    training = replicas.list_training()
    if not training:
        return message(MessageReason.NO_REPLICAS)
    if failures := [failure_message(replica) for replica in replicas.list_failed()]:
        return message(MessageReason.RUNNING_WITH_FAILURES, failures)
    finished, total = sum(replica.outcome is not None for replica in training), len(training)
    if not finished:
        return message(MessageReason.ALL_REPLICAS_RUNNING)
    return message(MessageReason.SOME_REPLICAS_FINISHED, running=total - finished, total=total, finished=finished)


def _count_replicas(group: ReplicaGroup, replicas: tuple[Replica, ...], state: EngineState) -> ReplicaCounts:
    tally = Counter(replica.state for replica in replicas)
    absent = tally[ReplicaState.ABSENT] if state.phase is not JobPhase.SUSPENDED else 0
    is_restarting = state.phase is JobPhase.RESTARTING
    returning = tally[ReplicaState.STALE] + tally[ReplicaState.TERMINATING] + tally[ReplicaState.DISRUPTED]
    return ReplicaCounts(
        size=membership_of(group).count(group, replicas),
        pending=tally[ReplicaState.PENDING] + (0 if is_restarting else absent),
        scheduled=tally[ReplicaState.SCHEDULED],
        active=tally[ReplicaState.RUNNING],
        succeeded=tally[ReplicaState.SUCCEEDED],
        restarting=returning + (absent if is_restarting else 0),
        failed=tally[ReplicaState.FAILED] + tally[ReplicaState.LOST],
    )


def _record_outcomes(job: Job, replicas: Replicas, state: EngineState) -> dict[str, GroupState]:
    """Return the group states with new outcomes: a replica whose pod is deleted after it finished must not rerun."""
    changed: dict[str, GroupState] = {}
    for group in job.groups:
        group_state, group_replicas = state.group(group.name), replicas.in_group(group)
        has_started = all(replica.state.has_started for replica in group_replicas)
        stuck_since = None if has_started else group_state.creation_stuck_since
        recorded_states = membership_of(group).recorded_states
        finished = [replica for replica in group_replicas if replica.state in recorded_states]
        observed = {each.rank.index: each.outcome for each in finished if each.outcome is not None}
        # Only restarts and resizes reset outcomes: a pod from before a suspension may hide one that still counts.
        outcomes = group_state.replica_outcomes | observed
        if (outcomes, stuck_since) != (group_state.replica_outcomes, group_state.creation_stuck_since):
            changed[group.name] = replace(group_state, replica_outcomes=outcomes, creation_stuck_since=stuck_since)
    return changed


def emit_spec_warnings(context: Context) -> Transition | None:
    warnings = [warning for warning in context.job.warnings if warning not in context.state.emitted_warnings]
    if not warnings:
        return None
    state = replace(context.state, emitted_warnings=context.job.warnings)
    warning = message(MessageReason.SPEC_WARNING, message="; ".join(warnings))
    return make_transition(state, context.now, "SpecWarning", warning)
