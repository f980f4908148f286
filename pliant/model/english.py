"""The English text of messages: the only module that renders them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from pliant.model.departures import DepartureReason
from pliant.model.messages import AUTOSCALING_DISABLED, BOUNDS_EDITED, MAX_DETAILS, Message, MessageReason
from pliant.model.state import SizeRequester


def render(message: Message) -> str:
    """Return the text of a message; that of an unknown reason lists its parameters."""
    template = TEMPLATES.get(message.reason)
    if callable(template):
        return template(message)
    if template is None:
        return _render_unknown(message)
    return template.format_map(_Parameters({**message.parameters, "details": render_details(message)}))


def render_details(message: Message) -> str:
    """Return the text of the details: `a, b, c and 4 more`."""
    shown = ", ".join(render(detail) for detail in message.details)
    more = message.parameters.get("more")
    return f"{shown} and {more} more" if more else shown


def summarize_names(names: Sequence[str]) -> str:
    """Join the first names: `a, b, c and 4 more`."""
    shown = ", ".join(names[:MAX_DETAILS])
    return f"{shown} and {len(names) - MAX_DETAILS} more" if len(names) > MAX_DETAILS else shown


def pluralize(number: int, noun: str) -> str:
    """Return `1 pod`, `2 pods` or `2 ps`."""
    return f"{number} {noun}" if number == 1 or noun.endswith("s") else f"{number} {noun}s"


class _Parameters(dict[str, str | int]):
    """The parameters of a template; one that is missing is shown as empty, since messages are stored."""

    def __missing__(self, name: str) -> str:
        return ""


def _render_unknown(message: Message) -> str:
    parameters = ", ".join(f"{name}={value}" for name, value in message.parameters.items())
    parts = [message.reason, f"({parameters})" if parameters else "", render_details(message)]
    return " ".join(filter(None, parts))


def _text(message: Message, name: str) -> str:
    return str(message.parameters.get(name, ""))


def _number(message: Message, name: str) -> int:
    value = message.parameters.get(name, 0)
    return value if isinstance(value, int) else 0


def render_exit(message: Message) -> str:
    """Return how a replica ended, without its name: `exited with code 3`."""
    code, cause, last_line = (_text(message, name) for name in ("code", "cause", "message"))
    phrases = {
        MessageReason.REPLICA_NOT_STARTED: f"could not be started ({cause})",
        MessageReason.REPLICA_OUT_OF_MEMORY: f"ran out of memory (OOMKilled, exit code {code})",
        MessageReason.REPLICA_KILLED: f"was killed by {_text(message, 'signal')} (exit code {code})",
        MessageReason.REPLICA_EXITED: f"exited with code {code}",
        MessageReason.REPLICA_FAILED: f"failed: {cause}" if cause else "failed",
    }
    phrase = phrases[MessageReason(message.reason)]
    return f"{phrase}: {last_line}" if last_line else phrase


def _render_replica_exit(message: Message) -> str:
    text = f"{_text(message, 'replica')} {render_exit(message)}"
    if "fault" not in message.parameters:
        return text
    return f"{text} on node {_text(message, 'node')}, which {_text(message, 'fault')}"


def _render_member_count(message: Message) -> str:
    text = f"{_text(message, 'running')} of {_text(message, 'wanted')} {_text(message, 'group')}"
    finished = _number(message, "finished")
    return f"{text} ({finished} finished)" if finished else text


def _render_restart(message: Message) -> str:
    limit = f" of {_text(message, 'limit')}" if "limit" in message.parameters else ""
    count = f"restart {_text(message, 'used')}{limit} of {_text(message, 'group')}"
    return f"{render_details(message)}; {count}, scope {_text(message, 'scope')}"


def _render_limit(message: Message) -> str:
    who = _text(message, "group") or "the job"
    return f"{render_details(message)}; {who} has used its {pluralize(_number(message, 'limit'), 'restart')}"


def _render_suspended(message: Message) -> str:
    left = _number(message, "pods")
    text = f"suspended; waiting for {pluralize(left, 'pod')} to terminate" if left else "suspended"
    return f"{text}: {render_details(message)}" if message.details else text


_REQUESTERS: Mapping[str, str] = {
    SizeRequester.MASTER: "requested by the master",
    SizeRequester.MANUAL_PLAN: "requested by a ScalePlan",
    SizeRequester.SPEC: "replicas was edited",
    SizeRequester.SCALE: "scaled",
    BOUNDS_EDITED: "bounds were edited",
    AUTOSCALING_DISABLED: "autoscaling was disabled",
}


def _describe_requester(change: Message) -> str:
    requester = _text(change, "requestedBy")
    if requester == SizeRequester.AUTOSCALER:
        return f"autoscaler: {_text(change, 'message')}"
    return _REQUESTERS.get(requester, requester)


def _render_resize(message: Message) -> str:
    requesters = sorted({_describe_requester(change) for change in message.details})
    text = f"resizing {', '.join(map(render, message.details))} ({' and '.join(requesters)})"
    return f"{text}; all replicas restart" if _number(message, "restarts") else text


_DEPARTURE_CAUSES: Mapping[str, str] = {
    DepartureReason.RESIZED: "before the resize",
    DepartureReason.SUSPENDED: "before the job is suspended",
    DepartureReason.PREEMPTED: "before the job ends",
    DepartureReason.REPLACED: "before the replica is replaced",
    DepartureReason.NODE_DRAINING: "because the node is being drained",
}


def departure_cause_text(reason: str) -> str:
    """Return when a replica must have saved its state: `before the resize`."""
    return _DEPARTURE_CAUSES.get(reason, "")


def _render_checkpoint_request(message: Message) -> str:
    cause = departure_cause_text(_text(message, "cause"))
    text = f"asking {render_details(message)} to save the state within {_text(message, 'seconds')}s"
    return f"{text} {cause} (checkpoint request {_text(message, 'request')})"


def _render_plan(message: Message) -> str:
    text = f"{_text(message, 'plan')}: {render_details(message)}"
    return f"{text} ({_text(message, 'message')})" if _text(message, "message") else text


def _render_executing_plan(message: Message) -> str:
    text = f"executing {_text(message, 'plan')}"
    return f"{text} ({_text(message, 'message')})" if _text(message, "message") else text


def _render_deadline(message: Message) -> str:
    text = f"not completed within {_text(message, 'limit')} of the start"
    return f"{text}: {render_details(message)}" if message.details else text


def _render_all_details(message: Message) -> str:
    return "; ".join(map(render, message.details))


TEMPLATES: Final[Mapping[str, str | Callable[[Message], str]]] = {
    MessageReason.JOB_ACCEPTED: "job accepted",
    MessageReason.STARTED_BY_OTHER_OPERATOR: "started by another operator",
    MessageReason.FINISHED_BY_OTHER_OPERATOR: "finished by another operator",
    MessageReason.REPORTED_BY_OTHER_OPERATOR: "{message}",
    MessageReason.NO_REPLICAS: "the job has no replicas",
    MessageReason.WAITING_FOR_REPLICAS: "{running} of {total} replicas are running; waiting for {details}",
    MessageReason.ALL_REPLICAS_RUNNING: "all replicas are running",
    MessageReason.SOME_REPLICAS_FINISHED: "{running} of {total} replicas are running, {finished} finished",
    MessageReason.RUNNING_WITH_FAILURES: "running with failed replicas: {details}",
    MessageReason.WAITING_FOR_MASTER: "the master is running and has not requested replicas yet",
    MessageReason.MEMBERS_RUNNING: "the master is running; running replicas: {details}",
    MessageReason.MEMBER_COUNT: _render_member_count,
    MessageReason.DEGRADED: "{details}",
    MessageReason.REPLICA: "{replica}",
    MessageReason.FAILED_CREATE: "cannot create {object}: {error}",
    MessageReason.NAME_CONFLICT: "{kind} {object} {problem}: delete it, or give this job another name",
    MessageReason.REPLICA_NOT_STARTING: "{replica}: {problem}",
    MessageReason.NODE_FAULTY: "node {node} {fault}",
    MessageReason.PODS_NOT_TERMINATING: "waiting for pods to terminate: {details}",
    MessageReason.BLOCKED_BY_FINALIZER: "{pod} (finalizer {finalizers})",
    MessageReason.BLOCKED_BY_NODE: "{pod} (node {node} has not confirmed the termination)",
    MessageReason.BLOCKED: "{pod} (reason unknown)",
    MessageReason.CONTAINER_NOT_CREATED: "{pod} on {node} cannot create container {container}: {problem}",
    MessageReason.REPLICA_EXITED: _render_replica_exit,
    MessageReason.REPLICA_KILLED: _render_replica_exit,
    MessageReason.REPLICA_OUT_OF_MEMORY: _render_replica_exit,
    MessageReason.REPLICA_NOT_STARTED: _render_replica_exit,
    MessageReason.REPLICA_FAILED: _render_replica_exit,
    MessageReason.REPLICA_LOST: "{replica} was lost: node {node} {fault}",
    MessageReason.REPLICA_DELETED: "{replica} was deleted",
    MessageReason.REPLICA_DISRUPTED: "{replica} {disruption}",
    MessageReason.RESTARTING: _render_restart,
    MessageReason.DISRUPTED_REPLACED: "{details}; replaced without counting a restart",
    MessageReason.RESTART_LIMIT_REACHED: _render_limit,
    MessageReason.JOB_RESTART_LIMIT_REACHED: _render_limit,
    MessageReason.PROGRAM_CANNOT_START: (
        "{details}; the program cannot start: it ended this way {count} times within 2s of its start"
    ),
    MessageReason.MASTER_IDLE: "the master has not requested replicas; restarting it",
    MessageReason.TRAINING_COMPLETED: "training completed",
    MessageReason.ALL_REPLICAS_SUCCEEDED: "all replicas succeeded",
    MessageReason.MASTER_DID_NOT_END: "all replicas succeeded, but the master did not end the job",
    MessageReason.END_REQUESTED: "{message}",
    MessageReason.REPLICAS_FAILED: "{details}",
    MessageReason.COMPLETE_POLICY_NOT_MET: (
        "all replicas have terminated without meeting the completePolicy: {details}"
    ),
    MessageReason.DEADLINE_EXCEEDED: _render_deadline,
    MessageReason.START_LIMIT_EXCEEDED: "not all replicas were running within {limit} (startLimit): {details}",
    MessageReason.TIME_LIMIT_EXCEEDED: "ran for {limit} (timeLimit)",
    MessageReason.WAITING_FOR_TERMINATION: _render_all_details,
    MessageReason.SUSPENDING: "deleting pods; timeLimit is paused",
    MessageReason.SUSPENDED: _render_suspended,
    MessageReason.RESUMED: "resumed",
    MessageReason.CHECKPOINT_REQUESTED: _render_checkpoint_request,
    MessageReason.CHECKPOINT_SAVED: "{details} saved the state within {seconds}s (checkpoint request {request})",
    MessageReason.WAITING_FOR_CHECKPOINT: "waiting for {details} to save the state",
    MessageReason.GROUPS_RESIZED: _render_resize,
    MessageReason.GROUP_RESIZED: "{group} from {before} to {after}",
    MessageReason.RESIZE_REJECTED: _render_all_details,
    MessageReason.GROUP_SIZE_FIXED: "{group} keeps size {size}, size {rejected} is rejected: {cause}",
    MessageReason.PLAN_STARTED: _render_plan,
    MessageReason.EXECUTING_PLAN: _render_executing_plan,
    MessageReason.SERVERS_LISTED: lambda message: f"{pluralize(_number(message, 'count'), 'parameter server')} listed",
    MessageReason.MEMBER_RESOURCES_CHANGED: "new {group} pods get {resources}",
    MessageReason.MEMBER_JOINS: "{member} joins at rank {rank}",
    MessageReason.MEMBER_LEAVES: "{member} leaves",
    MessageReason.MEMBER_MIGRATES: "{member} migrates to {replacement}",
    MessageReason.MEMBERS_REPLACED: "{details}",
    MessageReason.MEMBER_REPLACES: "{member} replaces {replaced}",
    MessageReason.REPLACEMENT_FAILED: "the replacement failed; the member to replace stays",
    MessageReason.PLAN_EDIT_IGNORED: "the edit has no effect: the phase is {phase}; create another plan",
    MessageReason.SPEC_WARNING: "{message}",
    MessageReason.INVALID_SPEC: "{message}",
    MessageReason.SPEC_REJECTED: "the job continues with the last accepted spec: {message}",
    MessageReason.FAILED_GRANT_ACCESS: "{message}",
    MessageReason.MASTER_ACCESS_MISSING: (
        "service account {account} of the master may not {missing}: run `kubectl create rolebinding {role}-{account} "
        "--namespace {namespace} --role {role} --serviceaccount {namespace}:{account}`, or name no account"
    ),
    MessageReason.EVENTS_SUPPRESSED: "further events with this reason are only counted",
    MessageReason.STATUS_PRUNED: "{message}",
    MessageReason.STATUS_REJECTED: "the API server rejects a status: {error}; {fix}",
}
"""A text with the parameters in braces, or a function where the text depends on them. `{details}` lists the details."""
