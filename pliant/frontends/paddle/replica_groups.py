"""The groups of a job: how many of each role there are, what may change, and what becomes of those that fail."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pliant.errors import InvalidSpec
from pliant.frontends.paddle.environment import require_trainer
from pliant.frontends.paddle.lenient_decoding import parse_count
from pliant.frontends.paddle.pod_templates import MASTER, PSERVER, TRAINER, PaddleJobContext, build_pod_template
from pliant.frontends.paddle.types import MAX_REPLICAS, PaddleRoleSpec, PaddleTrainerSpec
from pliant.frontends.spec.pod_templates import hash_template
from pliant.model.job import EndPolicy, Port, ReplicaGroup, ResizeMode, RestartPolicy, RestartRule, RestartScope
from pliant.model.state import EngineState, SizeRequester

MIN_TRAINER_RESTART_LIMIT = 3
"""Restarts of trainers that come and go, where they are fewer than that."""
MIN_SERVER_RESTART_LIMIT = 5
_PERCENTAGE_PATTERN = re.compile(r"([0-9]{1,6})\s*%")
_NOT_FAULT_TOLERANT_REASON = (
    "fault_tolerant is false: the trainers' number is fixed at the start; take it away, or set it to true"
)
_FIXED_SIZE_REASON = "min-instance and max-instance leave it no room; raise max-instance of trainers above min-instance"
_FIXED_SERVERS_REASON = "the number of servers is fixed at the start: parameters are spread over them"


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainerBounds:
    """Between which sizes trainers move."""

    min_size: int
    max_size: int
    warnings: tuple[str, ...] = ()

    @property
    def is_elastic(self) -> bool:
        """Whether there is room between them."""
        return self.min_size < self.max_size


def trainer_bounds(context: PaddleJobContext) -> TrainerBounds:
    """The bounds of the trainers: one at least, and what contradicts itself stays at the lower bound."""
    trainer = require_trainer(context.spec)
    least, most = trainer.min_instance, trainer.max_instance
    if is_local_job(context):
        return TrainerBounds(min_size=1, max_size=1)
    if least > most > 0:
        said = f"spec.trainer.min-instance ({least}) is above max-instance ({most})"
        return TrainerBounds(
            min_size=least, max_size=least, warnings=(f"{said}: there are {least} trainers, and no more",)
        )
    return TrainerBounds(min_size=max(least, 1), max_size=max(least, most, 1))


def is_local_job(context: PaddleJobContext) -> bool:
    """Whether one trainer is all there is."""
    return context.spec.local_job or context.spec.frame_work.get("type") == "local"


def server_count(context: PaddleJobContext) -> int:
    """How many parameter servers there are."""
    is_nccl = context.spec.is_nccl or context.spec.frame_work.get("type") in ("nccl", "nccl2")
    if is_nccl or is_local_job(context) or context.spec.pserver is None:
        return 0
    return context.spec.pserver.min_instance


def build_groups(context: PaddleJobContext, state: EngineState | None) -> tuple[ReplicaGroup, ...]:
    """The groups, those first that others need; raises InvalidSpec for what cannot be made."""
    groups = tuple(_iter_groups(context, state))
    if (number := sum(max(group.size, group.max_size or 0) for group in groups)) > MAX_REPLICAS:
        problem = f"the job may have {number} members together, at most {MAX_REPLICAS} are possible"
        raise InvalidSpec("spec.trainer.max-instance", problem)
    return groups


def _iter_groups(context: PaddleJobContext, state: EngineState | None) -> Iterator[ReplicaGroup]:
    job, servers = context.job_name, server_count(context)
    if context.spec.fault_tolerant and (context.uses_image_discovery or _has_master_entrypoint(context)):
        yield _server_group(context, MASTER, context.spec.master or PaddleRoleSpec(), 1)
    if servers:
        yield _server_group(context, PSERVER, context.spec.pserver or PaddleRoleSpec(), servers)
    bounds, trainer = trainer_bounds(context), require_trainer(context.spec)
    asked = trainer.instances if bounds.is_elastic else None
    resize, hold = _resize_mode(context, bounds)
    memory = state.group(TRAINER).applied_size if state else None
    yield ReplicaGroup(
        name=TRAINER,
        size=min(max(bounds.min_size, asked or 0), bounds.max_size),
        min_size=bounds.min_size,
        max_size=bounds.max_size,
        is_elastic=bounds.is_elastic,
        is_autoscaled=bounds.is_elastic,
        resize_mode=resize,
        fixed_size_reason=hold,
        requested_sizes={} if asked is None else {SizeRequester.SCALE: asked},
        restart_rule=_trainer_restart_rule(trainer, bounds, memory or bounds.min_size, _is_server_based(context)),
        labels={"paddle-job": job},
        **_template_fields(context, TRAINER, trainer),
    )


def _has_master_entrypoint(context: PaddleJobContext) -> bool:
    return context.spec.master is not None and bool(context.spec.master.entrypoint)


def _resize_mode(context: PaddleJobContext, bounds: TrainerBounds) -> tuple[ResizeMode, str]:
    if not bounds.is_elastic:
        return ResizeMode.FIXED, _FIXED_SIZE_REASON
    if context.spec.fault_tolerant is False:
        return ResizeMode.FIXED, _NOT_FAULT_TOLERANT_REASON
    return ResizeMode.JOIN if _is_server_based(context) else ResizeMode.RESTART, ""


def _is_server_based(context: PaddleJobContext) -> bool:
    """Whether trainers find all they need at others than trainers; else they wait for each other at every step."""
    return bool(server_count(context)) or bool(context.spec.fault_tolerant)


def _server_group(context: PaddleJobContext, role_name: str, role: PaddleRoleSpec, size: int) -> ReplicaGroup:
    """Those who serve trainers: never asked how the job went, let go at its end."""
    limit = _parse_restart_limit(role.restart_limit, f"spec.{role_name}.restart_limit", size)
    return ReplicaGroup(
        name=role_name,
        size=size,
        min_size=size,
        max_size=size,
        resize_mode=ResizeMode.FIXED,
        fixed_size_reason=_FIXED_SERVERS_REASON,
        complete_policy=EndPolicy.NONE,
        restart_rule=RestartRule(
            policy=RestartPolicy.ALWAYS,
            scope=RestartScope.POD,
            limit=max(MIN_SERVER_RESTART_LIMIT, size) if limit is None else limit,
        ),
        labels={f"paddle-job-{role_name}": context.job_name},
        **_template_fields(context, role_name, role),
    )


def _template_fields(context: PaddleJobContext, role_name: str, role: PaddleRoleSpec) -> dict[str, Any]:
    template = build_pod_template(context, role_name, role)
    listening = [(port, each["name"]) for each in template["spec"]["containers"] for port in each.get("ports", ())]
    return {
        "template": template,
        "template_hash": hash_template(template),
        "ports": tuple(Port(port["name"], port["containerPort"], container) for port, container in listening),
        "main_containers": frozenset({role_name}),
    }


def _trainer_restart_rule(
    trainer: PaddleTrainerSpec, bounds: TrainerBounds, size: int, is_server_based: bool
) -> RestartRule:
    """Trainers that may come and go come back alone, about as often as there are trainers.

    Those of a fixed number fail their job, unless it is said how often they may come back; to lose a node is no
    failure of theirs. Without servers, who keep what was learned, all of them start again.
    """
    limit = _parse_restart_limit(trainer.restart_limit, "spec.trainer.restart_limit", size)
    comes_back = bounds.is_elastic or limit is not None
    return RestartRule(
        policy=RestartPolicy.ALWAYS if comes_back else RestartPolicy.ON_NODE_FAIL,
        scope=RestartScope.POD if is_server_based else RestartScope.ALL,
        limit=max(MIN_TRAINER_RESTART_LIMIT, size) if limit is None else limit,
    )


def _parse_restart_limit(value: Any, path: str, size: int) -> int | None:
    """A number of restarts, or a share of a size, rounded up; None if nothing is said."""
    if value in (None, "", "null"):
        return None
    if isinstance(value, str) and (share := _PERCENTAGE_PATTERN.fullmatch(value.strip())):
        return -(-int(share[1]) * size // 100)
    return parse_count(value, path, "a number of restarts, or a share such as 50%")


def max_sizes(groups: tuple[ReplicaGroup, ...]) -> Mapping[str, int]:
    """The largest size each group may reach."""
    return {group.name: max(group.size, group.max_size or 0) for group in groups}
