"""The decision function of the operator: from a job and the observed cluster to the next actions."""

from __future__ import annotations

from datetime import datetime, timedelta

from msgspec.structs import replace

from pliant.engine.context import Context, Transition, add_elapsed_phase_time, with_timeline_entry
from pliant.engine.lifecycle import finish
from pliant.engine.lifecycle.suspend import delete_for_suspend, resume_job, suspend_job, with_master_only
from pliant.engine.plans.execution import (
    next_membership_transition,
    without_finished_plan_executions,
    without_members_of_failed_plans,
)
from pliant.engine.plans.membership import with_synced_members
from pliant.engine.plans.plan_status import fail_open_plans, sync_plans
from pliant.engine.pod_sync import sync_pods
from pliant.engine.pods.deletion import describe_stuck_terminating_pods, time_to_lost_or_stuck_pod
from pliant.engine.pods.manifests import apply_master_defaults
from pliant.engine.pods.replicas import match_pods_to_replicas, raise_attempts_to_observed
from pliant.engine.restart.idle_master import restart_idle_master, time_to_idle_master_restart
from pliant.engine.restart.requests import time_to_creation_timeout
from pliant.engine.restart.restarts import restart_replicas
from pliant.engine.sizing import resize_groups, with_applied_sizes, with_size_requests
from pliant.engine.status import rollup
from pliant.model.actions import Action, Decision, DeleteJob, EmitEvent, JobStatusUpdate
from pliant.model.framework import Framework
from pliant.model.job import Job
from pliant.model.observed import Observed
from pliant.model.state import EngineState, JobOutcome, JobPhase


def decide(job: Job, observed: Observed, framework: Framework, now: datetime) -> Decision:
    """Return what to do next for a job. Pure: the same arguments give the same decision."""
    if job.is_deleting:
        return Decision()  # the garbage collector deletes the dependents
    job = apply_master_defaults(job, observed.config)
    state = with_size_requests(job, observed.recommendations, job.state or _initial_state(now), now)
    state = raise_attempts_to_observed(job, observed, state)
    state = without_finished_plan_executions(without_members_of_failed_plans(state, job, observed), observed)
    state = with_synced_members(job, observed, state)
    if state.phase.is_final:
        return _decide_finished(job, observed, state, now)
    if state.outcome is not None:
        return _decide_terminating(job, observed, state, state.outcome, now)

    requested_job, job = job, with_applied_sizes(job, state)
    replicas = match_pods_to_replicas(job, observed, state, now)
    context = Context(job=job, requested_job=requested_job, observed=observed, state=state, replicas=replicas, now=now)
    if (transition := _next_transition(context)) is not None:
        event = EmitEvent(reason=transition.reason, message=transition.message, is_warning=transition.is_warning)
        return Decision(transition_status=_status_update(transition.state, observed, now), actions=(event,))
    if state.phase is JobPhase.SUSPENDED:
        actions, wait = sync_pods(with_master_only(context), framework) if job.has_master else ((), None)
        actions = (*delete_for_suspend(job, observed, now), *actions)
        return _act_and_update_status(context, actions, shortest_wait(wait, time_to_lost_or_stuck_pod(observed, now)))
    actions, wait = sync_pods(context, framework)
    return _act_and_update_status(context, actions, shortest_wait(wait, _time_to_next_deadline(context)))


def _next_transition(context: Context) -> Transition | None:
    """Return the first transition that is due, in order of precedence."""
    transition = (
        finish.end_on_request(context)
        or finish.complete_job(context)
        or suspend_job(context)
        or resize_groups(context)
        or resume_job(context)
    )
    is_suspended = context.state.phase is JobPhase.SUSPENDED
    # The pods that a suspension deletes cannot fail the job; its master, which stays, can.
    if transition is not None or (is_suspended and not context.job.has_master):
        return transition
    transition = restart_replicas(context) or finish.fail_job(context)
    if transition is not None or is_suspended:
        return transition
    return (
        finish.time_out_job(context)
        or next_membership_transition(context)
        or finish.complete_after_master_timeout(context)
        or restart_idle_master(context)
        or rollup.emit_spec_warnings(context)
    )


def _act_and_update_status(context: Context, actions: tuple[Action, ...], requeue_after: timedelta | None) -> Decision:
    """Combine the actions with the status updates; an unimportant status change is written after a delay."""
    before, after, plans = context.job.state, rollup.roll_up_status(context), sync_plans(context)
    actions, requeue_after = (*actions, *plans.actions), shortest_wait(requeue_after, plans.requeue_after)
    statuses = {}
    if rollup.has_status_changed(before, after):
        if delay := rollup.status_write_delay(before, after, context.now):
            requeue_after = shortest_wait(delay, requeue_after)
        else:
            statuses = {context.job.key: _status_update(after, context.observed, context.now)}
    return Decision(actions=actions, status_updates=statuses, plan_statuses=plans.statuses, requeue_after=requeue_after)


def _decide_terminating(
    job: Job, observed: Observed, state: EngineState, outcome: JobOutcome, now: datetime
) -> Decision:
    """Delete the remaining objects; the job enters its final phase when none is left."""
    if any(finish.list_leftover_objects(job, observed, state)):
        after = replace(
            state, message=finish.terminating_job_message(outcome, describe_stuck_terminating_pods(observed, now))
        )
        statuses = {job.key: _status_update(after, observed, now)} if after.message != state.message else {}
        return Decision(
            actions=finish.delete_leftover_objects(job, observed, state, now),
            status_updates=statuses,
            plan_statuses=fail_open_plans(observed, now).statuses,
            requeue_after=time_to_lost_or_stuck_pod(observed, now),
        )
    has_running_pods = any(pod.phase not in finish.FINISHED_POD_PHASES for pod in observed.pods)
    counts = state.replica_counts if has_running_pods else rollup.final_counts(state)
    ended = replace(state, phase=outcome.phase, message=outcome.message, ended_at=now, replica_counts=counts)
    return Decision(status_updates={job.key: _status_update(ended, observed, now)})


def _decide_finished(job: Job, observed: Observed, state: EngineState, now: datetime) -> Decision:
    """Delete the remaining objects of a finished job, and the job itself when its TTL expires."""
    left = finish.ttl_left(job, state, now)
    if left is not None and left <= timedelta(0):
        return Decision(actions=(DeleteJob(),))
    plans = fail_open_plans(observed, now)
    return Decision(
        actions=(*finish.delete_leftover_objects(job, observed, state, now), *plans.actions),
        plan_statuses=plans.statuses,
        requeue_after=shortest_wait(left, time_to_lost_or_stuck_pod(observed, now), plans.requeue_after),
    )


def _time_to_next_deadline(context: Context) -> timedelta | None:
    """Return the time until the next limit is reached without any change in the cluster."""
    return shortest_wait(
        time_to_lost_or_stuck_pod(context.observed, context.now),
        time_to_creation_timeout(context),
        finish.time_to_job_timeout(context.job, context.state, context.now),
        time_to_idle_master_restart(context),
        finish.time_to_master_completion_timeout(context),
    )


def shortest_wait(*waits: timedelta | None) -> timedelta | None:
    return min((wait for wait in waits if wait is not None), default=None)


def _status_update(state: EngineState, observed: Observed, now: datetime) -> JobStatusUpdate:
    pods = tuple(sorted(observed.pods, key=lambda pod: pod.name))
    written = replace(add_elapsed_phase_time(state, now), status_written_at=now)
    return JobStatusUpdate(state=written, replica_counts=state.replica_counts, observed_pods=pods)


def _initial_state(now: datetime) -> EngineState:
    state = EngineState(phase=JobPhase.PENDING, started_at=now)
    return with_timeline_entry(state, now, str(JobPhase.PENDING), "job accepted")
