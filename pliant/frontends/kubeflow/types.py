"""What every kind of kubeflow.org/v1 has in its spec and status: the source of their schemas."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any

from msgspec import Meta, Struct
from msgspec.structs import replace

from pliant.errors import InvalidSpec
from pliant.frontends.crd import TEMPLATE, told
from pliant.frontends.results import Progress
from pliant.frontends.scaling import GroupScaling
from pliant.model.job import CleanPolicy
from pliant.model.state import Time

MOST_MEMBERS = 10_000

Count = Annotated[int, Meta(ge=0, extra_json_schema={"format": "int32"})]
Size = Annotated[int, Meta(ge=0, le=MOST_MEMBERS, extra_json_schema={"format": "int32"})]
Seconds = Annotated[int, Meta(ge=0, extra_json_schema={"format": "int64"})]


class RestartPolicy(StrEnum):
    """When a pod that ended is made anew."""

    ALWAYS = "Always"
    ON_FAILURE = "OnFailure"
    NEVER = "Never"
    EXIT_CODE = "ExitCode"


class ReplicaSpec(Struct, frozen=True, kw_only=True, rename="camel"):
    """One group of like pods."""

    replicas: Annotated[Size | None, told("How many pods the group has. Default: 1.")] = None
    restart_policy: Annotated[
        RestartPolicy | None,
        told("""When a member that ended badly comes back, as a new pod: always (Always, OnFailure), never (Never),
        or when its exit code is 128 or above (ExitCode). Lost nodes and evictions count as the latter."""),
    ] = None
    template: Annotated[dict[str, Any], TEMPLATE, told("The pods of the group.")]


class SchedulingPolicy(Struct, frozen=True, kw_only=True, rename="camel"):
    """How the members are to be placed."""

    min_available: Annotated[Count | None, told("Members that must fit at once.")] = None
    queue: Annotated[str, told("The queue of the scheduler.")] = ""
    min_resources: Annotated[dict[str, Any] | None, told("Resources that must be free at once.")] = None
    priority_class: Annotated[str, told("The priority class of the pods.")] = ""
    schedule_timeout_seconds: Annotated[Count | None, told("How long a gang may wait.")] = None


class RunPolicy(Struct, frozen=True, kw_only=True, rename="camel"):
    """How a job is run, whatever its framework."""

    clean_pod_policy: Annotated[
        CleanPolicy | None, told("Which pods go when the job ends: All, Running, or None (the default).")
    ] = None
    ttl_seconds_after_finished: Annotated[Seconds | None, told("How long the job is kept after its end.")] = None
    active_deadline_seconds: Annotated[
        Seconds | None, told("How long the job may take from its start, or from when it was resumed.")
    ] = None
    backoff_limit: Annotated[Count | None, told("Restarts of all members together. Default: no limit.")] = None
    suspend: Annotated[bool, told("Whether the job rests: its pods are deleted, its place is kept.")] = False
    managed_by: Annotated[str, told("Who looks after the job; others than us are left to do so.")] = ""
    scheduling_policy: Annotated[SchedulingPolicy | None, told("How the members are to be placed.")] = None


class JobSpec(Struct, frozen=True, kw_only=True, rename="camel"):
    """What is to be trained, and how."""

    run_policy: Annotated[RunPolicy | None, told("How the job is run.")] = None
    clean_pod_policy: Annotated[CleanPolicy | None, told("The old place of runPolicy.cleanPodPolicy.")] = None
    ttl_seconds_after_finished: Annotated[
        Seconds | None, told("The old place of runPolicy.ttlSecondsAfterFinished.")
    ] = None
    active_deadline_seconds: Annotated[
        Seconds | None, told("The old place of runPolicy.activeDeadlineSeconds.")
    ] = None
    backoff_limit: Annotated[Count | None, told("The old place of runPolicy.backoffLimit.")] = None
    scheduling_policy: Annotated[SchedulingPolicy | None, told("The old place of runPolicy.schedulingPolicy.")] = (
        None
    )

    @property
    def policy(self) -> RunPolicy:
        """How the job is run, wherever that is written; raises InvalidSpec if two places disagree."""
        run = self.run_policy or RunPolicy()
        for name, field in _OLD_PLACES.items():
            old, new = getattr(self, name), getattr(run, name)
            if old is not None and new not in (None, old):
                raise InvalidSpec(f"spec.{field}", f"says otherwise than spec.runPolicy.{field}: take it away")
        return replace(run, **{name: old for name in _OLD_PLACES if (old := getattr(self, name)) is not None})


_OLD_PLACES = {
    "clean_pod_policy": "cleanPodPolicy",
    "ttl_seconds_after_finished": "ttlSecondsAfterFinished",
    "active_deadline_seconds": "activeDeadlineSeconds",
    "backoff_limit": "backoffLimit",
    "scheduling_policy": "schedulingPolicy",
}
"""What stood in the spec itself before there was a run policy."""


class ReplicaStatus(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """How the members of one group are."""

    active: Annotated[int, told("On their way, or running.")] = 0
    succeeded: Annotated[int, told("Ended well.")] = 0
    failed: Annotated[int, told("Ended badly.")] = 0
    selector: Annotated[str, told("Labels of the group's pods.")] = ""


class JobCondition(Struct, frozen=True, kw_only=True, rename="camel"):
    """One thing that can be said about a job."""

    type: Annotated[str, told("Created, Running, Restarting, Suspended, Succeeded, Failed, Invalid.")]
    status: Annotated[str, told("True or False.")]
    reason: Annotated[str, told("One word for machines.")] = ""
    message: Annotated[str, told("What happened, for people.")] = ""
    last_update_time: Annotated[Time | None, told("When the message last changed.")] = None
    last_transition_time: Annotated[Time | None, told("When the status last changed.")] = None


class JobStatus(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """How the job is."""

    conditions: Annotated[tuple[JobCondition, ...], told("What can be said of the job.", nullable=True)] = ()
    replica_statuses: Annotated[
        dict[str, ReplicaStatus], told("How the members are, by group.", nullable=True)
    ] = {}
    start_time: Annotated[Time | None, told("When the job was accepted, or resumed.")] = None
    completion_time: Annotated[Time | None, told("When its end was decided.")] = None
    last_reconcile_time: Annotated[Time | None, told("When this status was last written.")] = None
    progress: Annotated[Progress | None, told("How far the training has come, as its members report.")] = None
    scaling: Annotated[
        tuple[GroupScaling, ...], told("Sizes that may change, and why they are what they are.")
    ] = ()
    pliant: Annotated[dict[str, Any], told("What the operator must not forget; not for reading.")] = {}
