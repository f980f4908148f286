"""Render the status of an AITrainingJob, and adopt the status that another operator wrote."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, cast

import msgspec

from pliant.frontends.aitrainingjob.types import AITrainingJobStatus, AITrainingReplicaStatus
from pliant.frontends.scaling import scaling_status
from pliant.frontends.status import results
from pliant.frontends.status.conditions import new_current_phase, read_phase_conditions, with_current_phase
from pliant.frontends.status.engine_state import dump_state, external_message, to_json_data, truncate_to_seconds
from pliant.model.actions import JobStatusUpdate
from pliant.model.english import render
from pliant.model.job import Job
from pliant.model.labels import scalable_group_selector
from pliant.model.state import EngineState, GroupState, JobPhase, ReplicaCounts, RestartCause


def render_status(status: JobStatusUpdate, previous: Mapping[str, Any], job: Job) -> dict[str, Any]:
    state = status.state
    counts = status.replica_counts
    at = truncate_to_seconds(state.status_written_at or state.started_at)
    reason = f"TrainingJob{state.phase}"
    current = new_current_phase(state.phase, reason, state)
    rendered = AITrainingJobStatus(
        phase=state.phase,
        reason=reason,
        message=render(state.message),
        ready=results.format_ready_replicas(counts),
        restarts=state.restart_count,
        replicas=results.count_existing_replicas(counts, job.scalable_group),
        selector=scalable_group_selector(job),
        conditions=with_current_phase(read_phase_conditions(previous), current, at),
        replica_statuses={name: _replica_status(each) for name, each in counts.items()},
        restart_count={name: state.group(name).restarts_without_disruptions for name in {**counts, **state.groups}},
        restart_replica_name=state.last_restarted_group,
        restart_causes=results.restart_counts_by_cause(state),
        root_cause=results.root_cause_status(state),
        failures=tuple(map(results.failure_status, state.failures)),
        durations=results.phase_durations(state),
        scaling=scaling_status(job, state),
        start_time=truncate_to_seconds(state.started_at),
        start_running_time=truncate_to_seconds(state.first_running_at),
        end_time=truncate_to_seconds(state.ended_at),
        last_reconcile_time=at,
        pliant=dump_state(state),
    )
    return cast("dict[str, Any]", to_json_data(rendered))


def adopt_external_status(status: Mapping[str, Any], created_at: datetime) -> EngineState | None:
    """Return the engine state of a job that another operator ran: a finished job stays so, others keep restarts."""
    present = {key: value for key, value in status.items() if value is not None}
    try:
        external = msgspec.convert({**present, "conditions": ()}, AITrainingJobStatus)
    except msgspec.ValidationError:
        return None
    if external.phase not in list(JobPhase):
        return None
    phase = JobPhase(external.phase)
    history = read_phase_conditions(status)
    restarts = {name: number for name, number in external.restart_count.items() if number > 0}
    return EngineState(
        phase=phase if phase.is_final else JobPhase.PENDING,
        message=external_message(history[-1].message if history else ""),
        started_at=external.start_time or created_at,
        first_running_at=external.start_running_time,
        ended_at=external.end_time if phase.is_final else None,
        groups={
            name: GroupState(attempt=number, restarts_by_cause={RestartCause.APP: number})
            for name, number in restarts.items()
        },
    )


def _replica_status(counts: ReplicaCounts) -> AITrainingReplicaStatus:
    return AITrainingReplicaStatus(
        pending=counts.pending,
        scheduled=counts.scheduled,
        active=counts.active,
        succeeded=counts.succeeded,
        restarting=counts.restarting,
        failed=counts.failed,
    )
