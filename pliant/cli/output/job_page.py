"""Renders the page of `pliant describe`: status, groups, replicas, scale plans, timeline and events."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime

from pliant.cli.cluster.job_context import EVENT_COLUMNS, JobContext, event_rows
from pliant.cli.cluster.job_lookup import JobObject, unambiguous_kind_name
from pliant.cli.cluster.scale_plans import PLAN_COLUMNS, plan_rows
from pliant.cli.durations import format_age, format_duration
from pliant.cli.explain.group_sizes import REQUESTER_NAMES, recommendation_text, size_bounds_text
from pliant.cli.output.job_summary import (
    failure_location_text,
    failure_text,
    last_log_lines,
    phase_durations_text,
    progress_detail_text,
)
from pliant.cli.output.style import TerminalStyle
from pliant.cli.output.table import PHASE_COLOURS, Table
from pliant.engine.plans.membership import job_in_effect
from pliant.engine.pods.replicas import Replica, ReplicaState
from pliant.engine.status.messages import describe_exit
from pliant.model.english import render
from pliant.model.job import Job, ReplicaGroup
from pliant.model.observed import ObservedPod
from pliant.model.state import EngineState, GroupState, RestartCause

MAX_SHOWN_EVENTS = 12
GROUP_COLUMNS = ("GROUP", "SIZE", "BOUNDS", "REQUESTED", "RESTART POLICY", "RESTARTS", "CAUSES")
REPLICA_COLUMNS = ("REPLICA", "POD", "NODE", "ATTEMPT", "PHASE", "EXIT")


def render_job_page(job_object: JobObject, context: JobContext, now: datetime, style: TerminalStyle, width: int) -> str:
    page, job, state = _JobPage(style, width, now), job_object.job, job_object.state
    lines = list(page.header_lines(job_object, context))
    if job is not None:
        lines += page.group_lines(job, state)
        lines += page.replica_lines(job, state, context)
        lines += page.plan_lines(context)
        if state is not None:
            lines += page.timeline_lines(state)
    if context.events:
        latest = context.events[-MAX_SHOWN_EVENTS:]
        more = len(context.events) - len(latest)
        older = f" ({more} older: pliant events {job_object.key.name})" if more else ""
        lines += page.section(f"Events{older}", EVENT_COLUMNS, event_rows(latest, now))
    return "\n".join(lines)


class _JobPage:
    def __init__(self, style: TerminalStyle, width: int, now: datetime) -> None:
        self._style = style
        self._width = width
        self._now = now

    def header_lines(self, job_object: JobObject, context: JobContext) -> Iterator[str]:
        state, colour = job_object.state, PHASE_COLOURS.get(job_object.phase)
        kind = unambiguous_kind_name(job_object.frontend, job_object.frontend.kind)
        phase = self._style.paint(colour, job_object.phase) if colour else job_object.phase
        facts = [
            ("Name", f"{self._style.bold(job_object.key.name)} ({kind}, namespace {job_object.key.namespace})"),
            ("Phase", f"{phase}: {job_object.message}"),
        ]
        if job_object.created_at:
            facts.append(("Created", f"{self._age_text(job_object.created_at)} ago"))
        if state is not None:
            facts += [(title, text) for title, text in self._state_fields(job_object, state) if text]
            if state.root_cause is not None and (context.pods or context.has_retained_logs):
                facts.append(("Logs", f"pliant logs {job_object.key.name}"))
        facts += [(title, text) for title, text in _policy_fields(job_object.job) if text] if job_object.job else []
        for title, text in facts:
            yield f"{title + ':':<14} {text}"
            if title == "Root cause" and state is not None and state.root_cause is not None:
                yield from (f"{'':<14} {self._style.dim('│')} {line}" for line in last_log_lines(state.root_cause))

    def _state_fields(self, job_object: JobObject, state: EngineState) -> Iterator[tuple[str, str]]:
        if state.ended_at is not None:
            duration = format_duration(state.ended_at - (state.first_running_at or state.started_at))
            yield "Ended", f"{self._age_text(state.ended_at)} ago, after {duration}"
        elif state.first_running_at is not None:
            yield "Running", f"for {self._age_text(state.first_running_at)}"
        yield "Restarts", str(state.restart_count)
        yield "Avoided nodes", ", ".join(state.avoided_nodes)
        yield "Time", phase_durations_text(state, self._now)
        yield "Progress", progress_detail_text(job_object, self._now)
        if (cause := state.root_cause) is not None:
            yield "Root cause", f"{failure_text(cause)} ({failure_location_text(cause, self._now)})"

    def group_lines(self, job: Job, state: EngineState | None) -> list[str]:
        rows = [
            _group_row(group, sized, state.group(group.name) if state else GroupState())
            for group, sized in zip(job.groups, (job_in_effect(job, state) if state else job).groups, strict=True)
        ]
        lines = self.section("Groups", GROUP_COLUMNS, rows)
        for group in job.groups if state else ():
            if state and (text := recommendation_text(group, state.group(group.name))):
                lines.append(f"  {group.name}: {text}")
        return lines

    def replica_lines(self, job: Job, state: EngineState | None, context: JobContext) -> list[str]:
        rows = [_replica_row(replica) for replica in context.match_replicas(job, state, self._now)]
        known = {row[1] for row in rows}
        rows += [
            ["(orphan)", pod.name, pod.node or "–", str(pod.attempt), str(pod.phase), _exit_text(pod)]
            for pod in context.observed_pods(job)
            if pod.name not in known
        ]
        return self.section("Replicas", REPLICA_COLUMNS, rows)

    def plan_lines(self, context: JobContext) -> list[str]:
        return self.section("Scale plans", PLAN_COLUMNS, plan_rows(context.plans, self._now))

    def timeline_lines(self, state: EngineState) -> list[str]:
        rows = [[self._age_text(entry.at), entry.reason, render(entry.message)] for entry in state.timeline]
        return self.section("Timeline", ("AGE", "REASON", "MESSAGE"), rows)

    def section(self, title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
        if not rows:
            return []
        width = self._width - 2 if self._width else 0
        table = [f"  {line}" for line in Table(columns, self._style, width).render(rows)]
        return ["", self._style.bold(f"{title}:"), *table]

    def _age_text(self, moment: datetime | None) -> str:
        return format_age(self._now - moment) if moment else "–"


def _policy_fields(job: Job) -> Iterator[tuple[str, str]]:
    yield "Framework", next((name for name in job.frameworks if name != "generic"), "")
    if job.master is not None:
        yield "End policy", "the exit code of its master: 0 succeeds, 1 fails"
    else:
        yield "End policy", f"completePolicy {job.complete_policy}, failPolicy {job.fail_policy}"
    yield "Clean pods", f"cleanPodPolicy {job.clean_pod_policy}"
    limits = (("to start", job.start_limit), ("to run", job.time_limit), ("until deletion", job.ttl_after_finished))
    yield "Limits", ", ".join(f"{format_duration(limit)} {purpose}" for purpose, limit in limits if limit is not None)
    yield "Suspended", "requested" if job.is_suspended else ""
    yield "Managed by", job.managed_by
    yield "Fault tolerant", "may lose replicas down to minReplicas" if job.is_fault_tolerant else ""


def _group_row(group: ReplicaGroup, sized_group: ReplicaGroup, group_state: GroupState) -> list[str]:
    rule = group.restart_rule
    bounds = size_bounds_text(group) or ("any" if group.is_elastic else "fixed")
    requests = ", ".join(f"{REQUESTER_NAMES[by]} {request.size}" for by, request in group_state.size_requests.items())
    restarts = (
        f"{group_state.restarts_without_disruptions}, no limit"
        if group_state.restarts_without_disruptions
        else "no limit"
    )
    if rule.limit is not None:
        restarts = f"{group_state.restarts_without_disruptions} of {rule.limit}"
    policy, causes = _restart_policy_text(group), restart_causes_text(group_state)
    return [group.name, str(sized_group.size), bounds, requests or "–", policy, restarts, causes or "–"]


def _restart_policy_text(group: ReplicaGroup) -> str:
    rule = group.restart_rule
    if group.is_master_managed:
        return "by the master"
    return f"{rule.policy}, scope {rule.scope}" if rule.policy else "never"


def restart_causes_text(group_state: GroupState) -> str:
    """Count restarts by cause: `app 2, node 1, disruption 1 (not charged)`."""
    return ", ".join(
        f"{cause} {number}{' (not charged)' if cause is RestartCause.DISRUPTION else ''}"
        for cause, number in group_state.restarts_by_cause.items()
        if number
    )


def _replica_row(replica: Replica) -> list[str]:
    pod = replica.pod
    phase = replica_state_text(replica)
    if pod is None:
        return [replica.display_name, replica.pod_name, "–", str(replica.rank.attempt), phase, "–"]
    return [replica.display_name, replica.pod_name, pod.node or "–", str(pod.attempt), phase, _exit_text(pod)]


def _exit_text(pod: ObservedPod) -> str:
    return describe_exit(pod.exit) if pod.exit is not None else pod.start_problem or "–"


def replica_state_text(replica: Replica) -> str:
    return _REPLICA_STATE_TEXT.get(replica.state, replica.state.name.capitalize())


_REPLICA_STATE_TEXT = {ReplicaState.ABSENT: "No pod", ReplicaState.STALE: "Old attempt"}
