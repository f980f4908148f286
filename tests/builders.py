"""Builders that name only what matters to a test."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from pliant.model.framework import Framework, Rank
from pliant.model.job import (
    CleanPolicy,
    EndPolicy,
    Group,
    Job,
    JobKey,
    Owner,
    RestartPolicy,
    RestartRule,
    RestartScope,
)
from pliant.model.observed import Exit, ObservedPod, ObservedService, PodPhase, Seen
from pliant.model.rules import Rules
from pliant.model.state import EngineState

NOON = datetime(2026, 1, 1, 12, 0, tzinfo=UTC)
KEY = JobKey("default", "demo")
TEMPLATE: Mapping[str, Any] = {"spec": {"containers": [{"name": "trainer", "image": "train"}]}}


class PlainFramework(Framework):
    """A framework that says nothing but the rank's index."""

    name = "plain"

    def shared(self, job: Job) -> Mapping[str, str]:
        return {}

    def environment(self, job: Job, rank: Rank, container: str) -> Mapping[str, str]:
        return {"INDEX": str(rank.index)}


def make_group(
    name: str = "worker",
    size: int = 2,
    *,
    complete: EndPolicy = EndPolicy.ALL,
    fail: EndPolicy = EndPolicy.ANY,
    restart: RestartRule | None = None,
    **fields: Any,
) -> Group:
    return Group(
        name=name,
        size=size,
        template=TEMPLATE,
        complete_policy=complete,
        fail_policy=fail,
        restart=restart or RestartRule(),
        **fields,
    )


def restarting(
    scope: RestartScope = RestartScope.POD,
    limit: int | None = None,
    policy: RestartPolicy = RestartPolicy.ON_FAILURE,
) -> RestartRule:
    return RestartRule(policy=policy, scope=scope, limit=limit)


def make_job(
    *groups: Group,
    state: EngineState | None = None,
    complete: EndPolicy = EndPolicy.ALL,
    fail: EndPolicy = EndPolicy.ANY,
    clean: CleanPolicy = CleanPolicy.ALL,
    exit_codes: Iterable[int] = (),
    is_deleting: bool = False,
    **fields: Any,
) -> Job:
    return Job(
        key=KEY,
        owner=Owner(api_version="example.com/v1", kind="Training", name=KEY.name, uid="job-uid"),
        groups=groups or (make_group(),),
        complete_policy=complete,
        fail_policy=fail,
        clean=clean,
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
    is_leaving: bool = False,
    trouble: str = "",
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
        exit=Exit(code=code, container="trainer") if code is not None else None,
        is_leaving=is_leaving,
        trouble=trouble,
        **fields,
    )


def seeing(*pods: ObservedPod, services: Iterable[str] | None = None, rules: Rules | None = None) -> Seen:
    """Pods, each with its service unless said otherwise."""
    names = [pod.name for pod in pods] if services is None else services
    there = {name: ObservedService(name=name, uid=f"svc/{name}") for name in names}
    return Seen(pods=pods, services=there, rules=rules or Rules())
