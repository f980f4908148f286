"""The decision function of the operator: from a job and the observed cluster to the next actions."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta

from msgspec.structs import replace

from pliant.engine import departures
from pliant.engine.clock import align_timers
from pliant.engine.context import Context, Transition, add_elapsed_phase_time, with_timeline_entry
from pliant.engine.departures import sync_departures
from pliant.engine.framework_needs import apply_framework
from pliant.engine.lifecycle import finish
from pliant.engine.lifecycle.suspend import delete_for_suspend, sync_suspended_pods
from pliant.engine.members import publish_membership
from pliant.engine.membership_file import mark_membership_file, write_membership_file
from pliant.engine.plans.execution import without_finished_plan_executions, without_members_of_failed_plans
from pliant.engine.plans.master_pods import apply_master_defaults
from pliant.engine.plans.membership import with_synced_members
from pliant.engine.plans.plan_status import fail_open_plans, sync_plans
from pliant.engine.pod_sync import delete_obsolete, sync_active_pods
from pliant.engine.pods.deletion import list_stuck_terminating_pods, time_to_lost_or_stuck_pod
from pliant.engine.pods.disruption_budget import allow_evictions
from pliant.engine.pods.replicas import raise_attempts_to_observed
from pliant.engine.rules import next_transition, times_to_next_rule
from pliant.engine.sizing import with_size_requests
from pliant.engine.status import rollup
from pliant.model.actions import Act, Decision, DeleteJob, DeletePod, EmitEvent, JobStatusUpdate, PersistTransition
from pliant.model.framework import Framework
from pliant.model.job import Job
from pliant.model.messages import MessageReason, message
from pliant.model.observed import Observed, ScaleRecommendation
from pliant.model.operator_config import OperatorConfig
from pliant.model.state import ClockOffset, EngineState, JobOutcome, JobPhase

DEFAULT_CONFIG = OperatorConfig()
NO_RECOMMENDATIONS: Mapping[str, ScaleRecommendation] = {}


def decide(  # noqa: PLR0913 - everything that a decision depends on
    job: Job,
    before: EngineState | None,
    observed: Observed,
    framework: Framework,
    now: datetime,
    *,
    config: OperatorConfig = DEFAULT_CONFIG,
    recommendations: Mapping[str, ScaleRecommendation] = NO_RECOMMENDATIONS,
    clock: ClockOffset | None = None,
) -> Decision:
    """Return what to do next for a job with the stored state `before`.

    `recommendations` are those of the autoscaler by group; where there is none, the last size request stays in force.
    `clock` is the offset of the clock that `now` was read from, by which jumps of that clock are noticed.
    Pure: the same arguments give the same decision.
    """
    if job.is_deleting:
        return Act()  # the garbage collector deletes the dependents
    spec = apply_framework(apply_master_defaults(job, config), framework, before)
    before = align_timers(before, clock) if before is not None else None
    state = before or _initial_state(spec, now, clock)
    state = replace(state, observed_generation=spec.generation, accepted_spec=spec.accepted_spec)
    state = with_size_requests(spec, recommendations, state, now)
    state = raise_attempts_to_observed(spec, observed, state)
    state = without_finished_plan_executions(without_members_of_failed_plans(state, spec, observed), observed)
    state = sync_departures(with_synced_members(spec, observed, state), observed, now)
    context = Context(spec=spec, before=before, state=state, observed=observed, config=config, now=now)
    if state.phase.is_final:
        return _clean_up(context)
    if state.outcome is not None:
        return _terminate(context, state.outcome)
    if (transition := next_transition(context)) is not None:
        return _persist(context, transition)
    return _act(context, framework)


def _persist(context: Context, transition: Transition) -> PersistTransition:
    """Persist a transition, and with it the departures and the membership that follow from it."""
    event = EmitEvent(reason=transition.reason, message=transition.message, is_warning=transition.is_warning)
    state = transition.state
    if state.departures or any(map(departures.can_acknowledge, context.observed.pods)):
        state = departures.record_departures(context, transition, list_deletions(_in_state(context, state)))
    events = [event]
    if state.checkpoint_requests > transition.state.checkpoint_requests:
        asked = departures.requested_message(state)
        events.append(EmitEvent(reason=departures.CHECKPOINT_REQUESTED_REASON, message=asked))
    after = _in_state(context, state)
    if state.phase is JobPhase.RUNNING and (waiting := departures.waiting_message(after)) is not None:
        state = replace(state, message=waiting)
    if after.spec.publishes_membership:
        state = publish_membership(state, after.job, after.replicas.all)
    return PersistTransition(status=_status_update(context, state), events=tuple(events))


def _in_state(context: Context, state: EngineState) -> Context:
    """Return the context of the next decision, if nothing changes in the cluster until then."""
    return dataclasses.replace(context, before=state, state=state)


def _act(context: Context, framework: Framework) -> Decision:
    """Create and delete pods, and update the statuses; an unimportant status change is written after a delay."""
    sync = sync_suspended_pods if context.is_suspended else sync_active_pods
    actions, backoff = sync(context, framework)
    deletions = [action for action in actions if isinstance(action, DeletePod)]
    if deletions and (transition := departures.request_checkpoints(context, deletions)) is not None:
        return _persist(context, transition)
    plans, delay = sync_plans(context), None
    after = mark_membership_file(context, rollup.roll_up_status(context))
    has_changed = rollup.has_status_changed(context.before, after)
    if has_changed:
        delay = rollup.status_write_delay(context.before, after, context.now) or None
    is_written = has_changed and delay is None
    files = write_membership_file(context, after, framework) if is_written else ()
    waits = (delay, backoff, plans.requeue_after, _time_to_pod_deadline(context), *times_to_next_rule(context))
    return Act(
        actions=(*departures.hold_departures(context, actions), *plans.actions, *files),
        status=_status_update(context, after) if is_written else None,
        plan_statuses=plans.statuses,
        requeue_after=shortest_wait(*waits),
    )


def list_deletions(context: Context) -> Iterator[DeletePod]:
    """Yield the deletions of pods that follow from the state of the context."""
    if context.state.outcome is not None:
        actions = finish.delete_leftover_objects(context)
    elif context.is_suspended:
        actions = delete_for_suspend(context)
    else:
        actions = delete_obsolete(context, context.replicas)
    return (action for action in actions if isinstance(action, DeletePod))


def _terminate(context: Context, outcome: JobOutcome) -> Act:
    """Delete the remaining objects; the job enters its final phase when none is left."""
    state, observed, now = context.state, context.observed, context.now
    if any(finish.list_leftover_objects(context)):
        current = finish.terminating_message(outcome, list_stuck_terminating_pods(observed, now))
        after = replace(state, message=current)
        return Act(
            actions=departures.hold_departures(context, finish.delete_leftover_objects(context)),
            status=_status_update(context, after) if current != state.message else None,
            plan_statuses=fail_open_plans(context).statuses,
            requeue_after=_time_to_pod_deadline(context),
        )
    has_running_pods = any(pod.phase not in finish.FINISHED_POD_PHASES for pod in observed.pods)
    counts = state.replica_counts if has_running_pods else rollup.final_counts(state)
    ended = replace(finish.with_end(state, outcome, now), message=outcome.message, replica_counts=counts)
    return Act(status=_status_update(context, ended))


def _clean_up(context: Context) -> Act:
    """Delete the remaining objects of a finished job, and the job itself when its TTL expires."""
    left = finish.ttl_left(context)
    if left is not None and left <= timedelta(0):
        return Act(actions=(DeleteJob(),))
    plans, before = fail_open_plans(context), context.before
    # Clients that wait for a condition require that it holds for the current spec.
    is_edited = before is not None and 0 < before.observed_generation < context.state.observed_generation
    return Act(
        actions=(
            *finish.delete_leftover_objects(context),
            *allow_evictions(context, context.replicas.all),
            *plans.actions,
        ),
        status=_status_update(context, context.state) if is_edited else None,
        plan_statuses=plans.statuses,
        requeue_after=shortest_wait(left, _time_to_pod_deadline(context), plans.requeue_after),
    )


def _time_to_pod_deadline(context: Context) -> timedelta | None:
    """Return the time until a pod counts as lost or stuck, or until a replica must have saved its state."""
    lost_or_stuck = time_to_lost_or_stuck_pod(context.observed, context.config, context.now)
    return shortest_wait(lost_or_stuck, departures.time_to_departure_deadline(context))


def shortest_wait(*waits: timedelta | None) -> timedelta | None:
    return min((wait for wait in waits if wait is not None), default=None)


def _status_update(context: Context, state: EngineState) -> JobStatusUpdate:
    pods = tuple(sorted(context.observed.pods, key=lambda pod: pod.name))
    written = replace(add_elapsed_phase_time(state, context.now), status_written_at=context.now)
    return JobStatusUpdate(state=written, replica_counts=state.replica_counts, observed_pods=pods)


def _initial_state(job: Job, now: datetime, clock: ClockOffset | None) -> EngineState:
    has_job_service = bool(job.naming.job_service)
    state = EngineState(
        phase=JobPhase.PENDING,
        started_at=now,
        has_job_service=has_job_service,
        has_control_group=any(group.is_control for group in job.groups),
        clock_offset=clock,
    )
    return with_timeline_entry(state, now, str(JobPhase.PENDING), message(MessageReason.JOB_ACCEPTED))
