"""Makes a story of what a job's status, pods, nodes and events say: where it stands, why, and what to try."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from pliant.cli.cluster.job_context import ClusterContext
from pliant.cli.cluster.job_lookup import JobObject
from pliant.cli.cluster.scale_plans import plan_rows
from pliant.cli.durations import format_age, format_duration
from pliant.cli.explain.capacity import find_current_shortages, find_shortages
from pliant.cli.explain.failure_hints import explain_exit
from pliant.cli.explain.group_sizes import explain_group_sizes
from pliant.cli.explain.remedies import UNSCHEDULABLE_REASON, suggest_remedies
from pliant.cli.output.job_page import restart_causes_text
from pliant.cli.output.job_summary import (
    failure_location_text,
    failure_text,
    last_log_lines,
    phase_durations_text,
    progress_detail_text,
)
from pliant.engine.pods.replicas import Replica, ReplicaState
from pliant.engine.restart.restarts import backoff_left
from pliant.engine.status.messages import describe_exit, join_names, pluralize
from pliant.model.job import Job
from pliant.model.labels import MANAGED_BY_VALUE
from pliant.model.observed import ObservedPod, PodPhase
from pliant.model.state import EngineState, JobPhase, ReplicaFailure

UNRECONCILED_AFTER = timedelta(seconds=5)
"""A job that no operator has looked at for so long is not looked after."""
MAX_FAILED_PODS = 3
_PHASE_PHRASES = {
    JobPhase.SUCCEED: "succeeded",
    JobPhase.FAILED: "failed",
    JobPhase.TIMEOUT: "was ended because a time limit passed",
    JobPhase.PREEMPTED: "was ended to make room for others (preempted)",
    JobPhase.NODE_FAIL: "was ended because a node failed",
    JobPhase.PENDING: "waits for its members to be placed",
    JobPhase.CREATING: "waits for its members to start",
    JobPhase.RUNNING: "runs",
    JobPhase.RESTARTING: "restarts",
    JobPhase.SUSPENDED: "rests",
    JobPhase.TERMINATING: "is ending",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """Everything that was found out."""

    job_object: JobObject
    context: ClusterContext
    now: datetime
    log_tails: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Last lines by pod, as far as they are still there."""

    def with_log_tails(self, log_tails: Mapping[str, Sequence[str]]) -> Evidence:
        """The same with the last words of those who failed."""
        return replace(self, log_tails=log_tails)

    def format_ago(self, moment: datetime) -> str:
        """How long ago that was."""
        return f"{format_age(self.now - moment)} ago"


@dataclass(frozen=True, slots=True, kw_only=True)
class Sentence:
    """One thing to say, and what was written at the scene."""

    text: str
    log_lines: Sequence[str] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class JobExplanation:
    """What there is to say about a job."""

    name: str
    phase: str
    headline: str
    reasons: Sequence[Sentence] = ()
    """First cause, or what it waits for."""
    timeline: Sequence[tuple[str, str, str]] = ()
    """When, what and why, the newest first."""
    facts: Sequence[str] = ()
    """Budgets and sizes."""
    plans: Sequence[Sequence[str]] = ()
    """What was asked of its members by plans, the newest first."""
    remedies: Sequence[str] = ()


def explain_job(evidence: Evidence) -> JobExplanation:
    """The story of one job."""
    one, job = evidence.job_object, evidence.job_object.job
    why = [*_explain_job_policies(evidence)]
    if job is not None and job.state is not None:
        why += [
            *_explain_failures(evidence, job),
            *_explain_waiting(evidence, job, job.state),
            *_explain_node_problems(evidence, job.state),
        ]
    return JobExplanation(
        name=one.key.name,
        phase=one.phase,
        headline=_headline(evidence),
        reasons=why,
        timeline=_build_timeline(evidence),
        facts=[*_progress_facts(evidence), *_restart_budget_facts(job), *explain_group_sizes(job, evidence.format_ago)]
        if job
        else (),
        plans=plan_rows(evidence.context.plans, evidence.now),
        remedies=list(dict.fromkeys(suggest_remedies(one, _match_replicas(evidence), evidence.context))),
    )


def failed_pods(evidence: Evidence) -> list[ObservedPod]:
    """Pods that ended badly and are still there, the earliest first."""
    job = evidence.job_object.job
    if job is None:
        return []
    failed = [
        pod for pod in evidence.context.observed_pods(job) if pod.phase is PodPhase.FAILED and not pod.is_terminating
    ]
    return sorted(failed, key=lambda pod: str(pod.finished_at or "~"))[:MAX_FAILED_PODS]


def _match_replicas(evidence: Evidence) -> tuple[Replica, ...]:
    return evidence.context.match_replicas(evidence.job_object.job, evidence.now) if evidence.job_object.job else ()


def _headline(evidence: Evidence) -> str:
    one, state = evidence.job_object, evidence.job_object.state
    if one.parse_error:
        return f"{one.key.name} cannot be understood, so nothing is done about it: {one.parse_error}"
    if state is None:
        return f"{one.key.name} has not been looked at yet"
    said = f"{one.key.name} {_PHASE_PHRASES[state.phase]}"
    if state.ended_at is not None:
        took = format_duration(state.ended_at - (state.first_running_at or state.started_at))
        return f"{said} {evidence.format_ago(state.ended_at)}, after {took}: {state.message}"
    since = state.timeline[-1].at if state.timeline else state.started_at
    return f"{said} (since {format_age(evidence.now - since)}): {state.message}"


def _explain_job_policies(evidence: Evidence) -> Iterator[Sentence]:
    """What holds for the job as such, whatever its members do."""
    job, where = evidence.job_object.job, evidence.job_object.frontend.run_policy_path
    if job is None:
        return
    if job.managed_by not in ("", MANAGED_BY_VALUE):
        yield Sentence(text=f"{where}.managedBy leaves it to {job.managed_by}: this operator does not touch it.")
    elif job.state is None and evidence.now - job.created_at > UNRECONCILED_AFTER:
        yield Sentence(text="No operator looks after it: none is running, or none that watches this namespace.")
    if job.is_deleting:
        yield Sentence(text="It is being deleted.")
    if job.end_request is not None:
        yield Sentence(
            text=f"Somebody ordered its end as {job.end_request.phase} by an annotation: {job.end_request.message}."
        )
    if job.is_suspended and job.state is not None and not job.state.phase.is_final:
        yield Sentence(text=f"It was asked to rest ({where}.suspend): its members are sent home, its clock stands.")


def _explain_failures(evidence: Evidence, job: Job) -> Iterator[Sentence]:
    """Who ended badly, how and where, and what they said last."""
    found = failed_pods(evidence)
    is_over = job.state is not None and job.state.phase.is_final and job.state.phase is not JobPhase.SUCCEED
    if (cause := _recorded_root_cause(evidence, job)) is not None:
        start = "First cause: " if is_over else "The latest restart: "
        place = failure_location_text(cause, evidence.now)
        yield Sentence(text=f"{start}{failure_text(cause)} ({place}).", log_lines=last_log_lines(cause))
        is_over = False
    elif not found and is_over and not evidence.context.pods:
        kept = " (cleanPodPolicy All)" if job.clean_pod_policy == "All" else ""
        yield Sentence(text=f"Its pods are gone{kept}, and their logs with them; the story below is what is left.")
    for number, pod in enumerate(found):
        container = f", container {pod.exit.container}" if pod.exit and pod.exit.container else ""
        when = f", {evidence.format_ago(pod.finished_at)}" if pod.finished_at else ""
        start = "First cause: " if number == 0 and is_over else ""
        meaning = explain_exit(pod.exit)
        tail = evidence.log_tails.get(pod.name, ())
        # What is quoted below need not be said in the sentence.
        end = replace(pod.exit, message="") if pod.exit and tail else pod.exit
        yield Sentence(
            text=f"{start}{pod.group}-{pod.index} {describe_exit(end)} "
            f"(pod {pod.name} on {pod.node or 'no node'}{container}, attempt {pod.attempt}{when})."
            + (f" {meaning[0].upper()}{meaning[1:]}{'' if meaning.endswith('?') else '.'}" if meaning else ""),
            log_lines=tail,
        )


def _recorded_root_cause(evidence: Evidence, job: Job) -> ReplicaFailure | None:
    """The first cause as the operator remembers it, unless its pod is still there to be looked at."""
    cause = job.state.root_cause if job.state else None
    there = {(f"{pod.group}-{pod.index}", pod.attempt) for pod in failed_pods(evidence)}
    return None if cause is None or (cause.replica, cause.attempt) in there else cause


def _progress_facts(evidence: Evidence) -> Iterator[str]:
    """Where the time went, and how far the training has come."""
    if progress := progress_detail_text(evidence.job_object, evidence.now):
        yield f"Progress: {progress}."
    if evidence.job_object.state is not None and (
        spent := phase_durations_text(evidence.job_object.state, evidence.now)
    ):
        yield f"Time: {spent}."


def _explain_waiting(evidence: Evidence, job: Job, state: EngineState) -> Iterator[Sentence]:
    """What the job waits for, those with one reason in one sentence."""
    if state.phase.is_final or state.phase is JobPhase.SUSPENDED:
        return
    reasons: dict[str, list[str]] = {}
    for place in _match_replicas(evidence):
        if reason := _waiting_reason(evidence, job, place):
            reasons.setdefault(reason, []).append(place.display_name)
    for reason, titles in reasons.items():
        yield Sentence(text=f"{join_names(titles)} {reason}.")


def _waiting_reason(evidence: Evidence, job: Job, replica: Replica) -> str:
    pod, state = replica.pod, job.state
    if replica.state is ReplicaState.ABSENT and state is not None:
        left = backoff_left(state.group(replica.rank.group.name), evidence.now)
        if left:
            return f"will be started again in {format_duration(left)}: its group keeps failing, so the waits grow"
        return "has no pod yet" if not state.phase.is_final else ""
    if replica.state in (ReplicaState.STALE, ReplicaState.TERMINATING):
        return "has an old pod that must leave first"
    if pod is not None and pod.problem and not replica.state.has_started:
        return f"cannot start: {pod.problem.rstrip('.')}{_shortage_text(evidence, replica, pod.problem)}"
    if replica.state is ReplicaState.SCHEDULED and pod is not None:
        return f"has been given to {pod.node}, which has not started it yet"
    return "has not been given to a node yet" if replica.state is ReplicaState.PENDING else ""


def _shortage_text(evidence: Evidence, replica: Replica, problem: str) -> str:
    """Which resources no node has enough of, or not enough that is free, if that is it."""
    if not problem.startswith(UNSCHEDULABLE_REASON):
        return ""
    template, nodes = replica.rank.group.template, evidence.context.nodes.values()
    lacks = find_shortages(template, nodes) or find_current_shortages(template, nodes, evidence.context.all_pods)
    return f". It wants {'; and '.join(map(str, lacks))}" if lacks else ""


def _explain_node_problems(evidence: Evidence, state: EngineState) -> Iterator[Sentence]:
    used = [pod.spec.node_name for pod in evidence.context.pods if pod.spec.node_name]
    for name, what in evidence.context.node_problems(list(dict.fromkeys([*used, *state.avoided_nodes]))).items():
        here = pluralize(used.count(name), "member")
        yield Sentence(text=f"Node {name} {what}; {here} of this job {'is' if used.count(name) == 1 else 'are'} there.")
    if state.avoided_nodes:
        yield Sentence(
            text=f"New pods keep off {join_names(state.avoided_nodes)}: members were lost or not created there."
        )


def _build_timeline(evidence: Evidence) -> list[tuple[str, str, str]]:
    """The timeline and the warnings about pods, the newest first."""
    state = evidence.job_object.state
    moments = [(moment.at, moment.reason, moment.message) for moment in state.timeline] if state else []
    told = {why for _, _, why in moments}
    for event in evidence.context.events:
        if (
            event.at is not None
            and event.is_warning
            and event.involved_object.startswith("Pod ")
            and event.message not in told
        ):
            often = f" (×{event.count})" if event.count > 1 else ""
            moments.append(
                (event.at, event.reason, f"{event.involved_object.removeprefix('Pod ')}: {event.message}{often}")
            )
    moments.sort(key=lambda moment: moment[0], reverse=True)
    return [(evidence.format_ago(at), what, why) for at, what, why in moments]


def _restart_budget_facts(job: Job) -> Iterator[str]:
    for group in job.groups:
        memory, limit = job.state.group(group.name) if job.state else None, group.restart_rule.limit
        if memory is None or not memory.restarts_by_cause:
            continue
        spent = (
            pluralize(memory.charged_restarts, "restart")
            if limit is None
            else f"{memory.charged_restarts} of {limit} restarts"
        )
        left = (
            ""
            if limit is None
            else f", {limit - memory.charged_restarts} left"
            if limit > memory.charged_restarts
            else ", none left"
        )
        yield f"{group.name} has spent {spent} ({restart_causes_text(memory)}){left}."
