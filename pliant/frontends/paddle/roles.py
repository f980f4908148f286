"""The groups of a job: how many of each role there are, what may change, and what becomes of those that fail."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pliant.errors import InvalidSpec
from pliant.frontends.paddle.spelling import number_in
from pliant.frontends.paddle.templates import MASTER, PSERVER, TRAINER, Plan, template_of
from pliant.frontends.paddle.types import MOST_MEMBERS, RoleSpec, TrainerSpec
from pliant.frontends.paddle.variables import trainer_of
from pliant.frontends.templates import fingerprint
from pliant.model.job import EndPolicy, Group, Port, Resize, RestartPolicy, RestartRule, RestartScope
from pliant.model.state import EngineState, Requester

FEWEST_RESTARTS = 3
"""Restarts of trainers that come and go, where they are fewer than that."""
SERVER_RESTARTS = 5
_SHARE = re.compile(r"([0-9]{1,6})\s*%")
_INTOLERANT = (
    "fault_tolerant is false: the trainers' number is fixed at the start; take it away, or set it to true"
)
_FIXED = "min-instance and max-instance leave it no room; raise max-instance of trainers above min-instance"
_SERVERS = "the number of servers is fixed at the start: parameters are spread over them"


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """Between which sizes trainers move."""

    least: int
    most: int
    warnings: tuple[str, ...] = ()

    @property
    def is_elastic(self) -> bool:
        """Whether there is room between them."""
        return self.least < self.most


def bounds_of(plan: Plan) -> Bounds:
    """The bounds of the trainers: one at least, and what contradicts itself stays at the lower bound."""
    trainer = trainer_of(plan.spec)
    least, most = trainer.min_instance, trainer.max_instance
    if is_alone(plan):
        return Bounds(least=1, most=1)
    if least > most > 0:
        said = f"spec.trainer.min-instance ({least}) is above max-instance ({most})"
        return Bounds(least=least, most=least, warnings=(f"{said}: there are {least} trainers, and no more",))
    return Bounds(least=max(least, 1), most=max(least, most, 1))


def is_alone(plan: Plan) -> bool:
    """Whether one trainer is all there is."""
    return plan.spec.local_job or plan.spec.frame_work.get("type") == "local"


def servers_of(plan: Plan) -> int:
    """How many parameter servers there are."""
    is_nccl = plan.spec.is_nccl or plan.spec.frame_work.get("type") in ("nccl", "nccl2")
    if is_nccl or is_alone(plan) or plan.spec.pserver is None:
        return 0
    return plan.spec.pserver.min_instance


def groups_of(plan: Plan, state: EngineState | None) -> tuple[Group, ...]:
    """The groups, those first that others need; raises InvalidSpec for what cannot be made."""
    groups = tuple(_groups(plan, state))
    if (number := sum(max(group.size, group.most or 0) for group in groups)) > MOST_MEMBERS:
        problem = f"the job may have {number} members together, at most {MOST_MEMBERS} are possible"
        raise InvalidSpec("spec.trainer.max-instance", problem)
    return groups


def _groups(plan: Plan, state: EngineState | None) -> Iterator[Group]:
    job, servers = plan.job, servers_of(plan)
    if plan.spec.fault_tolerant and (plan.asks_image or _says_master(plan)):
        yield _serving(plan, MASTER, plan.spec.master or RoleSpec(), 1)
    if servers:
        yield _serving(plan, PSERVER, plan.spec.pserver or RoleSpec(), servers)
    bounds, trainer = bounds_of(plan), trainer_of(plan.spec)
    asked = trainer.instances if bounds.is_elastic else None
    resize, hold = _resizing(plan, bounds)
    memory = state.group(TRAINER).size if state else None
    yield Group(
        name=TRAINER,
        size=min(max(bounds.least, asked or 0), bounds.most),
        least=bounds.least,
        most=bounds.most,
        is_elastic=bounds.is_elastic,
        is_automatic=bounds.is_elastic,
        resize=resize,
        hold=hold,
        requests={} if asked is None else {Requester.SCALE: asked},
        restart=_restarts(trainer, bounds, memory or bounds.least, _are_served(plan)),
        labels={"paddle-job": job},
        **_made(plan, TRAINER, trainer),
    )


def _says_master(plan: Plan) -> bool:
    return plan.spec.master is not None and bool(plan.spec.master.entrypoint)


def _resizing(plan: Plan, bounds: Bounds) -> tuple[Resize, str]:
    if not bounds.is_elastic:
        return Resize.HOLD, _FIXED
    if plan.spec.fault_tolerant is False:
        return Resize.HOLD, _INTOLERANT
    return Resize.JOIN if _are_served(plan) else Resize.RESTART, ""


def _are_served(plan: Plan) -> bool:
    """Whether trainers find all they need at others than trainers; else they wait for each other at every step."""
    return bool(servers_of(plan)) or bool(plan.spec.fault_tolerant)


def _serving(plan: Plan, name: str, role: RoleSpec, size: int) -> Group:
    """Those who serve trainers: never asked how the job went, let go at its end."""
    limit = _limit(role.restart_limit, f"spec.{name}.restart_limit", size)
    return Group(
        name=name,
        size=size,
        least=size,
        most=size,
        resize=Resize.HOLD,
        hold=_SERVERS,
        complete_policy=EndPolicy.NONE,
        restart=RestartRule(
            policy=RestartPolicy.ALWAYS,
            scope=RestartScope.POD,
            limit=max(SERVER_RESTARTS, size) if limit is None else limit,
        ),
        labels={f"paddle-job-{name}": plan.job},
        **_made(plan, name, role),
    )


def _made(plan: Plan, name: str, role: RoleSpec) -> dict[str, Any]:
    template = template_of(plan, name, role)
    listening = [(port, each["name"]) for each in template["spec"]["containers"] for port in each.get("ports", ())]
    return {
        "template": template,
        "fingerprint": fingerprint(template),
        "ports": tuple(Port(port["name"], port["containerPort"], container) for port, container in listening),
        "counted": frozenset({name}),
    }


def _restarts(trainer: TrainerSpec, bounds: Bounds, size: int, are_served: bool) -> RestartRule:
    """Trainers that may come and go come back alone, about as often as there are trainers.

    Those of a fixed number fail their job, unless it is said how often they may come back; to lose a node is no
    failure of theirs. Without servers, who keep what was learned, all of them start again.
    """
    limit = _limit(trainer.restart_limit, "spec.trainer.restart_limit", size)
    comes_back = bounds.is_elastic or limit is not None
    return RestartRule(
        policy=RestartPolicy.ALWAYS if comes_back else RestartPolicy.ON_NODE_FAIL,
        scope=RestartScope.POD if are_served else RestartScope.ALL,
        limit=max(FEWEST_RESTARTS, size) if limit is None else limit,
    )


def _limit(written: Any, path: str, size: int) -> int | None:
    """A number of restarts, or a share of a size, rounded up; None if nothing is said."""
    if written in (None, "", "null"):
        return None
    if isinstance(written, str) and (share := _SHARE.fullmatch(written.strip())):
        return -(-int(share[1]) * size // 100)
    return number_in(written, path, "a number of restarts, or a share such as 50%")


def largest(groups: tuple[Group, ...]) -> Mapping[str, int]:
    """The largest size each group may reach."""
    return {group.name: max(group.size, group.most or 0) for group in groups}
