"""Departures: before a running replica is deleted, it is asked to save its state, and given time to do so.

The transition that leads to the deletion records the departure. The pod is deleted when the replica has acknowledged
the request, or when the deadline has passed. Only replicas that announced that they acknowledge requests are asked.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime, timedelta

from msgspec.structs import replace

from pliant.engine.context import Context, Transition, make_transition, with_timeline_entry
from pliant.engine.plans.execution import SCALING_REASON
from pliant.engine.sizing import RESIZED_REASON
from pliant.model.actions import Action, DeletePod, DeleteService, PodDeletionReason
from pliant.model.departures import KEPT_REASONS, Departure, DepartureReason
from pliant.model.labels import normalize_group_name
from pliant.model.messages import Message, MessageReason, message
from pliant.model.observed import Observed, ObservedPod, PodPhase
from pliant.model.state import EngineState

MAX_COUNTED_REQUEST = 10**9
"""Requests of a job are far fewer; users can write any number into the annotation of an acknowledgement."""
CHECKPOINT_REQUESTED_REASON, CHECKPOINT_ENDED_REASON = "CheckpointRequested", "CheckpointEnded"


def sync_departures(state: EngineState, observed: Observed, now: datetime) -> EngineState:
    """Return the state without the departures of pods that are gone, and with new acknowledgements."""
    if not state.departures:
        return state
    pods = {pod.uid: pod for pod in observed.pods}
    departures = {
        uid: _with_acknowledgement(departure, pods[uid], now)
        for uid, departure in state.departures.items()
        if uid in pods and _is_still_wanted(departure, pods[uid])
    }
    return state if departures == state.departures else replace(state, departures=departures)


def record_departures(context: Context, transition: Transition, deletions: Iterable[DeletePod]) -> EngineState:
    """Return the state of the transition with the departures of the replicas that it is going to delete.

    A departure whose pod is no longer going to be deleted is dropped: the group was resized again, for example.
    """
    state = _with_departures(context, transition.state, list(deletions), transition)
    if state.checkpoint_requests == transition.state.checkpoint_requests:
        return state
    return with_timeline_entry(state, context.now, CHECKPOINT_REQUESTED_REASON, requested_message(state))


def request_checkpoints(context: Context, deletions: Iterable[DeletePod]) -> Transition | None:
    """Return the transition that records departures which no other transition has recorded; None if there are none."""
    state = _with_departures(context, context.state, list(deletions), None)
    if state.checkpoint_requests == context.state.checkpoint_requests:
        return None
    requested = requested_message(state)
    return make_transition(state, context.now, CHECKPOINT_REQUESTED_REASON, requested, is_warning=False)


def request_drain_checkpoints(context: Context) -> Transition | None:
    """Ask the replicas on nodes that are being drained to save their state early; nothing is deleted."""
    state, now = context.state, context.now
    pods = [pod for pod in context.observed.pods if pod.is_node_draining and can_acknowledge(pod)]
    draining = [pod for pod in pods if pod.uid not in state.departures]
    if not draining:
        return None
    reasons = dict.fromkeys((pod.uid for pod in draining), DepartureReason.NODE_DRAINING)
    after = _with_request(context, state, draining, reasons)
    return make_transition(after, now, CHECKPOINT_REQUESTED_REASON, requested_message(after), is_warning=False)


def hold_departures(context: Context, actions: Iterable[Action]) -> tuple[Action, ...]:
    """Return the actions without the deletions of pods whose replicas may still save their state.

    As long as one of these needs to reach the others, services and the pods of control groups stay.
    """
    held = {
        uid
        for uid, departure in context.state.departures.items()
        if departure.reason not in KEPT_REASONS and is_open(departure, context.now)
    }
    running = {pod.uid for pod in context.observed.pods if can_acknowledge(pod)}
    held &= running
    if not held:
        return tuple(actions)
    control = {normalize_group_name(group.name) for group in context.job.groups if group.is_control}
    held |= {pod.uid for pod in context.observed.pods if pod.group in control}
    return tuple(
        action
        for action in actions
        if not isinstance(action, DeleteService)
        and not (isinstance(action, DeletePod) and action.uid in held and not action.is_forced)
    )


def is_open(departure: Departure, now: datetime) -> bool:
    """Return whether the replica may still save its state."""
    return departure.acknowledged_at is None and now < departure.deadline


def can_acknowledge(pod: ObservedPod) -> bool:
    """Return whether the pod runs a replica that acknowledges checkpoint requests."""
    is_dead = pod.node_fault is not None and pod.node_fault.is_dead
    is_running = pod.phase is PodPhase.RUNNING and not pod.is_terminating and not is_dead
    return is_running and pod.acknowledged_checkpoint is not None


def time_to_departure_deadline(context: Context) -> timedelta | None:
    """Return the time until the next deadline of an open departure."""
    now = context.now
    return min((each.deadline - now for each in context.state.departures.values() if is_open(each, now)), default=None)


def requested_message(state: EngineState) -> Message:
    """Return the message about the latest checkpoint request."""
    latest = [each for each in state.departures.values() if each.request == state.checkpoint_requests]
    replicas = sorted(latest, key=lambda each: (each.group, each.index))
    return message(
        MessageReason.CHECKPOINT_REQUESTED,
        (message(MessageReason.REPLICA, replica=f"{each.group}-{each.index}") for each in replicas),
        request=state.checkpoint_requests,
        seconds=round(max((each.deadline - each.at for each in latest), default=timedelta(0)).total_seconds()),
        cause=str(latest[0].reason) if latest else None,
    )


def waiting_message(context: Context) -> Message | None:
    """Return the message about replicas that are about to be deleted and may still save their state."""
    open_ones = [
        each
        for each in context.state.departures.values()
        if each.reason not in KEPT_REASONS and is_open(each, context.now)
    ]
    if not open_ones:
        return None
    replicas = sorted(open_ones, key=lambda each: (each.group, each.index))
    names = (message(MessageReason.REPLICA, replica=f"{each.group}-{each.index}") for each in replicas)
    return message(MessageReason.WAITING_FOR_CHECKPOINT, names)


def with_checkpoint_results(before: EngineState | None, state: EngineState, now: datetime) -> EngineState:
    """Return the state with a timeline entry for each checkpoint request that has just ended."""
    stored = before.departures if before is not None else {}
    for request in sorted({each.request for each in stored.values()}):
        left = [each for each in state.departures.values() if each.request == request]
        was_open = any(each.request == request and each.acknowledged_at is None for each in stored.values())
        if was_open and left and all(each.acknowledged_at is not None for each in left):
            state = with_timeline_entry(state, now, CHECKPOINT_ENDED_REASON, _saved_message(left))
    return state


def _saved_message(departures: list[Departure]) -> Message:
    replicas = sorted(departures, key=lambda each: (each.group, each.index))
    slowest = max((each.acknowledged_at or each.at) - each.at for each in departures)
    return message(
        MessageReason.CHECKPOINT_SAVED,
        (message(MessageReason.REPLICA, replica=f"{each.group}-{each.index}") for each in replicas),
        request=departures[0].request,
        seconds=f"{slowest.total_seconds():.1f}",
    )


def _is_still_wanted(departure: Departure, pod: ObservedPod) -> bool:
    return departure.reason is not DepartureReason.NODE_DRAINING or pod.is_node_draining


def _with_acknowledgement(departure: Departure, pod: ObservedPod, now: datetime) -> Departure:
    is_acknowledged = pod.acknowledged_checkpoint is not None and pod.acknowledged_checkpoint >= departure.request
    if departure.acknowledged_at is not None or not is_acknowledged:
        return departure
    return replace(departure, acknowledged_at=now)


def _with_departures(
    context: Context, state: EngineState, deletions: list[DeletePod], transition: Transition | None
) -> EngineState:
    pods = {pod.uid: pod for pod in context.observed.pods}
    deleted = {deletion.uid for deletion in deletions}
    kept = {
        uid: departure
        for uid, departure in state.departures.items()
        if departure.reason in KEPT_REASONS or uid in deleted
    }
    reasons = dict(_new_departures(context, state, deletions, transition))
    state = replace(state, departures=kept) if kept != state.departures else state
    leaving = [pods[uid] for uid in reasons if uid in pods]
    return _with_request(context, state, leaving, reasons) if leaving else state


def _new_departures(
    context: Context, state: EngineState, deletions: Iterable[DeletePod], transition: Transition | None
) -> Iterator[tuple[str, DepartureReason]]:
    recorded = {uid for uid, departure in state.departures.items() if departure.reason not in KEPT_REASONS}
    askable = {pod.uid for pod in context.observed.pods if can_acknowledge(pod)} - recorded
    for deletion in deletions:
        reason = _departure_reason(context, state, deletion, transition)
        if reason is not None and deletion.uid in askable and not deletion.is_forced:
            yield deletion.uid, reason


def _departure_reason(
    context: Context, state: EngineState, deletion: DeletePod, transition: Transition | None
) -> DepartureReason | None:
    """Return why a replica is about to be deleted by decision of the operator; None if a failure is the cause."""
    cause, subject = ("", "") if transition is None else (transition.reason, transition.message.reason)
    match deletion.reason:
        case PodDeletionReason.JOB_SUSPENDED:
            return DepartureReason.SUSPENDED
        case PodDeletionReason.REMOVED:
            is_migration = (cause, subject) == (SCALING_REASON, MessageReason.MEMBERS_REPLACED)
            return DepartureReason.REPLACED if is_migration else DepartureReason.RESIZED
        case PodDeletionReason.REPLACED:
            return DepartureReason.RESIZED if cause == RESIZED_REASON else None
        case PodDeletionReason.JOB_ENDED:
            is_requested = context.job.end_request is not None and state.outcome is not None
            return DepartureReason.PREEMPTED if is_requested else None
        case PodDeletionReason.NODE_LOST | PodDeletionReason.RESCHEDULED:
            return None


def _with_request(
    context: Context, state: EngineState, pods: Iterable[ObservedPod], reasons: Mapping[str, DepartureReason]
) -> EngineState:
    """Return the state with one more checkpoint request, to these replicas."""
    asked, now = list(pods), context.now
    request = max(state.checkpoint_requests, *map(_last_request_of, asked)) + 1
    requested = {
        pod.uid: Departure(
            request=request,
            reason=reasons[pod.uid],
            group=pod.group,
            index=pod.index,
            at=now,
            deadline=now + context.spec.effective_checkpoint_grace,
        )
        for pod in asked
    }
    return replace(state, departures={**state.departures, **requested}, checkpoint_requests=request)


def _last_request_of(pod: ObservedPod) -> int:
    """Return the latest request that a replica has acknowledged: it was counted in a status that is lost.

    A larger number cannot be that of a request. Its replica is not waited for.
    """
    acknowledged = pod.acknowledged_checkpoint or 0
    return acknowledged if acknowledged <= MAX_COUNTED_REQUEST else 0
