"""Builders that name only what matters to a test."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime
from typing import Any

from pliant.engine.decide import decide
from pliant.frontends.frontend import Frontend
from pliant.model.actions import Decision
from pliant.model.framework import Framework, Rank
from pliant.model.job import (
    CleanPodPolicy,
    EndPolicy,
    Job,
    JobKey,
    Owner,
    ReplicaGroup,
    RestartPolicy,
    RestartRule,
    RestartScope,
)
from pliant.model.messages import NO_MESSAGE, Message, MessageReason, message
from pliant.model.observed import Observed, ObservedPod, ObservedService, PodExit, PodPhase, ScaleRecommendation
from pliant.model.operator_config import OperatorConfig
from pliant.model.state import ClockOffset, EngineState

NOON = datetime(2026, 1, 1, 12, 0, tzinfo=UTC)
KEY = JobKey("default", "demo")
KEY_SECRET = b"shared by operators"
"""What operators of tests derive the keys of jobs from."""
TEMPLATE: Mapping[str, Any] = {"spec": {"containers": [{"name": "trainer", "image": "train"}]}}


class PlainFramework(Framework):
    """A framework that says nothing but the rank's index."""

    name = "plain"

    def shared_environment(self, job: Job) -> Mapping[str, str]:
        return {}

    def environment(self, job: Job, rank: Rank, container: str) -> Mapping[str, str]:
        return {"INDEX": str(rank.index)}


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredJob(Job):
    """A job with the state that the operator has stored for it."""

    state: EngineState | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen(Observed):
    """What is observed of a job, with the other inputs of a decision."""

    config: OperatorConfig = field(default_factory=OperatorConfig)
    recommendations: Mapping[str, ScaleRecommendation] = field(default_factory=dict)
    clock: ClockOffset | None = None


def decide_stored(job: StoredJob, seen: Observed, framework: Framework, now: datetime) -> Decision:
    """Decide about a job with its stored state."""
    if not isinstance(seen, Seen):
        return decide(job, job.state, seen, framework, now)
    return decide(
        job, job.state, seen, framework, now, config=seen.config, recommendations=seen.recommendations, clock=seen.clock
    )


def parse_stored(frontend: Frontend, raw: Mapping[str, Any]) -> StoredJob:
    """Read an object as the operator does: what is stored of it, and what it asks for."""
    state = frontend.load_state(raw)
    job = frontend.parse(raw, state)
    return StoredJob(**{each.name: getattr(job, each.name) for each in fields(Job)}, state=state)


def make_group(
    name: str = "worker",
    size: int = 2,
    *,
    complete: EndPolicy = EndPolicy.ALL,
    fail: EndPolicy = EndPolicy.ANY,
    restart: RestartRule | None = None,
    **fields: Any,
) -> ReplicaGroup:
    return ReplicaGroup(
        name=name,
        size=size,
        template=TEMPLATE,
        complete_policy=complete,
        fail_policy=fail,
        restart_rule=restart or RestartRule(),
        **fields,
    )


def restarting(
    scope: RestartScope = RestartScope.POD, limit: int | None = None, policy: RestartPolicy = RestartPolicy.ON_FAILURE
) -> RestartRule:
    return RestartRule(policy=policy, scope=scope, limit=limit)


def make_job(
    *groups: ReplicaGroup,
    state: EngineState | None = None,
    complete: EndPolicy = EndPolicy.ALL,
    fail: EndPolicy = EndPolicy.ANY,
    clean: CleanPodPolicy = CleanPodPolicy.ALL,
    exit_codes: Iterable[int] = (),
    is_deleting: bool = False,
    **fields: Any,
) -> StoredJob:
    return StoredJob(
        key=KEY,
        owner=Owner(api_version="example.com/v1", kind="Training", name=KEY.name, uid="job-uid"),
        groups=groups or (make_group(),),
        complete_policy=complete,
        fail_policy=fail,
        clean_pod_policy=clean,
        restart_exit_codes=frozenset(exit_codes),
        created_at=NOON,
        is_deleting=is_deleting,
        state=state,
        **fields,
    )


def make_pod(
    index: int = 0,
    phase: PodPhase = PodPhase.RUNNING,
    *,
    group: str = "worker",
    attempt: int = 0,
    code: int | None = None,
    is_terminating: bool = False,
    problem: str = "",
    **fields: Any,
) -> ObservedPod:
    name = f"{KEY.name}-{group}-{index}"
    return ObservedPod(
        name=name,
        uid=f"{name}/{attempt}",
        group=group,
        index=index,
        attempt=attempt,
        phase=phase,
        exit=PodExit(code=code, container="trainer") if code is not None else None,
        is_terminating=is_terminating,
        start_problem=problem,
        **fields,
    )


def seeing(*pods: ObservedPod, services: Iterable[str] | None = None, rules: OperatorConfig | None = None) -> Seen:
    """Pods, each with its service unless said otherwise."""
    names = [pod.name for pod in pods] if services is None else services
    there = {name: ObservedService(name=name, uid=f"svc/{name}") for name in names}
    return Seen(pods=pods, services=there, config=rules or OperatorConfig())


def saying(text: str) -> Message:
    """A message with any text."""
    return message(MessageReason.END_REQUESTED, message=text) if text else NO_MESSAGE
