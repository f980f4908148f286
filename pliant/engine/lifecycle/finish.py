"""When a job is over: end policies of groups and of the job, orders from outside, and what happens then."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta

from msgspec.structs import replace

from pliant.engine.context import Context, Transition, make_transition
from pliant.engine.lifecycle.end_policies import (
    has_job_completed,
    has_job_failed,
    have_all_ended,
    list_decisive_failures,
)
from pliant.engine.lifecycle.time_limits import timeout_outcome
from pliant.engine.pods.deletion import delete_pods
from pliant.engine.pods.replicas import Replica, ReplicaState
from pliant.engine.restart.requests import is_restartable, list_creation_timeouts
from pliant.engine.restart.restarts import is_within_budget
from pliant.engine.status.failures import set_root_cause
from pliant.engine.status.messages import describe_failure, join_names, pluralize
from pliant.engine.status.rollup import roll_up_status
from pliant.model.actions import Action, DeleteService
from pliant.model.job import CleanPodPolicy, Job
from pliant.model.labels import format_service_name
from pliant.model.observed import Observed, ObservedPod, ObservedService, PodPhase
from pliant.model.state import EngineState, JobOutcome, JobPhase, RestartCause

MASTER_COMPLETION_TIMEOUT = timedelta(minutes=2)
"""DLRover's masters look every 30 seconds whether their job is done."""
ALWAYS_CLEANED_PHASES = frozenset({JobPhase.TIMEOUT, JobPhase.PREEMPTED, JobPhase.NODE_FAIL})
"""Ends that leave no pods, whatever the job's own policy says."""
FINISHED_POD_PHASES = frozenset({PodPhase.SUCCEEDED, PodPhase.FAILED})


def end_on_request(context: Context) -> Transition | None:
    """End the job because somebody outside says so."""
    order = context.job.end_request
    if order is None:
        return None
    return _end_transition(
        context, JobOutcome(phase=order.phase, message=order.message, at=context.now, must_delete_all=True)
    )


def complete_job(context: Context) -> Transition | None:
    """End the job because its work is done, if it is."""
    if not has_job_completed(context.job, context.replicas):
        return None
    return _end_transition(context, JobOutcome(phase=JobPhase.SUCCEED, message="training completed", at=context.now))


def fail_job(context: Context) -> Transition | None:
    """End the job because it has failed or can no longer complete, if so."""
    verdict = _failure_outcome(context) or _creation_failure_outcome(context) or _disruption_outcome(context)
    return None if verdict is None else _end_transition(context, verdict)


def time_out_job(context: Context) -> Transition | None:
    """End the job because its time is up, if it is."""
    verdict = timeout_outcome(context.job, context.state, context.now)
    return None if verdict is None else _end_transition(context, verdict)


def complete_idle_job(context: Context) -> Transition | None:
    """End a job whose master does not, although all work is done: it waits for somebody who was sent away."""
    since = context.state.work_done_since
    if since is None or context.now < since + MASTER_COMPLETION_TIMEOUT:
        return None
    message = "every member has done its work; the master waits for others, in vain"
    return _end_transition(context, JobOutcome(phase=JobPhase.SUCCEED, message=message, at=context.now))


def time_to_idle_completion(context: Context) -> timedelta | None:
    """How long a master whose members are done may still take."""
    since = context.state.work_done_since
    return max(since + MASTER_COMPLETION_TIMEOUT - context.now, timedelta(0)) if since is not None else None


def clean_up_job(job: Job, observed: Observed, state: EngineState, now: datetime) -> tuple[Action, ...]:
    """Delete all that a finished job still holds; what is leaving already is left alone."""
    pods, services = list_leftover_objects(job, observed, state)
    return (
        *delete_pods(observed, pods, "the job has ended", now),
        *(DeleteService(name=service.name, uid=service.uid) for service in services if not service.is_terminating),
    )


def list_leftover_objects(
    job: Job, observed: Observed, state: EngineState
) -> tuple[list[ObservedPod], list[ObservedService]]:
    """The pods and services of a finished job that must go, by name."""
    match _effective_clean_policy(job, state):
        case CleanPodPolicy.NONE:
            return [], []
        case CleanPodPolicy.RUNNING:
            kept = {pod.name for pod in observed.pods if pod.phase in FINISHED_POD_PHASES and not pod.is_terminating}
        case CleanPodPolicy.ALL:
            kept = set()
    named = {format_service_name(job.naming, name) for name in kept}
    pods = [pod for pod in observed.pods if pod.name not in kept]
    services = [service for service in observed.services.values() if service.name not in named]
    return sorted(pods, key=lambda pod: pod.name), sorted(services, key=lambda service: service.name)


def termination_message(outcome: JobOutcome, stuck_pods: list[str]) -> str:
    """The message of a job on its way out: why it ends, and whose leaving it waits for too long."""
    return (
        f"{outcome.message}; waits for pods that should be gone: {join_names(stuck_pods)}"
        if stuck_pods
        else outcome.message
    )


def _effective_clean_policy(job: Job, state: EngineState) -> CleanPodPolicy:
    """What is to go: some ends leave nothing, whatever the job says."""
    must_clear = state.outcome is not None and state.outcome.must_delete_all
    return CleanPodPolicy.ALL if must_clear or state.phase in ALWAYS_CLEANED_PHASES else job.clean_pod_policy


def _end_transition(context: Context, outcome: JobOutcome) -> Transition:
    """The end is decided; it is announced once nothing is left, or at once if things are to be kept."""
    is_kept = context.job.clean_pod_policy is CleanPodPolicy.NONE and not outcome.must_delete_all
    after = replace(_with_root_cause(context, outcome), outcome=outcome, message=outcome.message)
    after = (
        replace(after, phase=outcome.phase, ended_at=outcome.at)
        if is_kept
        else replace(after, phase=JobPhase.TERMINATING)
    )
    is_warning = outcome.phase is not JobPhase.SUCCEED
    return make_transition(after, outcome.at, str(outcome.phase), outcome.message, is_warning=is_warning)


def _with_root_cause(context: Context, outcome: JobOutcome) -> EngineState:
    """The memory brought up to date, with the failure that led to this end if one did."""
    present = roll_up_status(context)
    if outcome.phase in (JobPhase.FAILED, JobPhase.NODE_FAIL) and context.job.end_request is None:
        return set_root_cause(
            present, list(context.replicas.list_failed()) or list_creation_timeouts(context), context.now
        )
    # Whatever was mended before has not led to this end; what still was being mended may have.
    is_mending = context.state.phase is JobPhase.RESTARTING and outcome.phase is not JobPhase.SUCCEED
    return present if is_mending else replace(present, root_cause=None)


def _failure_outcome(context: Context) -> JobOutcome | None:
    places = _sort_by_end_time(context.replicas.list_failed())
    causes = [_explain_failure(place, context) for place in places]
    if has_job_failed(context.job, context.replicas):
        by_node = (
            _sort_by_end_time(list_decisive_failures(context.job, context.replicas))[0].failure_cause
            is RestartCause.NODE
        )
        phase = JobPhase.NODE_FAIL if by_node else JobPhase.FAILED
        return JobOutcome(phase=phase, message=join_names(causes), at=context.now, must_delete_all=by_node)
    if not have_all_ended(context.job, context.replicas):
        return None
    if not causes:
        return JobOutcome(phase=JobPhase.SUCCEED, message="every member ended well", at=context.now)
    message = f"no end policy was met and nothing is left to run: {join_names(causes)}"
    return JobOutcome(phase=JobPhase.FAILED, message=message, at=context.now)


def _creation_failure_outcome(context: Context) -> JobOutcome | None:
    """Containers that could not be created, retried as long as was allowed: the end, where that is the rule."""
    if not context.config.should_fail_on_creation or not (stuck := list_creation_timeouts(context)):
        return None
    message = join_names([describe_failure(place) for place in stuck])
    return JobOutcome(phase=JobPhase.FAILED, message=message, at=context.now)


def _disruption_outcome(context: Context) -> JobOutcome | None:
    """The end of a job some member of which was taken away, and may not be replaced any more."""
    for place in context.replicas.list_engine_managed():
        group = place.rank.group
        is_counted = (
            place.state in (ReplicaState.TERMINATING, ReplicaState.DISRUPTED) and group.restart_rule.counts_disruptions
        )
        if is_counted and not is_within_budget(group, context.state.group(group.name)):
            limit = pluralize(group.restart_rule.limit or 0, "replacement")
            message = f"{describe_failure(place)}, and {group.name} is allowed {limit}"
            return JobOutcome(phase=JobPhase.FAILED, message=message, at=context.now)
    return None


def _explain_failure(replica: Replica, context: Context) -> str:
    """What happened, and why it was not mended."""
    told, group, most = describe_failure(replica), replica.rank.group, context.job.restart_limit
    if not is_restartable(context.job, replica):
        return told
    quotes = replica.pod is not None and replica.pod.exit is not None and replica.pod.exit.message
    joint = ";" if quotes else " and"
    if limit := group.restart_rule.limit:
        return f"{told}{joint} {group.name} has spent its {pluralize(limit, 'restart')}"
    return f"{told}{joint} the job has spent its {pluralize(most, 'restart')}" if most else told


def _sort_by_end_time(replicas: Iterable[Replica]) -> list[Replica]:
    """Earliest end first, so that the first cause is named first."""

    def ended(place: Replica) -> str:
        pod = place.pod
        at = pod and (pod.finished_at or (pod.node_fault.since if pod.node_fault else None))
        return at.isoformat() if at else "~"

    return sorted(replicas, key=ended)
