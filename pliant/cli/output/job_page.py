"""One job on one page: what was asked for, how it stands, who its members are, and its story."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta

from pliant.cli.cluster.job_context import ClusterContext
from pliant.cli.cluster.job_lookup import JobObject, qualified_kind
from pliant.cli.cluster.scale_plans import PLAN_COLUMNS as PLAN_TITLES
from pliant.cli.cluster.scale_plans import plan_rows
from pliant.cli.commands.jobs.events import event_rows
from pliant.cli.durations import format_age, format_duration
from pliant.cli.explain.group_sizes import REQUESTER_NAMES, autoscaler_opinion, size_bounds_text
from pliant.cli.output.job_summary import (
    failure_location_text,
    failure_text,
    last_log_lines,
    phase_durations_text,
    progress_detail_text,
)
from pliant.cli.output.style import TerminalStyle
from pliant.cli.output.table import PHASE_COLOURS, Table
from pliant.engine.pods.replicas import Replica, ReplicaState
from pliant.engine.sizing import with_applied_sizes
from pliant.engine.status.messages import describe_exit
from pliant.model.job import Job, ReplicaGroup
from pliant.model.observed import ObservedPod
from pliant.model.state import EngineState, GroupState, RestartCause

MAX_EVENTS = 12


def render_job_page(
    job_object: JobObject, context: ClusterContext, now: datetime, style: TerminalStyle, width: int
) -> str:
    """The whole page."""
    page = _JobPage(style, width, now)
    lines = list(page.header_lines(job_object))
    if job_object.job is not None:
        lines += page.group_lines(job_object.job)
        lines += page.replica_lines(job_object.job, context)
        lines += page.plan_lines(context)
        if job_object.job.state is not None:
            lines += page.timeline_lines(job_object.job.state)
    if context.events:
        latest = context.events[-MAX_EVENTS:]
        more = len(context.events) - len(latest)
        lines += page.section_heading(
            f"Events{f' ({more} older: pliant events {job_object.key.name})' if more else ''}"
        )
        lines += page.table_lines(("AGE", "TYPE", "REASON", "ABOUT", "MESSAGE"), event_rows(latest, now))
    return "\n".join(lines)


class _JobPage:
    def __init__(self, style: TerminalStyle, width: int, now: datetime) -> None:
        self._style = style
        self._width = width
        self._now = now

    def header_lines(self, job_object: JobObject) -> Iterator[str]:
        """Who it is, and where it stands."""
        state, colour = job_object.state, PHASE_COLOURS.get(job_object.phase)
        kind = qualified_kind(job_object.frontend, job_object.frontend.kind)
        phase = self._style.paint(colour, job_object.phase) if colour else job_object.phase
        facts = [
            ("Name", f"{self._style.bold(job_object.key.name)} ({kind}, namespace {job_object.key.namespace})"),
            ("Phase", f"{phase}: {job_object.message}"),
        ]
        if job_object.created_at:
            facts.append(("Created", f"{self._age_text(job_object.created_at)} ago"))
        if state is not None:
            facts += [(title, text) for title, text in self._time_fields(state) if text]
            facts += [(title, text) for title, text in self._result_fields(job_object, state) if text]
        facts += [(title, text) for title, text in _policy_fields(job_object.job) if text] if job_object.job else []
        for title, text in facts:
            yield f"{title + ':':<12} {text}"
            if title == "First cause" and state is not None and state.root_cause is not None:
                yield from (f"{'':<12} {self._style.dim('│')} {line}" for line in last_log_lines(state.root_cause))

    def _time_fields(self, state: EngineState) -> Iterator[tuple[str, str]]:
        yield (
            "Running",
            f"since {self._age_text(state.first_running_at)} ago"
            if state.first_running_at and not state.ended_at
            else "",
        )
        took = state.ended_at - (state.first_running_at or state.started_at) if state.ended_at else timedelta(0)
        yield "Ended", f"{self._age_text(state.ended_at)} ago, after {format_duration(took)}" if state.ended_at else ""
        yield "Restarts", str(state.restart_count)
        yield "Keeps off", ", ".join(state.avoided_nodes)

    def _result_fields(self, job_object: JobObject, state: EngineState) -> Iterator[tuple[str, str]]:
        yield "Time", phase_durations_text(state, self._now)
        yield "Progress", progress_detail_text(job_object, self._now)
        if (cause := state.root_cause) is not None:
            yield "First cause", f"{failure_text(cause)} ({failure_location_text(cause, self._now)})"

    def group_lines(self, job: Job) -> list[str]:
        """What was asked for, and what was spent."""
        state = job.state
        rows = [
            _group_row(asked, acted, state.group(asked.name) if state else GroupState())
            for asked, acted in zip(job.groups, (with_applied_sizes(job, state) if state else job).groups, strict=True)
        ]
        titles = ("GROUP", "SIZE", "BOUNDS", "ASKED BY", "RESTART", "SPENT", "BY CAUSE")
        thoughts = (
            [(asked.name, autoscaler_opinion(asked, state.group(asked.name))) for asked in job.groups] if state else []
        )
        said = [f"  {name}: {thought}" for name, thought in thoughts if thought]
        return [*self.section_heading("Groups"), *self.table_lines(titles, rows), *said]

    def replica_lines(self, job: Job, context: ClusterContext) -> list[str]:
        """Who is where."""
        rows = [_replica_row(place) for place in context.match_replicas(job, self._now)]
        known = {row[1] for row in rows}
        rows += [_orphan_row(pod) for pod in context.observed_pods(job) if pod.name not in known]
        titles = ("MEMBER", "POD", "NODE", "ATTEMPT", "PHASE", "EXIT")
        return [*self.section_heading("Members"), *self.table_lines(titles, rows)] if rows else []

    def plan_lines(self, context: ClusterContext) -> list[str]:
        """What was asked of its members by plans."""
        rows = plan_rows(context.plans, self._now)
        return [*self.section_heading("Plans"), *self.table_lines(PLAN_TITLES, rows)] if rows else []

    def timeline_lines(self, state: EngineState) -> list[str]:
        """Its story, the latest last."""
        rows = [[f"{self._age_text(moment.at)} ago", moment.reason, moment.message] for moment in state.timeline]
        return [*self.section_heading("Timeline"), *self.table_lines(("WHEN", "WHAT", "WHY"), rows)] if rows else []

    def section_heading(self, title: str) -> list[str]:
        return ["", self._style.bold(f"{title}:")]

    def table_lines(self, titles: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
        width = self._width - 2 if self._width else 0
        return [f"  {line}" for line in Table(titles, self._style, width).render(rows)]

    def _age_text(self, moment: datetime | None) -> str:
        return format_age(self._now - moment) if moment else "–"


def _policy_fields(job: Job) -> Iterator[tuple[str, str]]:
    """What holds for the job as a whole, where it is not what holds for all."""
    yield "Framework", "" if job.frameworks[-1] == "generic" else job.frameworks[-1]
    if job.has_master:
        yield "Ends", "with its master: well with exit code 0, badly with 1"
    else:
        yield "Ends", f"complete when {job.complete_policy}, failed when {job.fail_policy} of its groups is"
    yield "Pods after", _POD_CLEANUP_TEXT[job.clean_pod_policy]
    limits = (("to start", job.start_limit), ("to run", job.time_limit), ("kept after its end", job.ttl_after_finished))
    yield "Limits", ", ".join(f"{format_duration(span)} {what}" for what, span in limits if span is not None)
    yield "Suspended", "asked for" if job.is_suspended else ""
    yield "Managed by", job.managed_by
    yield "Tolerant", "may lose members down to the least size" if job.is_fault_tolerant else ""


_POD_CLEANUP_TEXT = {
    "All": "are deleted (cleanPodPolicy All)",
    "Running": "stay if they have ended (cleanPodPolicy Running)",
    "None": "stay (cleanPodPolicy None)",
}


def _group_row(group: ReplicaGroup, sized_group: ReplicaGroup, group_state: GroupState) -> list[str]:
    rule = group.restart_rule
    bounds = size_bounds_text(group) or ("any" if group.is_elastic else "fixed")
    wishes = ", ".join(f"{REQUESTER_NAMES[who]} {request.size}" for who, request in group_state.size_requests.items())
    limit = "no limit" if rule.limit is None else f"{group_state.charged_restarts} of {rule.limit}"
    return [
        group.name,
        str(sized_group.size),
        bounds,
        wishes or "–",
        _restart_policy_text(group),
        f"{group_state.charged_restarts}, no limit" if rule.limit is None and group_state.charged_restarts else limit,
        restart_causes_text(group_state) or "–",
    ]


def _restart_policy_text(group: ReplicaGroup) -> str:
    rule = group.restart_rule
    if group.is_master_managed:
        return "by the master"
    return f"{rule.policy}, scope {rule.scope}" if rule.policy else "never"


def restart_causes_text(group_state: GroupState) -> str:
    """What restarts were for: `app 2, node 1, disruption 1 (free)`."""
    told = [
        f"{cause} {number}{' (free)' if cause is RestartCause.DISRUPTION else ''}"
        for cause, number in group_state.restarts_by_cause.items()
        if number
    ]
    return ", ".join(told)


def _replica_row(replica: Replica) -> list[str]:
    pod = replica.pod
    phase = replica_state_text(replica)
    if pod is None:
        return [replica.display_name, replica.pod_name, "–", str(replica.rank.attempt), phase, "–"]
    return [replica.display_name, replica.pod_name, pod.node or "–", str(pod.attempt), phase, _exit_text(pod)]


def _orphan_row(pod: ObservedPod) -> list[str]:
    return ["(no place)", pod.name, pod.node or "–", str(pod.attempt), str(pod.phase), _exit_text(pod)]


def _exit_text(pod: ObservedPod) -> str:
    if pod.exit is not None:
        return describe_exit(pod.exit)
    return pod.problem or "–"


def replica_state_text(replica: Replica) -> str:
    """How things are at a place, in one word."""
    return _REPLICA_STATE_TEXT.get(replica.state, replica.state.name.capitalize())


_REPLICA_STATE_TEXT = {
    ReplicaState.ABSENT: "No pod",
    ReplicaState.STALE: "Old attempt",
    ReplicaState.DISRUPTED: "Taken away",
}
