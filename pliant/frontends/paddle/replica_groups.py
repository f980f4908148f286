"""Build the replica groups of a PaddleJob: sizes, bounds, resize modes and restart rules."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pliant.errors import InvalidSpec
from pliant.frontends.fields import MAX_REPLICAS_PER_JOB
from pliant.frontends.paddle.environment import require_trainer
from pliant.frontends.paddle.lenient_decoding import parse_count
from pliant.frontends.paddle.pod_templates import MASTER, PSERVER, TRAINER, PaddleJobContext, build_pod_template
from pliant.frontends.paddle.types import PaddleRoleSpec, PaddleTrainerSpec
from pliant.frontends.spec.pod_templates import hash_template
from pliant.model.job import EndPolicy, Port, ReplicaGroup, ResizeMode, RestartPolicy, RestartRule, RestartScope
from pliant.model.state import EngineState, SizeRequester

MIN_TRAINER_RESTART_LIMIT = 3
MIN_SERVER_RESTART_LIMIT = 5
_PERCENTAGE_PATTERN = re.compile(r"([0-9]{1,6})\s*%")
_NOT_FAULT_TOLERANT_REASON = (
    "fault_tolerant is false: the number of trainers is fixed at the start; remove the field or set it to true"
)
_FIXED_SIZE_REASON = "min-instance equals max-instance; set max-instance of trainers above min-instance"
_FIXED_SERVERS_REASON = "the number of parameter servers is fixed at the start: each holds a part of the parameters"


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainerBounds:
    """The minimum and maximum number of trainers."""

    min_size: int
    max_size: int
    warnings: tuple[str, ...] = ()

    @property
    def is_elastic(self) -> bool:
        return self.min_size < self.max_size


def trainer_bounds(context: PaddleJobContext) -> TrainerBounds:
    """Return the bounds of the trainers, at least 1; contradictory bounds fix the size at min-instance."""
    trainer = require_trainer(context.spec)
    min_size, max_size = trainer.min_instance, trainer.max_instance
    if is_local_job(context):
        return TrainerBounds(min_size=1, max_size=1)
    if min_size > max_size > 0:
        warning = (
            f"spec.trainer.min-instance ({min_size}) exceeds max-instance ({max_size}): the size is fixed at {min_size}"
        )
        return TrainerBounds(min_size=min_size, max_size=min_size, warnings=(warning,))
    return TrainerBounds(min_size=max(min_size, 1), max_size=max(min_size, max_size, 1))


def is_local_job(context: PaddleJobContext) -> bool:
    """Return whether the job consists of a single trainer."""
    return context.spec.local_job or context.spec.frame_work.get("type") == "local"


def server_count(context: PaddleJobContext) -> int:
    """Return the number of parameter servers."""
    is_nccl = context.spec.is_nccl or context.spec.frame_work.get("type") in ("nccl", "nccl2")
    if is_nccl or is_local_job(context) or context.spec.pserver is None:
        return 0
    return context.spec.pserver.min_instance


def build_groups(context: PaddleJobContext, state: EngineState | None) -> tuple[ReplicaGroup, ...]:
    """Return the groups in start order: master, parameter servers, trainers; raise InvalidSpec for invalid roles."""
    groups = tuple(_iter_groups(context, state))
    if (total := sum(max_sizes(groups).values())) > MAX_REPLICAS_PER_JOB:
        problem = f"a job may have {MAX_REPLICAS_PER_JOB} replicas at most, got {total}"
        raise InvalidSpec("spec.trainer.max-instance", problem)
    return groups


def _iter_groups(context: PaddleJobContext, state: EngineState | None) -> Iterator[ReplicaGroup]:
    spec = context.spec
    has_master_entrypoint = spec.master is not None and bool(spec.master.entrypoint)
    if spec.fault_tolerant and (context.uses_image_peer_discovery or has_master_entrypoint):
        yield _server_group(context, MASTER, spec.master or PaddleRoleSpec(), 1)
    if servers := server_count(context):
        yield _server_group(context, PSERVER, spec.pserver or PaddleRoleSpec(), servers)
    bounds, trainer = trainer_bounds(context), require_trainer(spec)
    requested = trainer.instances if bounds.is_elastic else None
    resize_mode, fixed_size_reason = _resize_mode(context, bounds)
    current_size = (state.group(TRAINER).applied_size if state else None) or bounds.min_size
    yield ReplicaGroup(
        name=TRAINER,
        path=f"spec.{TRAINER}",
        size=min(max(bounds.min_size, requested or 0), bounds.max_size),
        min_size=bounds.min_size,
        max_size=bounds.max_size,
        is_elastic=bounds.is_elastic,
        is_autoscaled=bounds.is_elastic,
        resize_mode=resize_mode,
        fixed_size_reason=fixed_size_reason,
        requested_sizes={} if requested is None else {SizeRequester.SCALE: requested},
        restart_rule=_trainer_restart_rule(trainer, bounds, current_size, _is_server_based(context)),
        labels={"paddle-job": context.job_name},
        **_template_fields(context, TRAINER, trainer),
    )


def _resize_mode(context: PaddleJobContext, bounds: TrainerBounds) -> tuple[ResizeMode, str]:
    if not bounds.is_elastic:
        return ResizeMode.FIXED, _FIXED_SIZE_REASON
    if context.spec.fault_tolerant is False:
        return ResizeMode.FIXED, _NOT_FAULT_TOLERANT_REASON
    return ResizeMode.JOIN if _is_server_based(context) else ResizeMode.RESTART, ""


def _is_server_based(context: PaddleJobContext) -> bool:
    """Return whether trainers depend on servers or a master only; otherwise they synchronize with each other."""
    return bool(server_count(context)) or bool(context.spec.fault_tolerant)


def _server_group(context: PaddleJobContext, role_name: str, role: PaddleRoleSpec, size: int) -> ReplicaGroup:
    """Return the group of the master or the parameter servers, which do not decide the outcome of the job."""
    limit = _parse_restart_limit(role.restart_limit, f"spec.{role_name}.restart_limit", size)
    return ReplicaGroup(
        name=role_name,
        path=f"spec.{role_name}",
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
    ports = [(port, each["name"]) for each in template["spec"]["containers"] for port in each.get("ports", ())]
    return {
        "template": template,
        "template_hash": hash_template(template),
        "ports": tuple(Port(port["name"], port["containerPort"], container) for port, container in ports),
        "main_containers": frozenset({role_name}),
    }


def _trainer_restart_rule(
    trainer: PaddleTrainerSpec, bounds: TrainerBounds, size: int, is_server_based: bool
) -> RestartRule:
    """Return the restart rule of the trainers.

    Elastic trainers restart on any failure, by default about once per trainer. A fixed number of trainers restarts
    on node failure only, unless restart_limit is set. Without servers that keep the parameters, all trainers restart.
    """
    limit = _parse_restart_limit(trainer.restart_limit, "spec.trainer.restart_limit", size)
    restarts_always = bounds.is_elastic or limit is not None
    return RestartRule(
        policy=RestartPolicy.ALWAYS if restarts_always else RestartPolicy.ON_NODE_FAIL,
        scope=RestartScope.POD if is_server_based else RestartScope.ALL,
        limit=max(MIN_TRAINER_RESTART_LIMIT, size) if limit is None else limit,
    )


def _parse_restart_limit(value: Any, path: str, size: int) -> int | None:
    """Return the number of restarts, or the percentage of the size rounded up; None if it is not set."""
    if value in (None, "", "null"):
        return None
    if isinstance(value, str) and (share := _PERCENTAGE_PATTERN.fullmatch(value.strip())):
        return -(-int(share[1]) * size // 100)
    return parse_count(value, path, "a number of restarts or a percentage such as 50%")


def max_sizes(groups: tuple[ReplicaGroup, ...]) -> Mapping[str, int]:
    """Return the maximum size of each group."""
    return {group.name: max(group.size, group.max_size or 0) for group in groups}
