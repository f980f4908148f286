"""The spec and status of the kinds of kubeflow.org/v1; their CRD schemas are generated from these structs."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Meta, Struct
from msgspec.structs import replace

from pliant.errors import InvalidSpec
from pliant.frontends import fields
from pliant.frontends.crd import POD_TEMPLATE_MARKER, ValidationRule, field_doc
from pliant.frontends.fields import Count, GroupSize, ReplicaRestartPolicy, Seconds
from pliant.model.job import CleanPodPolicy
from pliant.model.state import Timestamp

MAX_REPLICA_TYPES = 16
"""Replica types in one job. The API server requires a bound to estimate the cost of validation rules."""

AutoscalerMetrics = Annotated[
    list[dict[str, Any]],
    field_doc(
        "Metrics of a HorizontalPodAutoscaler.",
        ignored="create a HorizontalPodAutoscaler for the scale subresource",
        nullable=True,
    ),
]


class KubeflowReplicaSpec(Struct, frozen=True, kw_only=True, rename="camel"):
    """The replicas of one type."""

    replicas: Annotated[GroupSize | None, field_doc("Number of replicas. Default: 1.")] = None
    restart_policy: Annotated[
        ReplicaRestartPolicy | None,
        field_doc("""When failed replicas are restarted as new pods: on any failure (Always, OnFailure), not at all
        (Never), or on exit codes of 128 and above, node failure and eviction (ExitCode)."""),
    ] = None
    template: Annotated[dict[str, Any], POD_TEMPLATE_MARKER, field_doc("Template of the pods.")]


KubeflowReplicaSpecs = Annotated[
    dict[str, KubeflowReplicaSpec], Meta(extra_json_schema={"maxProperties": MAX_REPLICA_TYPES})
]


class KubeflowSchedulingPolicy(Struct, frozen=True, kw_only=True, rename="camel"):
    """Scheduling of the pods."""

    min_available: Annotated[
        Count | None, field_doc("Minimum number of pods to schedule together.", ignored=fields.NO_POD_GROUP)
    ] = None
    queue: Annotated[str, field_doc("Queue of the scheduler.", ignored=fields.NO_POD_GROUP)] = ""
    min_resources: Annotated[
        dict[str, Any] | None, field_doc("Minimum resources to schedule the gang.", ignored=fields.NO_POD_GROUP)
    ] = None
    priority_class: Annotated[str, field_doc("PriorityClass of the pods, if it exists.")] = ""
    schedule_timeout_seconds: Annotated[
        Count | None, field_doc("Seconds to wait for the gang to be scheduled.", ignored=fields.NO_POD_GROUP)
    ] = None


BOUNDS_RULES = {
    "minReplicas must be at most maxReplicas": ValidationRule(
        "!has(self.minReplicas) || !has(self.maxReplicas) || self.minReplicas <= self.maxReplicas",
        field_path=".minReplicas",
    )
}
"""The validation rules of an elasticPolicy."""


class KubeflowRunPolicy(Struct, frozen=True, kw_only=True, rename="camel"):
    """Run policy of the job, independent of its framework."""

    clean_pod_policy: Annotated[
        CleanPodPolicy | None,
        field_doc("Pods to delete when the job ends: All, Running or None. Default: None (MPIJob: Running)."),
    ] = None
    ttl_seconds_after_finished: fields.TTLSeconds = None
    active_deadline_seconds: fields.ActiveDeadlineSeconds = None
    backoff_limit: Annotated[Count | None, field_doc("Maximum number of restarts of the job. Default: none.")] = None
    suspend: fields.Suspend = False
    managed_by: Annotated[
        str,
        field_doc("""The controller that manages the job. Pliant ignores jobs with a value other than pliant (the
        default) and kubeflow.org/training-operator."""),
    ] = ""
    scheduling_policy: Annotated[KubeflowSchedulingPolicy | None, field_doc("Scheduling of the pods.")] = None


class KubeflowJobSpec(Struct, frozen=True, kw_only=True, rename="camel"):
    """Specification of the desired behavior of the job."""

    run_policy: Annotated[KubeflowRunPolicy | None, field_doc("Run policy of the job.")] = None
    clean_pod_policy: Annotated[CleanPodPolicy | None, field_doc("Deprecated; use runPolicy.")] = None
    ttl_seconds_after_finished: Annotated[Seconds | None, field_doc("Deprecated; use runPolicy.")] = None
    active_deadline_seconds: Annotated[Seconds | None, field_doc("Deprecated; use runPolicy.")] = None
    backoff_limit: Annotated[Count | None, field_doc("Deprecated; use runPolicy.")] = None
    scheduling_policy: Annotated[KubeflowSchedulingPolicy | None, field_doc("Deprecated; use runPolicy.")] = None

    @property
    def effective_run_policy(self) -> KubeflowRunPolicy:
        """The run policy with the deprecated fields; raises InvalidSpec if two fields differ."""
        policy = self.run_policy or KubeflowRunPolicy()
        for name, field in _DEPRECATED_FIELDS.items():
            old, new = getattr(self, name), getattr(policy, name)
            if old is not None and new not in (None, old):
                raise InvalidSpec(f"spec.{field}", f"differs from spec.runPolicy.{field}: remove it")
        return replace(policy, **{name: old for name in _DEPRECATED_FIELDS if (old := getattr(self, name)) is not None})


_DEPRECATED_FIELDS = {
    "clean_pod_policy": "cleanPodPolicy",
    "ttl_seconds_after_finished": "ttlSecondsAfterFinished",
    "active_deadline_seconds": "activeDeadlineSeconds",
    "backoff_limit": "backoffLimit",
    "scheduling_policy": "schedulingPolicy",
}


class KubeflowReplicaStatus(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """Number of replicas of a type by state."""

    active: Annotated[int, field_doc("Replicas that are pending or running.")] = 0
    succeeded: fields.SucceededCount = 0
    failed: fields.FailedCount = 0
    selector: Annotated[str, field_doc("Label selector of the pods.")] = ""


class KubeflowJobStatus(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """Most recently observed status of the job."""

    conditions: fields.JobConditions = ()
    replica_statuses: Annotated[
        dict[str, KubeflowReplicaStatus], field_doc("Number of replicas by type and state.", nullable=True)
    ] = {}
    start_time: Annotated[Timestamp | None, field_doc("Time when the job was accepted or resumed.")] = None
    completion_time: fields.CompletionTime = None
    last_reconcile_time: fields.LastReconcileTime = None
    progress: fields.Progress = None
    scaling: fields.Scaling = ()
    pliant: fields.EngineStateData = {}
