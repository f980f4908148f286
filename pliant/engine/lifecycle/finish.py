"""The end of a job: completion, failure, end requests, time limits, and the cleanup."""

from __future__ import annotations

from collections.abc import Iterable
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
from pliant.engine.status.failures import set_root_cause
from pliant.engine.status.messages import describe_failure, pluralize, summarize_names
from pliant.engine.status.rollup import roll_up_status
from pliant.model.actions import Action, DeleteService
from pliant.model.job import CleanPodPolicy, Job
from pliant.model.labels import format_service_name
from pliant.model.observed import Observed, ObservedPod, ObservedService, PodPhase
from pliant.model.state import EngineState, JobOutcome, JobPhase, RestartCause

MASTER_COMPLETION_TIMEOUT = timedelta(minutes=2)
"""DLRover's masters check every 30 seconds whether their job has completed."""
ALWAYS_CLEANED_PHASES = frozenset({JobPhase.TIMEOUT, JobPhase.PREEMPTED, JobPhase.NODE_FAIL})
"""Final phases in which all pods are deleted, whatever the cleanPodPolicy."""
FINISHED_POD_PHASES = frozenset({PodPhase.SUCCEEDED, PodPhase.FAILED})


def end_on_request(context: Context) -> Transition | None:
    request = context.job.end_request
    if request is None:
        return None
    outcome = JobOutcome(phase=request.phase, message=request.message, at=context.now, must_delete_all=True)
    return _end_transition(context, outcome)


def complete_job(context: Context) -> Transition | None:
    if not has_job_completed(context.job, context.replicas):
        return None
    return _end_transition(context, JobOutcome(phase=JobPhase.SUCCEED, message="training completed", at=context.now))


def fail_job(context: Context) -> Transition | None:
    """End the job if it has failed or can no longer complete."""
    outcome = _failure_outcome(context) or _creation_failure_outcome(context) or _disruption_outcome(context)
    return None if outcome is None else _end_transition(context, outcome)


def time_out_job(context: Context) -> Transition | None:
    job, state, now = context.job, context.state, context.now
    left = time_to_job_timeout(job, state, now)
    if left is None or left > timedelta(0):
        return None
    if job.counts_time_from_start:
        message = f"not completed within {job.time_limit} of the start"
    elif state.active_since is None:
        message = f"not all replicas were running within {job.start_limit} (startLimit): {state.message}"
    else:
        message = f"ran for {job.time_limit} (timeLimit)"
    outcome = JobOutcome(phase=JobPhase.TIMEOUT, message=message, at=now, must_delete_all=True)
    return _end_transition(context, outcome)


def time_to_job_timeout(job: Job, state: EngineState, now: datetime) -> timedelta | None:
    """Return the time until the current limit is reached; None if no limit applies."""
    if state.phase is JobPhase.SUSPENDED:
        return None
    since = state.resumed_at or state.started_at
    if job.counts_time_from_start:
        return None if job.time_limit is None else since + job.time_limit - now
    if state.active_since is not None:
        return None if job.time_limit is None else job.time_limit - timedelta(seconds=active_seconds(state, now))
    return None if job.start_limit is None else since + job.start_limit - now


def ttl_left(job: Job, state: EngineState, now: datetime) -> timedelta | None:
    if job.ttl_after_finished is None:
        return None
    return (state.ended_at or state.started_at) + job.ttl_after_finished - now


def complete_after_master_timeout(context: Context) -> Transition | None:
    """End a job whose members have succeeded but whose master waits for members that were removed."""
    since = context.state.work_done_since
    if since is None or context.now < since + MASTER_COMPLETION_TIMEOUT:
        return None
    message = "all replicas succeeded, but the master did not end the job"
    return _end_transition(context, JobOutcome(phase=JobPhase.SUCCEED, message=message, at=context.now))


def time_to_master_completion_timeout(context: Context) -> timedelta | None:
    """Return how long the master of a completed job may still take to end it."""
    since = context.state.work_done_since
    return max(since + MASTER_COMPLETION_TIMEOUT - context.now, timedelta(0)) if since is not None else None


def delete_leftover_objects(job: Job, observed: Observed, state: EngineState, now: datetime) -> tuple[Action, ...]:
    pods, services = list_leftover_objects(job, observed, state)
    return (
        *delete_pods(observed, pods, "the job has ended", now),
        *(DeleteService(name=service.name, uid=service.uid) for service in services if not service.is_terminating),
    )


def list_leftover_objects(
    job: Job, observed: Observed, state: EngineState
) -> tuple[list[ObservedPod], list[ObservedService]]:
    """Return the pods and services of a finished job that must be deleted, sorted by name."""
    must_delete_all = state.outcome is not None and state.outcome.must_delete_all
    must_delete_all = must_delete_all or state.phase in ALWAYS_CLEANED_PHASES
    match CleanPodPolicy.ALL if must_delete_all else job.clean_pod_policy:
        case CleanPodPolicy.NONE:
            return [], []
        case CleanPodPolicy.RUNNING:
            kept = {pod.name for pod in observed.pods if pod.phase in FINISHED_POD_PHASES and not pod.is_terminating}
        case CleanPodPolicy.ALL:
            kept = set()
    kept_services = {format_service_name(job.naming, name) for name in kept}
    pods = [pod for pod in observed.pods if pod.name not in kept]
    services = [service for service in observed.services.values() if service.name not in kept_services]
    return sorted(pods, key=lambda pod: pod.name), sorted(services, key=lambda service: service.name)


def terminating_job_message(outcome: JobOutcome, stuck_pod_descriptions: list[str]) -> str:
    waiting = (
        f"; waiting for pods to terminate: {summarize_names(stuck_pod_descriptions)}" if stuck_pod_descriptions else ""
    )
    return f"{outcome.message}{waiting}"


def _end_transition(context: Context, outcome: JobOutcome) -> Transition:
    """Persist the outcome; the job enters its final phase when its pods are deleted, or now if they are kept."""
    keeps_pods = context.job.clean_pod_policy is CleanPodPolicy.NONE and not outcome.must_delete_all
    after = replace(_with_root_cause(context, outcome), outcome=outcome, message=outcome.message)
    if keeps_pods:
        after = replace(after, phase=outcome.phase, ended_at=outcome.at)
    else:
        after = replace(after, phase=JobPhase.TERMINATING)
    is_warning = outcome.phase is not JobPhase.SUCCEED
    return make_transition(after, outcome.at, str(outcome.phase), outcome.message, is_warning=is_warning)


def _with_root_cause(context: Context, outcome: JobOutcome) -> EngineState:
    """Return the current state with the failure that led to the outcome, if there is one."""
    state = roll_up_status(context)
    if outcome.phase in (JobPhase.FAILED, JobPhase.NODE_FAIL) and context.job.end_request is None:
        failed = list(context.replicas.list_failed()) or list_stuck_in_creation(context)
        return set_root_cause(state, failed, context.now)
    # The cause of a completed restart did not lead to this outcome; that of a restart in progress may have.
    is_restarting = context.state.phase is JobPhase.RESTARTING and outcome.phase is not JobPhase.SUCCEED
    return state if is_restarting else replace(state, root_cause=None)


def _failure_outcome(context: Context) -> JobOutcome | None:
    causes = [_explain_failure(replica, context) for replica in _sort_by_end_time(context.replicas.list_failed())]
    if has_job_failed(context.job, context.replicas):
        first = _sort_by_end_time(list_decisive_failures(context.job, context.replicas))[0]
        by_node = first.failure_cause is RestartCause.NODE
        phase = JobPhase.NODE_FAIL if by_node else JobPhase.FAILED
        return JobOutcome(phase=phase, message=summarize_names(causes), at=context.now, must_delete_all=by_node)
    if not have_deciding_replicas_ended(context.job, context.replicas):
        return None
    if not causes:
        return JobOutcome(phase=JobPhase.SUCCEED, message="all replicas succeeded", at=context.now)
    message = f"all replicas have terminated without meeting the completePolicy: {summarize_names(causes)}"
    return JobOutcome(phase=JobPhase.FAILED, message=message, at=context.now)


def _creation_failure_outcome(context: Context) -> JobOutcome | None:
    """Fail the job if container creation was retried long enough and the operator is configured to give up."""
    if not context.config.should_fail_on_creation_timeout or not (stuck := list_stuck_in_creation(context)):
        return None
    message = summarize_names([describe_failure(replica) for replica in stuck])
    return JobOutcome(phase=JobPhase.FAILED, message=message, at=context.now)


def _disruption_outcome(context: Context) -> JobOutcome | None:
    """Fail the job if a replica was disrupted and its group may not replace it any more."""
    for replica in context.replicas.list_engine_managed():
        group = replica.rank.group
        is_disrupted = replica.state in (ReplicaState.TERMINATING, ReplicaState.DISRUPTED)
        is_counted = is_disrupted and group.restart_rule.counts_disruptions
        if is_counted and not has_restarts_left(group, context.state.group(group.name)):
            limit = pluralize(group.restart_rule.limit or 0, "restart")
            message = f"{describe_failure(replica)}; {group.name} has used its {limit}"
            return JobOutcome(phase=JobPhase.FAILED, message=message, at=context.now)
    return None


def _explain_failure(replica: Replica, context: Context) -> str:
    failure, group, job_limit = describe_failure(replica), replica.rank.group, context.job.restart_limit
    if not is_restartable(context.job, replica):
        return failure
    if limit := group.restart_rule.limit:
        return f"{failure}; {group.name} has used its {pluralize(limit, 'restart')}"
    return f"{failure}; the job has used its {pluralize(job_limit, 'restart')}" if job_limit else failure


def _sort_by_end_time(replicas: Iterable[Replica]) -> list[Replica]:
    """Sort by the time of termination, so that the root cause comes first."""

    def end_time(replica: Replica) -> str:
        pod = replica.pod
        at = pod and (pod.finished_at or (pod.node_fault.since if pod.node_fault else None))
        return at.isoformat() if at else "~"

    return sorted(replicas, key=end_time)
