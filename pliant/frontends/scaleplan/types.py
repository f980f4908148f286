"""What a ScalePlan has in its spec and status: the source of its schema."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Meta, Struct

from pliant.frontends.crd import told
from pliant.model.state import Time

MOST_MEMBERS = 10_000
Size = Annotated[int, Meta(ge=0, le=MOST_MEMBERS, extra_json_schema={"format": "int32"})]
Number = Annotated[int, Meta(ge=0, le=10**9 - 1, extra_json_schema={"format": "int32"})]


class ReplicaResource(Struct, frozen=True, kw_only=True, rename="camel"):
    """How many members of a type there are to be."""

    replicas: Annotated[Size | None, told("How many; left out, as many as there are.")] = None
    resource: Annotated[
        dict[str, Any], told("What new ones ask for, and may use at most: cpu, memory, …", nullable=True)
    ] = {}


class PodMeta(Struct, frozen=True, kw_only=True, rename="camel"):
    """One pod."""

    name: Annotated[str, told("The name of a pod that exists.")] = ""
    id: Annotated[Number | None, told("Its number among those of its type, used once.")] = None
    type: Annotated[str, told("worker, ps, chief or evaluator; left out, the name tells.")] = ""
    rank_index: Annotated[Number | None, told("Its rank, which outlives it.")] = None
    service: Annotated[str | None, told("Where others reach it: host:port.")] = None
    resource: Annotated[
        dict[str, Any], told("What it asks for, and may use at most: cpu, memory, …", nullable=True)
    ] = {}


class ScalePlanSpec(Struct, frozen=True, kw_only=True, rename="camel"):
    """What is wanted."""

    owner_job: Annotated[str, told("The ElasticJob that it is for.")] = ""
    reason: Annotated[str, told("Why, for people; it is told wherever the plan is.")] = ""
    replica_resource_specs: Annotated[
        dict[str, ReplicaResource], told("How many members there are to be, by type.", nullable=True)
    ] = {}
    create_pods: Annotated[list[PodMeta], told("Pods to be made.", nullable=True)] = []
    remove_pods: Annotated[list[PodMeta], told("Pods to go.", nullable=True)] = []
    migrate_pods: Annotated[
        list[PodMeta], told("Pods to give way to others at their ranks, once those run.", nullable=True)
    ] = []
    ps_hosts: Annotated[list[str], told("The parameter servers in the order of their ranks.", nullable=True)] = []
    manual_scaling: Annotated[bool, told("Not read; see label scale-type.")] = False


class ScalePlanStatus(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """How far it has come."""

    phase: Annotated[str, told("Created, Pending, Scaling, Succeeded or Failed.")] = ""
    message: Annotated[str, told("Why it is there, for people.")] = ""
    create_time: Annotated[Time | None, told("When it was first looked at.")] = None
    finish_time: Annotated[Time | None, told("When it was done, or given up.")] = None
