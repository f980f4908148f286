"""What every kind of kubeflow.org/v1 has in its spec and status: the source of their schemas."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any

from msgspec import Meta, Struct
from msgspec.structs import replace

from pliant.errors import InvalidSpec
from pliant.frontends.crd import POD_TEMPLATE, field_doc
from pliant.frontends.scaling import GroupScalingStatus
from pliant.frontends.status.results import ProgressStatus
from pliant.model.job import CleanPodPolicy
from pliant.model.state import Timestamp

MAX_REPLICAS = 10_000

Count = Annotated[int, Meta(ge=0, extra_json_schema={"format": "int32"})]
GroupSize = Annotated[int, Meta(ge=0, le=MAX_REPLICAS, extra_json_schema={"format": "int32"})]
Seconds = Annotated[int, Meta(ge=0, extra_json_schema={"format": "int64"})]


class KubeflowRestartPolicy(StrEnum):
    """When a pod that ended is made anew."""

    ALWAYS = "Always"
    ON_FAILURE = "OnFailure"
    NEVER = "Never"
    EXIT_CODE = "ExitCode"


class KubeflowReplicaSpec(Struct, frozen=True, kw_only=True, rename="camel"):
    """One group of like pods."""

    replicas: Annotated[GroupSize | None, field_doc("How many pods the group has. Default: 1.")] = None
    restart_policy: Annotated[
        KubeflowRestartPolicy | None,
        field_doc("""When a member that ended badly comes back, as a new pod: always (Always, OnFailure), never (Never),
        or when its exit code is 128 or above (ExitCode). Lost nodes and evictions count as the latter."""),
    ] = None
    template: Annotated[dict[str, Any], POD_TEMPLATE, field_doc("The pods of the group.")]


class KubeflowSchedulingPolicy(Struct, frozen=True, kw_only=True, rename="camel"):
    """How the members are to be placed."""

    min_available: Annotated[Count | None, field_doc("Members that must fit at once.")] = None
    queue: Annotated[str, field_doc("The queue of the scheduler.")] = ""
    min_resources: Annotated[dict[str, Any] | None, field_doc("Resources that must be free at once.")] = None
    priority_class: Annotated[str, field_doc("The priority class of the pods.")] = ""
    schedule_timeout_seconds: Annotated[Count | None, field_doc("How long a gang may wait.")] = None


class KubeflowRunPolicy(Struct, frozen=True, kw_only=True, rename="camel"):
    """How a job is run, whatever its framework."""

    clean_pod_policy: Annotated[
        CleanPodPolicy | None, field_doc("Which pods go when the job ends: All, Running, or None (the default).")
    ] = None
    ttl_seconds_after_finished: Annotated[Seconds | None, field_doc("How long the job is kept after its end.")] = None
    active_deadline_seconds: Annotated[
        Seconds | None, field_doc("How long the job may take from its start, or from when it was resumed.")
    ] = None
    backoff_limit: Annotated[Count | None, field_doc("Restarts of all members together. Default: no limit.")] = None
    suspend: Annotated[bool, field_doc("Whether the job rests: its pods are deleted, its place is kept.")] = False
    managed_by: Annotated[str, field_doc("Who looks after the job; others than us are left to do so.")] = ""
    scheduling_policy: Annotated[KubeflowSchedulingPolicy | None, field_doc("How the members are to be placed.")] = None


class KubeflowJobSpec(Struct, frozen=True, kw_only=True, rename="camel"):
    """What is to be trained, and how."""

    run_policy: Annotated[KubeflowRunPolicy | None, field_doc("How the job is run.")] = None
    clean_pod_policy: Annotated[CleanPodPolicy | None, field_doc("The old place of runPolicy.cleanPodPolicy.")] = None
    ttl_seconds_after_finished: Annotated[
        Seconds | None, field_doc("The old place of runPolicy.ttlSecondsAfterFinished.")
    ] = None
    active_deadline_seconds: Annotated[
        Seconds | None, field_doc("The old place of runPolicy.activeDeadlineSeconds.")
    ] = None
    backoff_limit: Annotated[Count | None, field_doc("The old place of runPolicy.backoffLimit.")] = None
    scheduling_policy: Annotated[
        KubeflowSchedulingPolicy | None, field_doc("The old place of runPolicy.schedulingPolicy.")
    ] = None

    @property
    def effective_run_policy(self) -> KubeflowRunPolicy:
        """How the job is run, wherever that is written; raises InvalidSpec if two places disagree."""
        run = self.run_policy or KubeflowRunPolicy()
        for name, field in _LEGACY_FIELDS.items():
            old, new = getattr(self, name), getattr(run, name)
            if old is not None and new not in (None, old):
                raise InvalidSpec(f"spec.{field}", f"says otherwise than spec.runPolicy.{field}: take it away")
        return replace(run, **{name: old for name in _LEGACY_FIELDS if (old := getattr(self, name)) is not None})


_LEGACY_FIELDS = {
    "clean_pod_policy": "cleanPodPolicy",
    "ttl_seconds_after_finished": "ttlSecondsAfterFinished",
    "active_deadline_seconds": "activeDeadlineSeconds",
    "backoff_limit": "backoffLimit",
    "scheduling_policy": "schedulingPolicy",
}
"""What stood in the spec itself before there was a run policy."""


class KubeflowReplicaStatus(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """How the members of one group are."""

    active: Annotated[int, field_doc("On their way, or running.")] = 0
    succeeded: Annotated[int, field_doc("Ended well.")] = 0
    failed: Annotated[int, field_doc("Ended badly.")] = 0
    selector: Annotated[str, field_doc("Labels of the group's pods.")] = ""


class KubeflowJobCondition(Struct, frozen=True, kw_only=True, rename="camel"):
    """One thing that can be said about a job."""

    type: Annotated[str, field_doc("Created, Running, Restarting, Suspended, Succeeded, Failed, Invalid.")]
    status: Annotated[str, field_doc("True or False.")]
    reason: Annotated[str, field_doc("One word for machines.")] = ""
    message: Annotated[str, field_doc("What happened, for people.")] = ""
    last_update_time: Annotated[Timestamp | None, field_doc("When the message last changed.")] = None
    last_transition_time: Annotated[Timestamp | None, field_doc("When the status last changed.")] = None


class KubeflowJobStatus(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """How the job is."""

    conditions: Annotated[
        tuple[KubeflowJobCondition, ...], field_doc("What can be said of the job.", nullable=True)
    ] = ()
    replica_statuses: Annotated[
        dict[str, KubeflowReplicaStatus], field_doc("How the members are, by group.", nullable=True)
    ] = {}
    start_time: Annotated[Timestamp | None, field_doc("When the job was accepted, or resumed.")] = None
    completion_time: Annotated[Timestamp | None, field_doc("When its end was decided.")] = None
    last_reconcile_time: Annotated[Timestamp | None, field_doc("When this status was last written.")] = None
    progress: Annotated[ProgressStatus | None, field_doc("How far the training has come, as its members report.")] = (
        None
    )
    scaling: Annotated[
        tuple[GroupScalingStatus, ...], field_doc("Sizes that may change, and why they are what they are.")
    ] = ()
    pliant: Annotated[dict[str, Any], field_doc("What the operator must not forget; not for reading.")] = {}
