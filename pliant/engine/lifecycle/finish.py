"""The end of a job: completion, failure, end requests, time limits, and the cleanup."""

from __future__ import annotations

from datetime import datetime, timedelta

from msgspec.structs import replace

from pliant.engine.context import Context, Transition, make_transition
from pliant.engine.lifecycle.end_policies import (
    has_job_completed,
    has_job_failed,
    have_deciding_replicas_ended,
    list_decisive_failures,
)
from pliant.engine.lifecycle.suspend import active_seconds
from pliant.engine.pods.deletion import delete_pods
from pliant.engine.pods.replicas import Replica, ReplicaState
from pliant.engine.restart.requests import is_restartable, list_stuck_in_creation
from pliant.engine.restart.restarts import has_restarts_left
from pliant.engine.restart.start_failures import can_never_start, start_failure_message
from pliant.engine.status.failures import list_unstarted, set_root_cause, sort_by_failure_time
from pliant.engine.status.messages import failure_message
from pliant.engine.status.rollup import roll_up_status
from pliant.model.actions import Action, DeleteService, PodDeletionReason
from pliant.model.job import CleanPodPolicy, ReplicaGroup
from pliant.model.labels import format_service_name, job_service_name, normalize_group_name
from pliant.model.messages import Message, MessageReason, message
from pliant.model.observed import ObservedPod, ObservedService, PodPhase
from pliant.model.state import EngineState, JobOutcome, JobPhase, RestartCause

ALWAYS_CLEANED_PHASES = frozenset({JobPhase.TIMEOUT, JobPhase.PREEMPTED, JobPhase.NODE_FAIL})
"""Final phases in which all pods are deleted, whatever the cleanPodPolicy."""
FINISHED_POD_PHASES = frozenset({PodPhase.SUCCEEDED, PodPhase.FAILED})


def end_on_request(context: Context) -> Transition | None:
    request = context.job.end_request
    if request is None:
        return None
    outcome = JobOutcome(
        phase=request.phase,
        message=message(MessageReason.END_REQUESTED, message=request.message),
        at=context.now,
        must_delete_all=True,
    )
    return end_transition(context, outcome)


def complete_job(context: Context) -> Transition | None:
    if not has_job_completed(context.job, context.replicas):
        return None
    completed = message(MessageReason.TRAINING_COMPLETED)
    return end_transition(context, JobOutcome(phase=JobPhase.SUCCEED, message=completed, at=context.now))


def fail_job(context: Context) -> Transition | None:
    """End the job if it has failed or can no longer complete."""
    outcome = _failure_outcome(context) or _creation_failure_outcome(context) or _disruption_outcome(context)
    return None if outcome is None else end_transition(context, outcome)


def time_out_job(context: Context) -> Transition | None:
    job, state, now = context.job, context.state, context.now
    left = time_to_job_timeout(context)
    if left is None or left > timedelta(0):
        return None
    if job.counts_time_from_start:
        details = [state.message] if state.active_since is None else []
        cause = message(MessageReason.DEADLINE_EXCEEDED, details, limit=str(job.time_limit))
    elif state.active_since is None:
        cause = message(MessageReason.START_LIMIT_EXCEEDED, [state.message], limit=str(job.start_limit))
    else:
        cause = message(MessageReason.TIME_LIMIT_EXCEEDED, limit=str(job.time_limit))
    outcome = JobOutcome(phase=JobPhase.TIMEOUT, message=cause, at=now, must_delete_all=True)
    return end_transition(context, outcome)


def time_to_job_timeout(context: Context) -> timedelta | None:
    """Return the time until the current limit is reached; None if no limit applies."""
    job, state, now = context.job, context.state, context.now
    since = state.resumed_at or state.started_at
    since = state.counts_from(since)
    if job.counts_time_from_start:
        return None if job.time_limit is None else since + job.time_limit - now
    if state.active_since is not None:
        return None if job.time_limit is None else job.time_limit - timedelta(seconds=active_seconds(state, now))
    return None if job.start_limit is None else since + job.start_limit - now


def ttl_left(context: Context) -> timedelta | None:
    ttl, state = context.spec.ttl_after_finished, context.state
    return None if ttl is None else state.counts_from(state.ended_at or state.started_at) + ttl - context.now


def delete_leftover_objects(context: Context) -> tuple[Action, ...]:
    pods, services = list_leftover_objects(context)
    return (
        *delete_pods(pods, PodDeletionReason.JOB_ENDED, context.config, context.now),
        *(DeleteService(name=service.name, uid=service.uid) for service in services if not service.is_terminating),
    )


def list_leftover_objects(context: Context) -> tuple[list[ObservedPod], list[ObservedService]]:
    """Return the pods and services of a finished job that must be deleted, sorted by name."""
    job, observed, state = context.spec, context.observed, context.state
    must_delete_all = state.outcome is not None and state.outcome.must_delete_all
    must_delete_all = must_delete_all or state.phase in ALWAYS_CLEANED_PHASES
    control = {normalize_group_name(group.name) for group in job.groups if group.is_control}
    match CleanPodPolicy.ALL if must_delete_all else job.clean_pod_policy:
        case CleanPodPolicy.NONE:
            return [pod for pod in observed.pods if pod.group in control], []
        case CleanPodPolicy.RUNNING:
            kept = {pod.name for pod in observed.pods if pod.phase in FINISHED_POD_PHASES and not pod.is_terminating}
        case CleanPodPolicy.ALL:
            kept = set()
    kept -= {pod.name for pod in observed.pods if pod.group in control}
    kept_services = {format_service_name(job.naming, name) for name in kept}
    kept_services |= {job_service_name(job)} if kept else set()
    pods = [pod for pod in observed.pods if pod.name not in kept]
    services = [service for service in observed.services.values() if service.name not in kept_services]
    return sorted(pods, key=lambda pod: pod.name), sorted(services, key=lambda service: service.name)


def terminating_message(outcome: JobOutcome, stuck_pods: list[Message]) -> Message:
    if not stuck_pods:
        return outcome.message
    waiting = message(MessageReason.PODS_NOT_TERMINATING, stuck_pods)
    return message(MessageReason.WAITING_FOR_TERMINATION, [outcome.message, waiting])


def with_end(state: EngineState, outcome: JobOutcome, at: datetime) -> EngineState:
    """Return the state in its final phase; the TTL counts from now on."""
    return replace(state, phase=outcome.phase, ended_at=at, uncounted_seconds_before=state.uncounted_seconds)


def end_transition(context: Context, outcome: JobOutcome) -> Transition:
    """Persist the outcome; the job enters its final phase when its pods are deleted, or now if they are kept."""
    keeps_pods = context.job.clean_pod_policy is CleanPodPolicy.NONE and not outcome.must_delete_all
    after = replace(_with_root_cause(context, outcome), outcome=outcome, message=outcome.message)
    after = with_end(after, outcome, outcome.at) if keeps_pods else replace(after, phase=JobPhase.TERMINATING)
    is_warning = outcome.phase is not JobPhase.SUCCEED
    return make_transition(after, outcome.at, str(outcome.phase), outcome.message, is_warning=is_warning)


def _with_root_cause(context: Context, outcome: JobOutcome) -> EngineState:
    """Return the current state with the failure that led to the outcome, if there is one."""
    state, unstarted = roll_up_status(context), list_unstarted(context.state, context.replicas.all)
    if outcome.phase in (JobPhase.FAILED, JobPhase.NODE_FAIL) and context.job.end_request is None:
        failed = list(context.replicas.list_failed()) or list_stuck_in_creation(context)
        return set_root_cause(state, failed, unstarted, context.now)
    if outcome.phase is JobPhase.TIMEOUT and unstarted and context.job.end_request is None:
        return set_root_cause(state, (), unstarted, context.now)
    # The cause of a completed restart did not lead to this outcome; that of a restart in progress may have.
    is_restarting = context.state.phase is JobPhase.RESTARTING and outcome.phase is not JobPhase.SUCCEED
    return state if is_restarting else replace(state, root_cause=None)


def _failure_outcome(context: Context) -> JobOutcome | None:
    failed, unstarted = context.replicas.list_failed(), list_unstarted(context.state, context.replicas.all)
    ordered = sort_by_failure_time(context.state, (*failed, *unstarted), context.now) if failed else []
    causes = [_explain_failure(replica, context) for replica in ordered]
    if has_job_failed(context.job, context.replicas):
        decisive = list_decisive_failures(context.job, context.replicas)
        first = sort_by_failure_time(context.state, decisive, context.now)[0]
        by_node = first.failure_cause is RestartCause.NODE
        phase = JobPhase.NODE_FAIL if by_node else JobPhase.FAILED
        return JobOutcome(
            phase=phase, message=message(MessageReason.REPLICAS_FAILED, causes), at=context.now, must_delete_all=by_node
        )
    if not have_deciding_replicas_ended(context.job, context.replicas):
        return None
    if not causes:
        cause = message(MessageReason.ALL_REPLICAS_SUCCEEDED)
        return JobOutcome(phase=JobPhase.SUCCEED, message=cause, at=context.now)
    cause = message(MessageReason.COMPLETE_POLICY_NOT_MET, causes)
    return JobOutcome(phase=JobPhase.FAILED, message=cause, at=context.now)


def _creation_failure_outcome(context: Context) -> JobOutcome | None:
    """Fail the job if container creation was retried long enough and the operator is configured to give up."""
    if not context.config.should_fail_on_creation_timeout or not (stuck := list_stuck_in_creation(context)):
        return None
    cause = message(MessageReason.REPLICAS_FAILED, map(failure_message, stuck))
    return JobOutcome(phase=JobPhase.FAILED, message=cause, at=context.now)


def _disruption_outcome(context: Context) -> JobOutcome | None:
    """Fail the job if a replica was disrupted and its group may not replace it any more."""
    for replica in context.replicas.list_engine_managed():
        group = replica.rank.group
        is_disrupted = replica.state in (ReplicaState.TERMINATING, ReplicaState.DISRUPTED)
        is_counted = is_disrupted and group.restart_rule.counts_disruptions and not replica.is_disrupted_by_node
        if is_counted and not has_restarts_left(group, context.state.group(group.name)):
            cause = _limit_message(group, group.restart_rule.limit or 0, failure_message(replica))
            return JobOutcome(phase=JobPhase.FAILED, message=cause, at=context.now)
    return None


def _explain_failure(replica: Replica, context: Context) -> Message:
    failure, group, job_limit = failure_message(replica), replica.rank.group, context.job.restart_limit
    if replica.outcome is None or not is_restartable(context.job, replica):
        return failure
    if can_never_start(context, replica):
        return start_failure_message(replica)
    if limit := group.restart_rule.limit:
        return _limit_message(group, limit, failure)
    return message(MessageReason.JOB_RESTART_LIMIT_REACHED, [failure], limit=job_limit) if job_limit else failure


def _limit_message(group: ReplicaGroup, limit: int, failure: Message) -> Message:
    return message(MessageReason.RESTART_LIMIT_REACHED, [failure], group=group.name, limit=limit)
