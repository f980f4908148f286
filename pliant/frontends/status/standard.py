"""The status of kinds that have no status format of their own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, cast

from msgspec import Struct

from pliant.frontends import fields
from pliant.frontends.crd import field_doc
from pliant.frontends.scaling import scaling_status
from pliant.frontends.status import results
from pliant.frontends.status.conditions import new_current_phase, read_phase_conditions, with_current_phase
from pliant.frontends.status.engine_state import dump_state, to_json_data, truncate_to_seconds
from pliant.model.actions import JobStatusUpdate
from pliant.model.english import render
from pliant.model.job import Job
from pliant.model.labels import scalable_group_selector


class StandardJobStatus(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """Most recently observed status of the job."""

    phase: Annotated[str, field_doc("The phase of the job, such as Pending, Running, Succeed or Failed.")] = ""
    reason: fields.PhaseReason = ""
    message: fields.Message = ""
    ready: fields.Ready = ""
    restarts: fields.Restarts = None
    replicas: Annotated[fields.Count | None, field_doc("Number of replicas of the scalable group.")] = None
    selector: fields.Selector = ""
    conditions: fields.PhaseConditions = ()
    root_cause: fields.RootCause = None
    progress: fields.Progress = None
    durations: fields.Durations = None
    scaling: fields.Scaling = ()
    start_time: fields.StartTime = None
    running_time: fields.RunningTime = None
    completion_time: fields.CompletionTime = None
    last_reconcile_time: fields.LastReconcileTime = None
    pliant: fields.EngineStateData = {}


def render_standard_status(status: JobStatusUpdate, previous: Mapping[str, Any], job: Job) -> dict[str, Any]:
    state, phase = status.state, results.decided_phase(status.state)
    at = truncate_to_seconds(state.status_written_at or state.started_at)
    reason = f"{job.owner.kind}{phase}"
    current = new_current_phase(phase, reason, state)
    rendered = StandardJobStatus(
        phase=phase,
        reason=reason,
        message=render(state.message),
        ready=results.format_ready_replicas(status.replica_counts),
        restarts=state.restart_count,
        replicas=results.count_existing_replicas(status.replica_counts, job.scalable_group),
        selector=scalable_group_selector(job),
        conditions=with_current_phase(read_phase_conditions(previous), current, at),
        root_cause=results.root_cause_status(state),
        progress=results.read_progress(previous),
        durations=results.phase_durations(state),
        scaling=scaling_status(job, state),
        start_time=truncate_to_seconds(state.started_at),
        running_time=truncate_to_seconds(state.first_running_at),
        completion_time=truncate_to_seconds(results.decided_at(state)),
        last_reconcile_time=at,
        pliant=dump_state(state),
    )
    return cast("dict[str, Any]", to_json_data(rendered))
