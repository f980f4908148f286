"""What holds at every moment of every job, whatever is decided and wherever it is cut off."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

from pliant.engine.lifecycle.suspend import active_seconds
from pliant.engine.sizing import RESIZED_REASON, wanted_size, with_size_requests
from pliant.model.actions import CreatePod, CreateService, Decision, DeletePod, EmitEvent, PodDeletionReason
from pliant.model.departures import DepartureReason, parse_indexes
from pliant.model.job import CleanPodPolicy, ResizeMode, RestartScope
from pliant.model.labels import REPLICA_GROUP_LABEL, REPLICA_INDEX_LABEL, replica_pod_name
from pliant.model.messages import MessageReason
from pliant.model.observed import ObservedPod, PodPhase
from pliant.model.state import PHASE_TRANSITIONS, EngineState, JobPhase, RestartCause
from tests.builders import NOON, PlainFramework, decide_stored
from tests.engine.rulings import actions_of, event_of, intent_of, is_transition, stored_by, update_of, wait_of
from tests.engine.world import OVER, World, indexes_of

FOR_EVER = timedelta(days=1000)
AN_INSTANT = timedelta(microseconds=1)


def only_those_on_dead_nodes_are_hurried(world: World, decision: Decision) -> None:
    """What is leaving is left alone, unless nobody is there to see it off."""
    for action in actions_of(decision):
        if isinstance(action, DeletePod):
            pod = world.pods[action.name]
            fault = world.fault_under(pod)
            is_dead = fault is not None and fault.is_dead and world.now >= fault.since + world.rules.node_grace_period
            assert action.is_forced is is_dead
            assert is_dead or not pod.is_terminating


def nobody_is_made_where_somebody_is(world: World, decision: Decision) -> None:
    """Never two pods for one place."""
    made = [pod.name for pod in _newcomers(decision)]
    assert len(made) == len(set(made))
    assert not set(made) & set(world.pods)


def nobody_is_made_who_is_done(world: World, decision: Decision) -> None:
    """Whoever has done their work does it again only if started again since."""
    for group, index in _places(decision):
        name = replica_pod_name(world.job, group, index)
        assert name not in world.done or world.done[name] < world.attempt_of(group)


def generations_never_meet(world: World, decision: Decision) -> None:
    """Members of a new attempt of the group or the job come when all of the old one have gone."""
    groups = {group for group, _ in _places(decision)}
    if world.job.state is None or not groups:
        return
    for pod in world.pods.values():
        memory = world.job.state.group(pod.group)
        assert pod.attempt >= memory.job_min_attempt
        assert pod.group not in groups or pod.attempt >= memory.group_min_attempt


def what_has_ended_makes_nothing(world: World, decision: Decision) -> None:
    """A job whose end is decided creates nothing, and its end never changes."""
    state = world.job.state
    if state is None or (state.outcome is None and not state.phase.is_final):
        return
    assert not any(isinstance(action, CreatePod | CreateService) for action in actions_of(decision))
    assert not is_transition(decision)
    for after in _after(decision):
        assert after.outcome == state.outcome
        assert after.phase is state.phase or not state.phase.is_final


def what_is_suspended_makes_nothing(world: World, decision: Decision) -> None:
    """As soon as a job is to be suspended, nothing is created for it."""
    if world.job.is_suspended:
        assert not any(isinstance(action, CreatePod | CreateService) for action in actions_of(decision))


def sizes_stay_within_bounds(world: World, decision: Decision) -> None:
    """Nobody is made beyond the size acted upon, which is the one wanted last and within its bounds."""
    first = EngineState(phase=JobPhase.PENDING, started_at=NOON)
    memories = with_size_requests(world.job, world.wishes, world.job.state or first, world.now)
    for name, index in _places(decision):
        group, size = world.group(name), memories.group(name).applied_size
        assert size is not None
        assert index in indexes_of(world.group(name), memories.group(name))
        if group.resize_mode is not ResizeMode.FIXED:
            assert group.min_size <= size
            assert group.max_size is None or size <= group.max_size


def sizes_that_are_held_stay(world: World, decision: Decision) -> None:
    """Who cannot learn of another size keeps the first one, but for a rest: there nobody is who would have to."""
    before = world.job.state
    if before is None or before.phase is JobPhase.SUSPENDED:
        return
    for after in _after(decision):
        for group in world.job.groups:
            old = before.group(group.name).applied_size
            assert (
                old is None or group.resize_mode is not ResizeMode.FIXED or after.group(group.name).applied_size == old
            )


def resizes_are_free(world: World, decision: Decision) -> None:
    """Another size costs no restart; where members must be told of it, nobody goes on who was not."""
    before, after = world.job.state, next(_after(decision), None)
    if before is None or after is None or not _is_about(decision, RESIZED_REASON):
        return
    assert after.restart_count == before.restart_count
    assert all(
        after.group(name).restarts_without_disruptions == memory.restarts_without_disruptions
        for name, memory in before.groups.items()
    )
    moved = [
        each for each in world.job.groups if before.group(each.name).applied_size != after.group(each.name).applied_size
    ]
    if any(group.resize_mode is not ResizeMode.JOIN for group in moved):
        assert all(pod.attempt < after.group(pod.group).job_min_attempt for pod in world.pods.values())
        assert all(memory.replica_outcomes == {} for memory in after.groups.values())


def budgets_are_kept(world: World, decision: Decision) -> None:
    """A restart is charged only while the group that triggers it has something left to pay with."""
    before, after = world.job.state, next(_after(decision), None)
    if before is None or after is None or after.restart_count == before.restart_count:
        return
    limit = world.group(after.last_restarted_group).restart_rule.limit
    assert limit is None or after.group(after.last_restarted_group).restarts_without_disruptions <= limit
    if any(group.restart_rule.scope is RestartScope.ALL for group in world.job.groups[1:]):
        return  # then others may have been made to pay
    first = world.job.groups[0]
    assert (
        first.restart_rule.limit is None
        or after.group(first.name).restarts_without_disruptions <= first.restart_rule.limit
    )


def disruptions_are_free(world: World, decision: Decision) -> None:
    """Whoever was taken away by others is replaced without a charge and without a change of phase.

    Who serves all others takes them along: then all of them restart, without a charge.
    """
    before, after = world.job.state, next(_after(decision), None)
    if before is None or after is None or not _is_about(decision, "Disrupted"):
        return
    control = [group.name for group in world.job.groups if group.is_control]
    takes_all = any(after.group(name).attempt > before.group(name).attempt for name in control)
    assert after.phase is before.phase or (takes_all and after.phase is JobPhase.RESTARTING)
    assert after.restart_count == before.restart_count
    assert all(
        after.group(name).restarts_without_disruptions == memory.restarts_without_disruptions
        for name, memory in before.groups.items()
    )


def phases_move_legally(world: World, decision: Decision) -> None:
    """A phase leads only where it may lead."""
    before = world.job.state
    for after in _after(decision):
        assert before is None or after.phase is before.phase or after.phase in PHASE_TRANSITIONS[before.phase]


def members_are_announced_before_they_start(world: World, decision: Decision) -> None:
    """Services come before pods, so that peers find each other."""
    kinds = [type(action) for action in actions_of(decision) if isinstance(action, CreatePod | CreateService)]
    assert kinds == sorted(kinds, key=lambda kind: kind is CreatePod)
    names = {action.name for action in actions_of(decision) if isinstance(action, CreateService)}
    assert all(pod.name in names or pod.name in world.services for pod in _newcomers(decision))


def intents_stand_alone(world: World, decision: Decision) -> None:
    """Beside an intent there are only the events that tell of it, in the order of the timeline."""
    if is_transition(decision):
        events = [event for event in actions_of(decision) if isinstance(event, EmitEvent)]
        assert [each.reason for each in intent_of(decision).timeline[-len(events) :]] == [
            event.reason for event in events
        ]
        assert update_of(decision) is None


def nothing_learned_is_lost(world: World, decision: Decision) -> None:
    """Attempts and charges only grow, and the story stays short."""
    before = world.job.state
    for after in _after(decision):
        assert len(after.timeline) <= 24
        if before is None:
            continue
        assert after.restart_count >= before.restart_count
        for name in before.groups.keys() & after.groups.keys():
            assert after.group(name).attempt >= before.group(name).attempt
            assert after.group(name).restarts_without_disruptions >= before.group(name).restarts_without_disruptions


def nobody_is_remembered_who_is_gone(world: World, decision: Decision) -> None:
    """What is known of members is forgotten when their places are given up."""
    for name, memory in ((name, memory) for after in _after(decision) for name, memory in after.groups.items()):
        known = {*memory.replica_outcomes, *memory.index_min_attempts}
        assert known <= set(indexes_of(world.group(name), memory))


def only_what_was_seen_to_end_is_remembered(world: World, decision: Decision) -> None:
    """A member is given up for good only when its pod has ended, not because its node is away."""
    for after in _after(decision):
        for group, memory in after.groups.items():
            known = world.job.state.group(group).replica_outcomes if world.job.state else {}
            for index in memory.replica_outcomes.keys() - known.keys():
                assert world.pods[replica_pod_name(world.job, group, index)].phase in OVER


def the_clock_runs_true(world: World, decision: Decision) -> None:
    """What has run off stays the same whatever is decided, and nothing runs off while suspended."""
    for after in _after(decision):
        before = world.job.state
        assert before is None or active_seconds(after, world.now) == active_seconds(before, world.now)
        assert after.phase is not JobPhase.SUSPENDED or after.active_since is None


def every_second_is_accounted_for(world: World, decision: Decision) -> None:
    """The phases passed and the present one together took as long as the job has been known."""
    for after in _after(decision):
        assert after.phase_start is not None
        assert after.phase_start.phase is after.phase
        passed = (after.phase_start.since - after.started_at).total_seconds()
        assert abs(sum(after.phase_seconds.values()) - passed) < 1e-3


def failures_have_a_first_cause(world: World, decision: Decision) -> None:
    """Whenever members are restarted at a charge or bring the job down, one of them is named; few are kept."""
    before = world.job.state
    for after in _after(decision):
        assert len(after.failures) <= 8
        places = [(each.replica, each.attempt) for each in after.failures]
        assert len(set(places)) == len(places)
        if before is None or not is_transition(decision) or world.job.end_request is not None:
            continue
        is_failure = after.outcome is not None and after.outcome.phase in (JobPhase.FAILED, JobPhase.NODE_FAIL)
        if is_failure or after.restart_count > before.restart_count:
            assert after.root_cause is not None
            cause = (after.root_cause.replica, after.root_cause.attempt)
            # A member that cannot be started has not failed, but others may have waited for it.
            is_unstarted = after.root_cause.cause is RestartCause.CREATION and before.phase is not JobPhase.RUNNING
            assert cause in places or is_unstarted


def time_is_kept(world: World, decision: Decision) -> None:
    """No limit in time is ever passed over: when it is reached, the end is decided at the first look."""
    state = world.job.state
    if state is None or is_transition(decision) or state.outcome is not None or state.phase.is_final:
        return
    left = _time_left(world, state)
    assert left is None or left > timedelta(0) or world.job.is_deleting
    if left is not None:
        wait = wait_of(decision)
        assert wait is not None
        assert wait <= left


def no_wake_up_is_lost(world: World, decision: Decision) -> None:
    """When there is nothing to do, there is nothing to do until it is time to look again."""
    if _is_busy(decision):
        return  # what is written calls for the next look
    wait = wait_of(decision)
    assert wait is None or wait > timedelta(0)
    later = FOR_EVER if wait is None else wait - AN_INSTANT
    assert not _is_busy(world.decide(later)), f"there would have been something to do within {later}"


def the_order_of_pods_is_irrelevant(world: World, decision: Decision) -> None:
    """Caches tell pods in any order."""
    backwards = world.seen(lambda pods: pods[::-1])
    assert decide_stored(world.job, backwards, PlainFramework(), world.now) == decision


def departures_are_awaited(world: World, decision: Decision) -> None:
    """A replica that saves its state on request is not deleted by decision of the operator before it has done so."""
    for action in actions_of(decision):
        if not isinstance(action, DeletePod) or action.is_forced:
            continue
        pod = world.pods[action.name]
        outcome = world.job.state.outcome if world.job.state is not None else None
        is_decided = action.reason in (PodDeletionReason.REMOVED, PodDeletionReason.JOB_SUSPENDED)
        is_ordered = outcome is not None and outcome.message.reason == MessageReason.END_REQUESTED
        is_ordered = is_ordered and world.memory.phase is JobPhase.TERMINATING
        if not (is_decided or is_ordered) or not _can_answer(world, pod):
            continue
        departure = world.memory.departures.get(pod.uid)
        if departure is None and is_ordered:
            continue  # it could not answer when the end was decided
        assert departure is not None, "it was not asked"
        assert (pod.acknowledged_checkpoint or 0) >= departure.request or world.now >= departure.deadline


def who_serves_others_goes_last(world: World, decision: Decision) -> None:
    """As long as a replica may save its state, it can use what serves all of them."""
    able = {pod.uid for pod in world.pods.values() if _can_answer(world, pod)}
    state = world.job.state
    waiting = {
        uid
        for uid, each in (state.departures.items() if state is not None else ())
        if each.reason is not DepartureReason.NODE_DRAINING and world.now < each.deadline
        if uid in able and not _has_answered(world, uid, each.request)
    }
    control = {group.name for group in world.job.groups if group.is_control}
    for action in actions_of(decision) if waiting else ():
        if isinstance(action, DeletePod):
            assert action.is_forced or world.pods[action.name].group not in control


def _has_answered(world: World, uid: str, request: int) -> bool:
    return any((pod.acknowledged_checkpoint or 0) >= request for pod in world.pods.values() if pod.uid == uid)


def _can_answer(world: World, pod: ObservedPod) -> bool:
    fault = world.fault_under(pod)
    is_alive = pod.phase is PodPhase.RUNNING and not pod.is_terminating and not (fault is not None and fault.is_dead)
    return is_alive and pod.acknowledged_checkpoint is not None


def membership_is_published(world: World, decision: Decision) -> None:
    """Every change of the membership has a new generation; only replicas that run and stay are members."""
    before = world.job.state.membership if world.job.state else None
    for after in _after(decision):
        if after.membership is None:
            assert before is None
            continue
        if before is not None and after.membership != before:
            assert after.membership.generation == before.generation + 1
        leaving = {uid for uid, each in after.departures.items() if each.reason is DepartureReason.RESIZED}
        if after.phase is not JobPhase.RUNNING or after.membership == before:
            continue
        for group, ranges in after.membership.indexes.items():
            for index in parse_indexes(ranges):
                pod = world.pods[replica_pod_name(world.job, group, index)]
                assert pod.phase is PodPhase.RUNNING
                assert pod.uid not in leaving


LAWS = (
    departures_are_awaited,
    who_serves_others_goes_last,
    membership_is_published,
    only_those_on_dead_nodes_are_hurried,
    nobody_is_made_where_somebody_is,
    nobody_is_made_who_is_done,
    generations_never_meet,
    what_has_ended_makes_nothing,
    what_is_suspended_makes_nothing,
    sizes_stay_within_bounds,
    sizes_that_are_held_stay,
    resizes_are_free,
    budgets_are_kept,
    disruptions_are_free,
    phases_move_legally,
    members_are_announced_before_they_start,
    intents_stand_alone,
    nothing_learned_is_lost,
    nobody_is_remembered_who_is_gone,
    only_what_was_seen_to_end_is_remembered,
    the_clock_runs_true,
    every_second_is_accounted_for,
    failures_have_a_first_cause,
    time_is_kept,
    no_wake_up_is_lost,
    the_order_of_pods_is_irrelevant,
)


def check(world: World, decision: Decision) -> None:
    """Hold a decision, before it is carried out, against every law."""
    for law in LAWS:
        law(world, decision)


def check_at_rest(world: World) -> None:
    """What holds when nothing happens any more."""
    assert not _is_busy(world.decide())
    assert len(world.created) == len(set(world.created)), "made twice at the same attempt"
    if world.is_gone:
        return
    state = world.memory
    assert state.phase is not JobPhase.TERMINATING, "an end that never comes"
    must_clear = state.outcome is not None and state.outcome.must_delete_all
    clean = CleanPodPolicy.ALL if must_clear else world.job.clean_pod_policy
    if state.phase is JobPhase.SUSPENDED or (state.phase.is_final and clean is CleanPodPolicy.ALL):
        assert world.pods == {}
        assert world.services == {}
    elif state.phase.is_final and clean is CleanPodPolicy.RUNNING:
        assert all(pod.phase in OVER for pod in world.pods.values())
        assert set(world.services) <= set(world.pods)
    elif not state.phase.is_final:
        _check_places(world, state)
        _check_departures(world, state)


def _check_departures(world: World, state: EngineState) -> None:
    """Nobody is about to leave any more, but those whose node is being drained; whoever runs is a member."""
    pods = {pod.uid: pod for pod in world.pods.values()}
    for uid, departure in state.departures.items():
        assert departure.reason is DepartureReason.NODE_DRAINING
        assert pods[uid].node in world.draining
    if state.phase is not JobPhase.RUNNING or state.membership is None:
        return
    for group, ranges in state.membership.indexes.items():
        running = [pod for pod in pods.values() if pod.group == group and pod.phase is PodPhase.RUNNING]
        members = set(parse_indexes(ranges))
        assert members <= {pod.index for pod in running}
        assert members >= {pod.index for pod in running if world.fault_under(pod) is None}


def _check_places(world: World, state: EngineState) -> None:
    """Every place is taken by whoever is wanted there, and nobody else is left."""
    wanted: set[str] = set()
    for group in world.job.groups:
        memory = state.group(group.name)
        size = wanted_size(group, with_size_requests(world.job, world.wishes, state, world.now).group(group.name))
        assert memory.applied_size == size or (group.resize_mode is ResizeMode.FIXED and memory.rejected_size == size)
        assert memory.applied_size != size or memory.rejected_size is None, "nothing is refused that nobody asks for"
        assert memory.applied_size is not None
        for index in indexes_of(group, memory):
            name = replica_pod_name(world.job, group.name, index)
            wanted.add(name)
            assert name in world.pods or index in memory.replica_outcomes, f"nobody at {name}"
            pod = world.pods.get(name)
            assert pod is None or pod.attempt >= memory.min_attempt(index)
            assert pod is None or index in memory.replica_outcomes or not (pod.is_terminating or pod.disruption)
    assert set(world.pods) <= wanted
    assert set(world.services) == wanted


def _time_left(world: World, state: EngineState) -> timedelta | None:
    """Reckoned apart from the engine: what is left of the limit that applies."""
    job = world.job
    if state.phase is JobPhase.SUSPENDED:
        return None
    if state.active_since is None:
        since = world.now - (state.resumed_at or state.started_at)
        return None if job.start_limit is None else job.start_limit - since
    run = world.now - state.active_since + timedelta(seconds=state.active_seconds_before)
    return None if job.time_limit is None else job.time_limit - run


def _is_about(decision: Decision, reason: str) -> bool:
    return is_transition(decision) and event_of(decision).reason == reason


def _is_busy(decision: Decision) -> bool:
    return bool(stored_by(decision) or actions_of(decision))


def _after(decision: Decision) -> Iterator[EngineState]:
    if (state := stored_by(decision)) is not None:
        yield state


def _newcomers(decision: Decision) -> list[CreatePod]:
    return [action for action in actions_of(decision) if isinstance(action, CreatePod)]


def _places(decision: Decision) -> Iterator[tuple[str, int]]:
    for pod in _newcomers(decision):
        labels = pod.manifest["metadata"]["labels"]
        yield labels[REPLICA_GROUP_LABEL], int(labels[REPLICA_INDEX_LABEL])
