"""A cluster small enough to reason about: it does what the engine asks, and its members do what a script says."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any, assert_never

from pliant.model.actions import (
    Action,
    AllowEviction,
    CheckMasterAccess,
    CreateConfigMap,
    CreateDisruptionBudget,
    CreatePod,
    CreateService,
    Decision,
    DeleteJob,
    DeletePod,
    DeleteScalePlan,
    DeleteService,
    EmitEvent,
    GrantMasterAccess,
    PersistTransition,
    PodDeletionReason,
    WriteMembershipFile,
)
from pliant.model.job import ReplicaGroup
from pliant.model.labels import ATTEMPT_LABEL, REPLICA_GROUP_LABEL, REPLICA_INDEX_LABEL, replica_pod_name
from pliant.model.observed import (
    NodeFault,
    Observed,
    ObservedPod,
    ObservedService,
    PodExit,
    PodPhase,
    ScaleRecommendation,
    StuckContainer,
)
from pliant.model.operator_config import OperatorConfig
from pliant.model.scale_plans import PlanPhase, PlanStatus, ScalePlan
from pliant.model.state import ClockOffset, EngineState, GroupState, JobPhase, SizeAdvice, SizeRequester
from tests.builders import NOON, PlainFramework, Seen, StoredJob, decide_stored

Ending = Callable[[ObservedPod], int]
"""The exit code a pod ends with; below zero it runs for ever."""
Obstacle = Callable[[ObservedPod], bool]
"""Whether the containers of a pod cannot be created."""
Check = Callable[["World", Decision], None]
"""Holds a decision, before it is carried out, against the world."""
NODES = ("n0", "n1", "n2")
OVER = (PodPhase.SUCCEEDED, PodPhase.FAILED)
ABLE_EVERY, PROMPT_EVERY = 3, 4
"""Of three replicas, two save their state on request; of four of these, three do so at once."""
BRIEF = OperatorConfig(container_creation_timeout=timedelta(seconds=20), creation_retry_window=timedelta(seconds=70))


def indexes_of(group: ReplicaGroup, memory: GroupState) -> Sequence[int]:
    """The indexes of the replicas of a group that the engine remembers."""
    return replace(group, size=memory.applied_size or 0, skipped_indexes=memory.skipped_indexes).indexes


@dataclass
class World:
    """The cluster as the engine sees it, with the job's status stored as the API server would."""

    job: StoredJob
    ending: Ending
    obstacle: Obstacle = lambda pod: False
    rules: OperatorConfig = BRIEF
    now: datetime = NOON
    pods: dict[str, ObservedPod] = field(default_factory=dict)
    services: dict[str, ObservedService] = field(default_factory=dict)
    faults: dict[str, NodeFault] = field(default_factory=dict)
    """What is wrong with nodes; a fault that is not deadly concerns workers only, who have the devices."""
    saves_state: bool = False
    """Whether some replicas save their state on request."""
    clock: ClockOffset | None = None
    """The offset of the clock that `now` is read from."""
    draining: set[str] = field(default_factory=set)
    """Nodes that are cordoned."""
    wishes: dict[str, ScaleRecommendation] = field(default_factory=dict)
    """What the autoscaler wants."""
    plans: dict[str, ScalePlan] = field(default_factory=dict)
    """What the job's master and people ask for."""
    granted: int = 0
    """How often the master was given access."""
    plan_phases: dict[str, list[PlanPhase]] = field(default_factory=dict)
    plan_words: dict[str, str] = field(default_factory=dict)
    """What was told of each plan last, though it may be gone."""
    phases: list[JobPhase] = field(default_factory=list)
    created: list[tuple[str, int]] = field(default_factory=list)
    """Every pod ever made: its name and attempt; those of members retired since are struck off."""
    done: dict[str, int] = field(default_factory=dict)
    """Members that have done their work, and the attempt of their group by then."""
    events: list[EmitEvent] = field(default_factory=list)
    is_gone: bool = False
    """Whether the job itself was taken away."""
    status_writes: int = 0
    serial: int = 0

    @property
    def memory(self) -> EngineState:
        """What the engine remembers."""
        assert self.job.state is not None
        return self.job.state

    def seen(self, order: Callable[[list[ObservedPod]], list[ObservedPod]] = list) -> Observed:
        pods = [
            replace(pod, node_fault=self.fault_under(pod), is_node_draining=pod.node in self.draining)
            for pod in self.pods.values()
        ]
        return Seen(
            pods=tuple(order(pods)),
            services=dict(self.services),
            config=self.rules,
            recommendations=dict(self.wishes),
            clock=self.clock,
            plans=tuple(sorted(self.plans.values(), key=lambda plan: (plan.created_at, plan.uid))),
        )

    def fault_under(self, pod: ObservedPod) -> NodeFault | None:
        """What is wrong with the node of a pod, as far as it concerns this pod."""
        fault = self.faults.get(pod.node)
        return fault if fault is not None and (fault.is_dead or pod.group == "worker") else None

    def decide(self, later: timedelta = timedelta(0)) -> Decision:
        return decide_stored(self.job, self.seen(), PlainFramework(), self.now + later)

    def perform(self, decision: Decision, *, cut_after: int | None = None) -> None:
        """Carry out a decision as the shell does, or only its first writes when cut off."""
        writes: list[Callable[[], None]] = []
        if isinstance(decision, PersistTransition):
            writes.append(lambda: self._store(decision.status.state))
            writes += [lambda event=event: self._do(event) for event in decision.events]  # type: ignore[misc]
        else:
            writes += [lambda action=action: self._do(action) for action in decision.actions]  # type: ignore[misc]
            writes += [lambda told=told: self._tell(*told) for told in decision.plan_statuses.items()]  # type: ignore[misc]
            if (status := decision.status) is not None:
                writes.append(lambda: self._store(status.state))
        for write in writes[:cut_after]:
            write()

    def _store(self, state: EngineState) -> None:
        self._note_retired(self.job.state, state)
        self.job = replace(self.job, state=state)
        self.status_writes += 1
        if not self.phases or self.phases[-1] is not state.phase:
            self.phases.append(state.phase)

    def _tell(self, name: str, news: PlanStatus) -> None:
        if name in self.plans:
            ended = news.at if news.phase.is_final else None
            self.plans[name] = replace(
                self.plans[name], phase=news.phase, status_message=news.message, finished_at=ended
            )
            self.plan_phases.setdefault(name, []).append(news.phase)
            self.plan_words[name] = news.message

    def _note_retired(self, before: EngineState | None, after: EngineState) -> None:
        for group in self.job.groups:
            old = indexes_of(group, before.group(group.name)) if before else ()
            for index in set(old) - set(indexes_of(group, after.group(group.name))):
                self._strike_off(replica_pod_name(self.job, group.name, index))

    def _strike_off(self, name: str) -> None:
        """Whoever fills a place that was given up is a new member, whose attempts are counted afresh."""
        self.created = [made for made in self.created if made[0] != name]
        self.done.pop(name, None)

    def _do(self, action: Action) -> None:  # noqa: C901 - one branch for each kind of action
        match action:
            case CreatePod(name=name, manifest=manifest):
                if name not in self.pods:  # creating twice is a harmless conflict
                    labels = manifest["metadata"]["labels"]
                    self._admit(
                        name, labels[REPLICA_GROUP_LABEL], int(labels[REPLICA_INDEX_LABEL]), int(labels[ATTEMPT_LABEL])
                    )
                    self.pods[name] = replace(self.pods[name], rank=int(labels.get("rank", -1)))
            case CreateService(name=name):
                self.serial += 1
                self.services.setdefault(name, ObservedService(name=name, uid=f"svc-{self.serial}"))
            case CreateConfigMap() | WriteMembershipFile() | CreateDisruptionBudget() | AllowEviction():
                pass  # nobody here reads files or drains nodes
            case DeletePod(name=name, uid=uid, is_forced=is_forced):
                if name in self.pods and self.pods[name].uid == uid:
                    if action.reason is PodDeletionReason.REMOVED:
                        self._strike_off(name)
                    self._let_go(self.pods[name], at_once=is_forced)
            case DeleteService(name=name, uid=uid):
                if name in self.services and self.services[name].uid == uid:
                    del self.services[name]
            case GrantMasterAccess() | CheckMasterAccess():
                self.granted += 1
            case DeleteScalePlan(name=name, uid=uid):
                if name in self.plans and self.plans[name].uid == uid:
                    del self.plans[name]
            case DeleteJob():
                self.is_gone = True
                self.job = replace(self.job, is_deleting=True)
            case EmitEvent():
                self.events.append(action)
            case _:
                assert_never(action)

    def _admit(self, name: str, group: str, index: int, attempt: int) -> None:
        self.serial += 1
        self.pods[name] = ObservedPod(
            name=name, uid=f"pod-{self.serial}", group=group, index=index, attempt=attempt, phase=PodPhase.PENDING
        )
        self.created.append((name, attempt))

    def _let_go(self, pod: ObservedPod, *, at_once: bool = False) -> None:
        """Who has no node, or has ended, goes at once, as on a real server."""
        if at_once or not pod.node or pod.phase in OVER:
            del self.pods[pod.name]
        else:
            self.pods[pod.name] = replace(pod, is_terminating=True)

    # What pods do.

    def step(self, name: str) -> None:
        """Let one pod take its next step: scheduled, running, ended, gone. On a dead node none is taken."""
        pod = self.pods.get(name)
        if pod is None or ((fault := self.faults.get(pod.node)) is not None and fault.is_dead):
            return
        if pod.is_terminating:
            self._leave(pod)
        elif pod.phase is PodPhase.PENDING:
            self._schedule(pod)
        elif pod.phase is PodPhase.SCHEDULED:
            self._start(pod)
        elif pod.phase is PodPhase.RUNNING and not self._save_state(pod):
            self._end(pod)

    def _schedule(self, pod: ObservedPod) -> None:
        alive = [node for node in NODES if node not in self.faults or not self.faults[node].is_dead]
        if alive:
            node = alive[(pod.index + pod.attempt) % len(alive)]
            self.pods[pod.name] = replace(pod, phase=PodPhase.SCHEDULED, node=node)

    def _start(self, pod: ObservedPod) -> None:
        if not self.obstacle(pod):
            able = 0 if self.saves_state and (pod.index + pod.attempt) % ABLE_EVERY else None
            self.pods[pod.name] = replace(
                pod,
                phase=PodPhase.RUNNING,
                stuck_container=None,
                start_problem="",
                started_at=self.now if self.saves_state else None,
                acknowledged_checkpoint=able,
            )
        elif pod.stuck_container is None:
            stuck = StuckContainer(container="trainer", reason="ErrImagePull", since=self.now)
            self.pods[pod.name] = replace(pod, stuck_container=stuck, start_problem="ErrImagePull")

    def _save_state(self, pod: ObservedPod) -> bool:
        """Let a replica answer a checkpoint request, if it is asked and does not ignore it."""
        departure = self.job.state.departures.get(pod.uid) if self.job.state else None
        known = pod.acknowledged_checkpoint
        is_asked = departure is not None and known is not None and departure.request > known
        if departure is None or not is_asked or not int(pod.uid.removeprefix("pod-")) % PROMPT_EVERY:
            return False
        self.pods[pod.name] = replace(pod, acknowledged_checkpoint=departure.request)
        return True

    def _leave(self, pod: ObservedPod) -> None:
        """A running member told to go ends badly first, as processes do on SIGTERM; then its pod is gone."""
        if pod.phase is PodPhase.RUNNING:
            end = PodExit(code=143, container="trainer")
            self.pods[pod.name] = replace(pod, phase=PodPhase.FAILED, exit=end, finished_at=self.now)
        else:
            del self.pods[pod.name]

    def _end(self, pod: ObservedPod) -> None:
        code = self.ending(pod)
        if code < 0:
            return  # runs for ever
        phase = PodPhase.SUCCEEDED if code == 0 else PodPhase.FAILED
        end = PodExit(code=code, container="trainer")
        self.pods[pod.name] = replace(pod, phase=phase, exit=end, finished_at=self.now)
        if code == 0 and self._is_wanted(pod):
            self.done[pod.name] = self.attempt_of(pod.group)

    def _is_wanted(self, pod: ObservedPod) -> bool:
        """Whether a pod stands at a place that has not been given up, and is not to be restarted."""
        if self.job.state is None:
            return True
        memory = self.memory.group(pod.group)
        return pod.index in indexes_of(self.group(pod.group), memory) and pod.attempt >= memory.min_attempt(pod.index)

    def attempt_of(self, group: str) -> int:
        """How often members of a group have started again, some or all."""
        return self.memory.group(group).attempt if self.job.state else 0

    # What people and the cluster do.

    def edit(self, **changes: Any) -> None:
        """Somebody edits the job."""
        self.job = replace(self.job, **changes)

    def suspend(self) -> None:
        self.edit(is_suspended=True)

    def resume(self) -> None:
        self.edit(is_suspended=False)

    def edit_group(self, name: str, **changes: Any) -> None:
        groups = [replace(each, **changes) if each.name == name else each for each in self.job.groups]
        self.edit(groups=tuple(groups))

    def resize(self, name: str, *, spec: int | None = None, scale: int | None = None) -> None:
        """Somebody asks for a size, in one of two ways."""
        asked = {SizeRequester.SPEC: spec, SizeRequester.SCALE: scale}
        new = {who: size for who, size in asked.items() if size is not None}
        self.edit_group(name, requested_sizes={**self.group(name).requested_sizes, **new})

    def wish(self, name: str, size: int, *, is_order: bool) -> None:
        """The autoscaler thinks of another size, and has it taken on or only told."""
        advice = SizeAdvice(size=size, reason="Fits", message="room for it", at=self.now)
        self.wishes[name] = ScaleRecommendation(advice=advice, should_apply=is_order, observed_at=self.now)

    def group(self, name: str) -> ReplicaGroup:
        group = self.job.group(name)
        assert group is not None
        return group

    def remove_by_hand(self, name: str) -> None:
        """Somebody deletes a pod, as `kubectl delete pod` does; who did not see it go makes it again as it was."""
        pod = self.pods[name]
        self._let_go(pod)
        if (name, pod.attempt) in self.created:
            self.created.remove((name, pod.attempt))

    def evict(self, name: str) -> None:
        """The node ends a pod for reasons of its own."""
        pod = replace(self.pods[name], phase=PodPhase.FAILED, disruption="was evicted", finished_at=self.now)
        self.pods[name] = pod

    def break_node(self, node: str, *, is_dead: bool) -> None:
        what = "is not ready" if is_dead else "has a device fault"
        self.faults.setdefault(node, NodeFault(description=what, since=self.now, is_dead=is_dead))

    def pass_time(self, span: timedelta) -> None:
        self.now += span

    def jump(self, span: timedelta) -> None:
        """Set the clock, with which all that was observed is told."""
        assert self.clock is not None
        self.now += span
        self.clock = ClockOffset(boot_id=self.clock.boot_id, seconds=self.clock.seconds + span.total_seconds())
        self.faults = {node: replace(fault, since=fault.since + span) for node, fault in self.faults.items()}
        self.pods = {name: _moved(pod, span) for name, pod in self.pods.items()}

    def forget(self) -> None:
        """Somebody deletes the status of the job, and with it all that the engine remembers."""
        self.edit(state=None)
        self.created.clear()
        self.done.clear()

    def settle(self, rounds: int = 400, until: JobPhase | None = None, check: Check | None = None) -> None:
        """Decide and step until nothing changes any more."""
        for _ in range(rounds):
            decision = self.decide()
            if check is not None:
                check(self, decision)
            before = (self.job.state, dict(self.pods), dict(self.services), dict(self.plans), self.is_gone)
            self.perform(decision)
            if until is not None and self.job.state is not None and self.job.state.phase is until:
                return
            for name in sorted(self.pods):
                self.step(name)
            if before == (self.job.state, self.pods, self.services, self.plans, self.is_gone):
                if isinstance(decision, PersistTransition) or decision.requeue_after is None:
                    return
                self.pass_time(decision.requeue_after)
        raise AssertionError(f"does not settle: {self.job.state}")

    def settle_until(self, phase: JobPhase) -> None:
        """Decide and step until the job is in a phase."""
        self.settle(until=phase)


def _moved(pod: ObservedPod, span: timedelta) -> ObservedPod:
    started = pod.started_at + span if pod.started_at is not None else None
    finished = pod.finished_at + span if pod.finished_at is not None else None
    return replace(pod, started_at=started, finished_at=finished)
