"""Explains the state of a job from its status, pods, nodes and events, for `pliant why`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from pliant.cli.cluster.job_context import JobContext
from pliant.cli.cluster.job_lookup import JobObject
from pliant.cli.cluster.scale_plans import plan_rows
from pliant.cli.durations import format_age, format_duration
from pliant.cli.explain.capacity import UNSCHEDULABLE_REASON, find_current_shortages, find_permanent_shortages
from pliant.cli.explain.departures import explain_departures
from pliant.cli.explain.failure_hints import explain_exit
from pliant.cli.explain.group_sizes import explain_group_sizes
from pliant.cli.explain.remedies import suggest_remedies
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
from pliant.engine.status.messages import describe_exit, start_problems
from pliant.model.english import pluralize, render, summarize_names
from pliant.model.job import Job
from pliant.model.labels import MANAGED_BY_VALUE, excluded_nodes
from pliant.model.messages import Message, MessageReason, message
from pliant.model.observed import ObservedPod, PodPhase
from pliant.model.state import EngineState, JobPhase, ReplicaFailure

UNRECONCILED_AFTER = timedelta(seconds=5)  # after this time a job without status counts as not watched by any operator
MAX_EXPLAINED_FAILED_PODS = 3
_PHASE_PHRASES = {
    JobPhase.SUCCEED: "succeeded",
    JobPhase.FAILED: "failed",
    JobPhase.TIMEOUT: "exceeded a time limit",
    JobPhase.PREEMPTED: "was preempted",
    JobPhase.NODE_FAIL: "failed because of a node",
    JobPhase.PENDING: "is waiting for its pods to be scheduled",
    JobPhase.CREATING: "is waiting for its replicas to start",
    JobPhase.RUNNING: "is running",
    JobPhase.RESTARTING: "is restarting",
    JobPhase.SUSPENDED: "is suspended",
    JobPhase.TERMINATING: "is terminating",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class JobEvidence:
    """What is known about a job."""

    job_object: JobObject
    context: JobContext
    now: datetime
    log_tails: Mapping[str, Sequence[str]] = field(default_factory=dict)  # the last log lines by pod name

    def format_ago(self, moment: datetime) -> str:
        return f"{format_age(self.now - moment)} ago"


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplanationReason:
    """A reason, with the log lines that show it."""

    text: str
    log_lines: Sequence[str] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class JobExplanation:
    """The explanation of a job."""

    name: str
    phase: str
    headline: str
    reasons: Sequence[ExplanationReason] = ()  # the root cause, or what the job waits for
    timeline: Sequence[tuple[str, str, str]] = ()  # age, reason and message; newest first
    details: Sequence[str] = ()  # restart budgets, sizes and progress
    plan_rows: Sequence[Sequence[str]] = ()  # rows of scale plans; newest first
    remedies: Sequence[str] = ()


def explain_job(evidence: JobEvidence) -> JobExplanation:
    job_object, job, state = evidence.job_object, evidence.job_object.job, evidence.job_object.state
    reasons = [*_explain_job_policies(evidence)]
    facts = [*_progress_facts(evidence)] if job is not None else []
    if job is not None and state is not None:
        reasons += _explain_failures(evidence, job, state)
        reasons += _explain_waiting(evidence, state)
        reasons += _explain_node_problems(evidence, state)
        reasons += [ExplanationReason(text=text) for text in explain_departures(state, evidence.now)]
        facts += [*_restart_budget_facts(job, state), *explain_group_sizes(job, state, evidence.format_ago)]
        facts += [f"{warning}." for warning in job.warnings]
    return JobExplanation(
        name=job_object.key.name,
        phase=job_object.phase,
        headline=_headline(evidence),
        reasons=reasons,
        timeline=_build_timeline(evidence),
        details=facts,
        plan_rows=plan_rows(evidence.context.plans, evidence.now),
        remedies=list(dict.fromkeys(suggest_remedies(job_object, _match_replicas(evidence), evidence.context))),
    )


def earliest_failed_pods(evidence: JobEvidence) -> list[ObservedPod]:
    """Return the failed pods that still exist, the earliest failure first."""
    job = evidence.job_object.job
    if job is None:
        return []
    pods, state = evidence.context.observed_pods(job), evidence.job_object.state
    failed = [pod for pod in pods if pod.phase is PodPhase.FAILED and not pod.is_terminating]
    # The operator has recorded the failures in their order; the times of pods are in whole seconds.
    recorded = [*filter(None, (state.root_cause,)), *state.failures] if state else []
    order = {(failure.replica, failure.attempt): number for number, failure in reversed([*enumerate(recorded)])}

    def failure_order(pod: ObservedPod) -> tuple[int, str]:
        return order.get(_replica_and_attempt(pod), len(order)), str(pod.finished_at or "~")

    return sorted(failed, key=failure_order)[:MAX_EXPLAINED_FAILED_PODS]


def _replica_and_attempt(pod: ObservedPod) -> tuple[str, int]:
    return f"{pod.group}-{pod.index}", pod.attempt


def _match_replicas(evidence: JobEvidence) -> tuple[Replica, ...]:
    job, state = evidence.job_object.job, evidence.job_object.state
    return evidence.context.match_replicas(job, state, evidence.now) if job is not None else ()


def _headline(evidence: JobEvidence) -> str:
    job_object, state, name = evidence.job_object, evidence.job_object.state, evidence.job_object.key.name
    if job_object.parse_error:
        return f"{name} has an invalid spec, so the operator ignores it: {job_object.parse_error}"
    if state is None:
        return f"{name} has not been reconciled yet"
    headline = f"{name} {_PHASE_PHRASES[state.phase]}"
    if state.ended_at is not None:
        duration = format_duration(state.ended_at - (state.first_running_at or state.started_at))
        return f"{headline} {evidence.format_ago(state.ended_at)}, after {duration}: {render(state.message)}"
    since = state.timeline[-1].at if state.timeline else state.started_at
    return f"{headline} (for {format_age(evidence.now - since)}): {render(_current_message(evidence, state))}"


def _current_message(evidence: JobEvidence, state: EngineState) -> Message:
    """Return the message of a job; instead of replicas that it waits for, why these do not start, if events say so."""
    if state.message.reason != MessageReason.WAITING_FOR_REPLICAS:
        return state.message
    problems = start_problems(_match_replicas(evidence))
    return message(MessageReason.DEGRADED, problems) if problems else state.message


def _explain_job_policies(evidence: JobEvidence) -> Iterator[ExplanationReason]:
    """Yield reasons that concern the whole job, such as suspension."""
    job, state = evidence.job_object.job, evidence.job_object.state
    policy_path = evidence.job_object.frontend.run_policy_path
    if job is None:
        return
    if job.managed_by not in ("", MANAGED_BY_VALUE):
        yield ExplanationReason(text=f"{policy_path}.managedBy is {job.managed_by}: this operator ignores the job.")
    elif state is None and evidence.now - job.created_at > UNRECONCILED_AFTER:
        yield ExplanationReason(text="No operator reconciles it: none is running, or none watches this namespace.")
    if evidence.job_object.rejection:
        problem = evidence.job_object.rejection
        yield ExplanationReason(
            text=f"The latest edit is rejected, the job continues with the spec before it: {problem}."
        )
    if job.is_deleting:
        yield ExplanationReason(text="It is being deleted.")
    if job.end_request is not None:
        request = job.end_request
        yield ExplanationReason(text=f"An annotation requests its end with phase {request.phase}: {request.message}.")
    if job.is_suspended and state is not None and not state.phase.is_final:
        yield ExplanationReason(
            text=f"It is suspended ({policy_path}.suspend): its pods are deleted, its timeLimit is paused."
        )


def _explain_failures(evidence: JobEvidence, job: Job, state: EngineState) -> Iterator[ExplanationReason]:
    """Yield the failed replicas with exit code, node and last log lines."""
    pods, root_cause = earliest_failed_pods(evidence), state.root_cause
    has_failed = state.phase.is_final and state.phase is not JobPhase.SUCCEED
    if (cause := _recorded_root_cause(evidence, state)) is not None:
        label = "Root cause: " if has_failed else "Latest restart: "
        location = failure_location_text(cause, evidence.now)
        yield ExplanationReason(text=f"{label}{failure_text(cause)} ({location}).", log_lines=last_log_lines(cause))
    elif not pods and has_failed and not evidence.context.pods and not evidence.context.has_retained_logs:
        policy = " (cleanPodPolicy All)" if job.clean_pod_policy == "All" else ""
        yield ExplanationReason(text=f"Its pods and their logs are deleted{policy}; only the timeline below is left.")
    for pod in pods:
        container = f", container {pod.exit.container}" if pod.exit and pod.exit.container else ""
        age = f", {evidence.format_ago(pod.finished_at)}" if pod.finished_at else ""
        is_cause = root_cause is not None and (root_cause.replica, root_cause.attempt) == _replica_and_attempt(pod)
        label = "Root cause: " if is_cause and has_failed else ""
        meaning = explain_exit(pod.exit)
        tail = evidence.log_tails.get(pod.name, ())
        # The log lines below repeat the termination message.
        pod_exit = replace(pod.exit, message="") if pod.exit and tail else pod.exit
        yield ExplanationReason(
            text=f"{label}{pod.group}-{pod.index} {describe_exit(pod_exit)} "
            f"(pod {pod.name} on {pod.node or 'no node'}{container}, attempt {pod.attempt}{age})."
            + (f" {meaning[0].upper()}{meaning[1:]}." if meaning else ""),
            log_lines=tail,
        )


def _recorded_root_cause(evidence: JobEvidence, state: EngineState) -> ReplicaFailure | None:
    """Return the root cause that the operator recorded, unless its pod still exists."""
    cause = state.root_cause
    existing = {_replica_and_attempt(pod) for pod in earliest_failed_pods(evidence)}
    return None if cause is None or (cause.replica, cause.attempt) in existing else cause


def _progress_facts(evidence: JobEvidence) -> Iterator[str]:
    if progress := progress_detail_text(evidence.job_object, evidence.now):
        yield f"Progress: {progress}."
    state = evidence.job_object.state
    if state is not None and (durations := phase_durations_text(state, evidence.now)):
        yield f"Time: {durations}."


def _explain_waiting(evidence: JobEvidence, state: EngineState) -> Iterator[ExplanationReason]:
    """Yield what replicas wait for; replicas with the same reason share a sentence."""
    if state.phase.is_final or state.phase is JobPhase.SUSPENDED:
        return
    replicas_by_reason: dict[str, list[str]] = {}
    for replica in _match_replicas(evidence):
        if reason := _waiting_reason(evidence, state, replica):
            replicas_by_reason.setdefault(reason, []).append(replica.display_name)
    for reason, names in replicas_by_reason.items():
        yield ExplanationReason(text=f"{summarize_names(names)}: {reason}.")


def _waiting_reason(evidence: JobEvidence, state: EngineState, replica: Replica) -> str:
    pod = replica.pod
    if replica.state is ReplicaState.ABSENT:
        backoff = backoff_left(state.group(replica.rank.group.name), evidence.now)
        if backoff:
            return f"restarts in {format_duration(backoff)}; the back-off grows while its group keeps failing"
        return "no pod yet" if not state.phase.is_final else ""
    if replica.state in (ReplicaState.STALE, ReplicaState.TERMINATING):
        return "waiting for its old pod to terminate"
    if pod is not None and pod.start_problem and not replica.state.has_started:
        return f"{pod.start_problem.rstrip('.')}{_shortage_text(evidence, replica, pod.start_problem)}"
    if replica.state is ReplicaState.SCHEDULED and pod is not None:
        return f"scheduled to {pod.node}, not started yet"
    return "not scheduled yet" if replica.state is ReplicaState.PENDING else ""


def _shortage_text(evidence: JobEvidence, replica: Replica, problem: str) -> str:
    """Return which resources no node has enough of, for an unschedulable pod."""
    if not problem.startswith(UNSCHEDULABLE_REASON):
        return ""
    template, nodes = replica.rank.group.template, evidence.context.nodes.values()
    shortages = find_permanent_shortages(template, nodes) or find_current_shortages(
        template, nodes, evidence.context.cluster_pods
    )
    return f". It {'; and it '.join(map(str, shortages))}" if shortages else ""


def _explain_node_problems(evidence: JobEvidence, state: EngineState) -> Iterator[ExplanationReason]:
    used = [pod.spec.node_name for pod in evidence.context.pods if pod.spec.node_name]
    waiting = [pod for pod in evidence.context.pods if not pod.spec.node_name]
    excluded = dict.fromkeys(name for pod in waiting for name in excluded_nodes(pod.metadata.annotations))
    names = list(dict.fromkeys([*used, *state.avoided_nodes, *excluded]))
    for name, problem in evidence.context.node_problems(names).items():
        replicas = pluralize(used.count(name), "replica")
        yield ExplanationReason(text=f"Node {name} {problem}; it runs {replicas} of this job.")
    if state.avoided_nodes:
        nodes = summarize_names(state.avoided_nodes)
        yield ExplanationReason(text=f"New pods avoid {nodes}, because replicas were lost or not created there.")
    if excluded:
        nodes = summarize_names(list(excluded))
        yield ExplanationReason(text=f"Pods that wait for a node exclude {nodes} until the device fault there is over.")


def _build_timeline(evidence: JobEvidence) -> list[tuple[str, str, str]]:
    """Return the timeline of the job and the warnings about its pods, the newest first."""
    state = evidence.job_object.state
    entries = [(entry.at, entry.reason, render(entry.message)) for entry in state.timeline] if state else []
    for event in evidence.context.events:
        is_pod_warning = event.is_warning and event.involved_object.startswith("Pod ")
        if event.at is not None and is_pod_warning:
            count = f" (×{event.count})" if event.count > 1 else ""
            message = f"{event.involved_object.removeprefix('Pod ')}: {event.message}{count}"
            entries.append((event.at, event.reason, message))
    entries.sort(key=lambda entry: entry[0], reverse=True)
    return [(evidence.format_ago(at), reason, message) for at, reason, message in entries]


def _restart_budget_facts(job: Job, state: EngineState) -> Iterator[str]:
    """Yield the restarts of the job, and how much of their limits groups have used; equal groups share a sentence."""
    names_by_budget: dict[str, list[str]] = {}
    for group in job.groups:
        group_state, limit = state.group(group.name), group.restart_rule.limit
        if not group_state.restarts_by_cause:
            continue
        used = group_state.restarts_without_disruptions
        budget = pluralize(used, "restart") if limit is None else f"{used} of {limit} restarts"
        left = "" if limit is None else f", {max(limit - used, 0) or 'none'} left"
        text = f"used {budget} ({restart_causes_text(group_state)}){left}"
        names_by_budget.setdefault(text, []).append(group.name)
    if sum(map(len, names_by_budget.values())) > 1 and state.restart_count:
        yield f"{pluralize(state.restart_count, 'restart')} of the job; one that restarts several groups counts once."
    for text, names in names_by_budget.items():
        yield f"{summarize_names(names)} {'has' if len(names) == 1 else 'have'} {text}."
