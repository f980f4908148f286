"""What a ScalePlan has in its spec and status: the source of its schema."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Meta, Struct

from pliant.frontends.crd import field_doc
from pliant.model.state import Timestamp

MAX_REPLICAS = 10_000
GroupSize = Annotated[int, Meta(ge=0, le=MAX_REPLICAS, extra_json_schema={"format": "int32"})]
PodNumber = Annotated[int, Meta(ge=0, le=10**9 - 1, extra_json_schema={"format": "int32"})]


class ScalePlanGroup(Struct, frozen=True, kw_only=True, rename="camel"):
    """How many members of a type there are to be."""

    replicas: Annotated[GroupSize | None, field_doc("How many; left out, as many as there are.")] = None
    resource: Annotated[
        dict[str, Any], field_doc("What new ones ask for, and may use at most: cpu, memory, …", nullable=True)
    ] = {}


class ScalePlanPod(Struct, frozen=True, kw_only=True, rename="camel"):
    """One pod."""

    name: Annotated[str, field_doc("The name of a pod that exists.")] = ""
    id: Annotated[PodNumber | None, field_doc("Its number among those of its type, used once.")] = None
    type: Annotated[str, field_doc("worker, ps, chief or evaluator; left out, the name tells.")] = ""
    rank_index: Annotated[PodNumber | None, field_doc("Its rank, which outlives it.")] = None
    service: Annotated[str | None, field_doc("Where others reach it: host:port.")] = None
    resource: Annotated[
        dict[str, Any], field_doc("What it asks for, and may use at most: cpu, memory, …", nullable=True)
    ] = {}


class ScalePlanSpec(Struct, frozen=True, kw_only=True, rename="camel"):
    """What is wanted."""

    owner_job: Annotated[str, field_doc("The ElasticJob that it is for.")] = ""
    reason: Annotated[str, field_doc("Why, for people; it is told wherever the plan is.")] = ""
    replica_resource_specs: Annotated[
        dict[str, ScalePlanGroup], field_doc("How many members there are to be, by type.", nullable=True)
    ] = {}
    create_pods: Annotated[list[ScalePlanPod], field_doc("Pods to be made.", nullable=True)] = []
    remove_pods: Annotated[list[ScalePlanPod], field_doc("Pods to go.", nullable=True)] = []
    migrate_pods: Annotated[
        list[ScalePlanPod], field_doc("Pods to give way to others at their ranks, once those run.", nullable=True)
    ] = []
    ps_hosts: Annotated[list[str], field_doc("The parameter servers in the order of their ranks.", nullable=True)] = []
    manual_scaling: Annotated[bool, field_doc("Not read; see label scale-type.")] = False


class ScalePlanStatus(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """How far it has come."""

    phase: Annotated[str, field_doc("Created, Pending, Scaling, Succeeded or Failed.")] = ""
    message: Annotated[str, field_doc("Why it is there, for people.")] = ""
    create_time: Annotated[Timestamp | None, field_doc("When it was first looked at.")] = None
    finish_time: Annotated[Timestamp | None, field_doc("When it was done, or given up.")] = None
