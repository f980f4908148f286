"""Jobs with a master of their own, and the plans that it and people write."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

from pliant.model.job import (
    EndPolicy,
    JobKey,
    Master,
    Naming,
    Port,
    ReplicaGroup,
    RestartPolicy,
    RestartRule,
    RestartScope,
)
from pliant.model.observed import ObservedPod, PodPhase
from pliant.model.scale_plans import PlanGroupRequest, PlanPodRequest, ScalePlan
from pliant.model.state import SizeRequester
from tests.builders import KEY, StoredJob, make_group, make_job
from tests.engine.world import World

MASTER = "dlrover-master"
NAMING = Naming(
    pod="{job}-edljob-{group}-{index}",
    pod_overrides={MASTER: "elasticjob-{job}-dlrover-master-{index}"},
    service_overrides={
        MASTER: "elasticjob-{job}-dlrover-master",
        "worker": "{job}-edljob-worker-{index}",
        "ps": "{job}-edljob-ps-{index}",
    },
    labels={"rank": "{rank}", "relaunches": "{relaunches}"},
)
MASTER_POD = "elasticjob-demo-dlrover-master-0"
PLIANT_MASTER = Master(group=MASTER)
DLROVER_MASTER = Master(
    group=MASTER,
    claims_manual_plans=True,
    relaunches_deleted_pods=True,
    assigns_member_ids=True,
    idle_timeout=timedelta(minutes=3),
)


def control(limit: int | None = 3, *, counts_disruptions: bool = False) -> ReplicaGroup:
    rule = RestartRule(
        policy=RestartPolicy.ON_FAILURE,
        scope=RestartScope.POD,
        limit=limit,
        counts_disruptions=counts_disruptions,
        permanent_exit_codes=frozenset({1}),
    )
    return make_group(MASTER, 1, restart=rule, is_master=True, ports=(Port("master", 50001),))


def watched(name: str, replicas: int | None = None, **fields: Any) -> ReplicaGroup:
    asked = {} if replicas is None else {SizeRequester.SPEC: replicas}
    return make_group(
        name,
        replicas or 0,
        complete=EndPolicy.NONE,
        fail=EndPolicy.NONE,
        is_master_managed=True,
        is_server=name == "ps",
        is_elastic=True,
        requested_sizes=asked,
        ports=(Port("grpc", 3333),),
        **fields,
    )


def elastic_job(*groups: ReplicaGroup, uses_pliant_master: bool = True, **fields: Any) -> StoredJob:
    every = (control(), *(groups or (watched("worker"), watched("ps"))))
    return make_job(*every, naming=NAMING, master=PLIANT_MASTER if uses_pliant_master else DLROVER_MASTER, **fields)


def elastic_world(job: StoredJob | None = None, **fields: Any) -> World:
    """A world whose master runs, and waits for something to do."""
    world = World(job=job or elastic_job(), ending=lambda pod: -1, **fields)
    world.settle()
    return world


def write(world: World, name: str, *, is_manual: bool = False, **fields: Any) -> None:
    """Somebody writes a plan; `worker=3` asks for a number, `create`, `remove` and `migrate` for pods."""
    groups: dict[str, PlanGroupRequest] = {
        key: PlanGroupRequest(size=fields.pop(key)) for key in ("worker", "ps") if key in fields
    }
    groups |= fields.pop("group_requests", {})
    world.serial += 1
    world.plans[name] = ScalePlan(
        key=JobKey(KEY.namespace, name),
        uid=f"plan-{world.serial:06}",
        is_manual=is_manual,
        created_at=world.now,
        group_requests=groups,
        **fields,
    )


def pod(group: str, **fields: Any) -> PlanPodRequest:
    return PlanPodRequest(group=group, **fields)


def members(world: World, group: str) -> dict[int, int]:
    """The ids of a group that are listed, and their ranks."""
    return {index: member.rank for index, member in world.memory.group(group).members.items()}


def names(world: World, group: str) -> list[str]:
    """Pods of a group that are there and stay."""
    return sorted(each.name for each in world.pods.values() if each.group == group and not each.is_terminating)


def foreign(world: World, group: str, index: int, *, rank: int | None = None) -> None:
    """The master makes a pod itself."""
    world.serial += 1
    name = f"demo-edljob-{group}-{index}"
    made = ObservedPod(
        name=name,
        uid=f"pod-{world.serial}",
        group=group,
        index=index,
        attempt=0,
        phase=PodPhase.RUNNING,
        node="n0",
        rank=index if rank is None else rank,
        is_external=True,
    )
    world.pods[name] = made


def started(world: World) -> None:
    """Note on the master's pod when it began, as nodes do."""
    world.pods[MASTER_POD] = replace(world.pods[MASTER_POD], started_at=world.now)


SECOND = timedelta(seconds=1)
