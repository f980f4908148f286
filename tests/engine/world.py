"""A cluster small enough to reason about: it does what the engine asks, and its members do what a script says."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from pliant.engine.decide import decide
from pliant.model.actions import (
    Action,
    CreatePod,
    CreateService,
    Decision,
    DeletePod,
    DeleteService,
    EmitEvent,
)
from pliant.model.job import Job
from pliant.model.labels import ATTEMPT, INDEX, REPLICA
from pliant.model.observed import Exit, ObservedPod, ObservedService, PodPhase, Seen
from pliant.model.state import Phase
from tests.builders import NOON, PlainFramework

Ending = Callable[[ObservedPod], int]
"""The exit code a pod ends with."""


@dataclass
class World:
    """The cluster as the engine sees it, with the job's status stored as the API server would."""

    job: Job
    ending: Ending
    now: datetime = NOON
    pods: dict[str, ObservedPod] = field(default_factory=dict)
    services: dict[str, ObservedService] = field(default_factory=dict)
    phases: list[Phase] = field(default_factory=list)
    created: list[tuple[str, int]] = field(default_factory=list)
    """Every pod ever made: its name and attempt."""
    status_writes: int = 0
    serial: int = 0

    def seen(self, order: Callable[[list[ObservedPod]], list[ObservedPod]] = list) -> Seen:
        return Seen(pods=tuple(order([*self.pods.values()])), services=dict(self.services))

    def decide(self) -> Decision:
        return decide(self.job, self.seen(), PlainFramework(), self.now)

    def perform(self, decision: Decision, *, cut_after: int | None = None) -> None:
        """Carry out a decision as the shell does, or only its first writes when cut off."""
        writes: list[Callable[[], None]] = []
        if decision.intent is not None:
            intent = decision.intent
            writes.append(lambda: self._store(replace(self.job, state=intent.state)))
        else:
            writes += [lambda action=action: self._do(action) for action in decision.actions]  # type: ignore[misc]
            writes += [
                lambda status=status: self._store(replace(self.job, state=status.state))  # type: ignore[misc]
                for status in decision.statuses.values()
            ]
        for write in writes[:cut_after]:
            write()

    def _store(self, job: Job) -> None:
        assert job.state is not None
        self.job = job
        self.status_writes += 1
        if not self.phases or self.phases[-1] is not job.state.phase:
            self.phases.append(job.state.phase)

    def _do(self, action: Action) -> None:
        match action:
            case CreatePod(name=name, manifest=manifest):
                if name not in self.pods:  # creating twice is a harmless conflict
                    labels = manifest["metadata"]["labels"]
                    self._admit(name, labels[REPLICA], int(labels[INDEX]), int(labels[ATTEMPT]))
            case CreateService(name=name):
                self.serial += 1
                self.services.setdefault(name, ObservedService(name=name, uid=f"svc-{self.serial}"))
            case DeletePod(name=name, uid=uid):
                pod = self.pods.get(name)
                if pod is not None and pod.uid == uid:
                    self.pods[name] = replace(pod, is_leaving=True)
            case DeleteService(name=name, uid=uid):
                if name in self.services and self.services[name].uid == uid:
                    del self.services[name]
            case EmitEvent():
                pass

    def _admit(self, name: str, group: str, index: int, attempt: int) -> None:
        self.serial += 1
        self.pods[name] = ObservedPod(
            name=name, uid=f"pod-{self.serial}", group=group, index=index, attempt=attempt, phase=PodPhase.PENDING
        )
        self.created.append((name, attempt))

    def step(self, name: str) -> None:
        """Let one pod take its next step: scheduled, running, ended, gone."""
        pod = self.pods.get(name)
        if pod is None:
            return
        if pod.is_leaving:
            self._leave(pod)
        elif pod.phase is PodPhase.PENDING:
            self.pods[name] = replace(pod, phase=PodPhase.SCHEDULED, node="node-0")
        elif pod.phase is PodPhase.SCHEDULED:
            self.pods[name] = replace(pod, phase=PodPhase.RUNNING)
        elif pod.phase is PodPhase.RUNNING:
            self._end(pod)

    def _leave(self, pod: ObservedPod) -> None:
        """A running member told to go ends badly first, as processes do on SIGTERM; then its pod is gone."""
        if pod.phase is PodPhase.RUNNING:
            end = Exit(code=143, container="trainer")
            self.pods[pod.name] = replace(pod, phase=PodPhase.FAILED, exit=end, finished_at=self.now)
        else:
            del self.pods[pod.name]

    def remove_by_hand(self, name: str) -> None:
        """Somebody deletes a pod, as `kubectl delete pod` does."""
        self.pods[name] = replace(self.pods[name], is_leaving=True)

    def _end(self, pod: ObservedPod) -> None:
        code = self.ending(pod)
        if code < 0:
            return  # runs for ever
        phase = PodPhase.SUCCEEDED if code == 0 else PodPhase.FAILED
        end = Exit(code=code, container="trainer")
        self.pods[pod.name] = replace(pod, phase=phase, exit=end, finished_at=self.now)

    def pass_time(self, span: timedelta) -> None:
        self.now += span

    def settle(self, rounds: int = 400) -> None:
        """Decide and step until nothing changes any more."""
        for _ in range(rounds):
            decision = self.decide()
            before = (self.job.state, dict(self.pods), dict(self.services))
            self.perform(decision)
            for name in sorted(self.pods):
                self.step(name)
            if before == (self.job.state, self.pods, self.services):
                if decision.look_again is None:
                    return
                self.pass_time(decision.look_again)
        raise AssertionError(f"does not settle: {self.job.state}")
