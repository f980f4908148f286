"""Jobs as their controller sees them."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec

from pliant.embedded.controllers.workloads.views import Object, parse_number
from pliant.kube.objects import ObjectMeta, Pod
from pliant.kube.timestamps import format_timestamp

JOB_CONTROLLER_NAME = "kubernetes.io/job-controller"
TRACKING_FINALIZER = "batch.kubernetes.io/job-tracking"
COMPLETION_INDEX = "batch.kubernetes.io/job-completion-index"
"""An annotation and a label of the pods of indexed jobs."""
INDEX_FAILURE_COUNT_ANNOTATION = "batch.kubernetes.io/job-index-failure-count"

Condition = dict[str, Any]


class _JobPart(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """Base class with the decoding options."""


class JobSpec(_JobPart, frozen=True):
    parallelism: int = 1
    completions: int | None = None
    completion_mode: str = "NonIndexed"
    suspend: bool = False
    backoff_limit: int = 6
    backoff_limit_per_index: int | None = None
    max_failed_indexes: int | None = None
    active_deadline_seconds: int | None = None
    ttl_seconds_after_finished: int | None = None
    managed_by: str = JOB_CONTROLLER_NAME
    pod_failure_policy: Object | None = None
    pod_replacement_policy: str = "TerminatingOrFailed"
    success_policy: Object | None = None
    selector: Object = {}
    template: Object = {}


class Job(_JobPart, frozen=True):
    metadata: ObjectMeta
    spec: JobSpec = JobSpec()
    status: Object = {}

    @property
    def is_indexed(self) -> bool:
        return self.spec.completion_mode == "Indexed"

    @property
    def replaces_only_failed_pods(self) -> bool:
        return self.spec.pod_replacement_policy == "Failed"

    @property
    def restart_policy(self) -> str:
        return str((self.spec.template.get("spec") or {}).get("restartPolicy", "Never"))

    @property
    def started_at(self) -> datetime | None:
        return parse_time(self.status.get("startTime"))

    @property
    def finished_condition(self) -> Condition | None:
        """Return the condition Complete or Failed; None while the job is not finished."""
        return self.true_condition("Complete") or self.true_condition("Failed")

    def true_condition(self, condition_type: str) -> Condition | None:
        conditions = self.status.get("conditions") or ()
        return next((x for x in conditions if x.get("type") == condition_type and x.get("status") == "True"), None)


def make_condition(condition_type: str, reason: str, message: str, now: datetime, status: str = "True") -> Condition:
    stamp = format_timestamp(now)
    times = {"lastProbeTime": stamp, "lastTransitionTime": stamp}
    return {"type": condition_type, "status": status, **times, "reason": reason, "message": message}


def parse_time(timestamp: Any) -> datetime | None:
    return datetime.fromisoformat(timestamp) if timestamp else None


def completion_index(pod: Pod) -> int | None:
    return parse_number(pod.metadata.annotations.get(COMPLETION_INDEX, ""))


def index_failure_count(pod: Pod) -> int:
    """Return how many pods of the same index failed before this one."""
    return parse_number(pod.metadata.annotations.get(INDEX_FAILURE_COUNT_ANNOTATION, "")) or 0


def is_tracked(pod: Pod) -> bool:
    """Return whether the result of a pod has not been counted yet."""
    return TRACKING_FINALIZER in pod.metadata.finalizers


def finished_at(pod: Pod, now: datetime) -> datetime:
    """Return when the last container of a pod ended; for a pod that its node did not end, the closest known time."""
    ends = [each.state.terminated.finished_at for each in pod.status.container_statuses if each.state.terminated]
    last = max((end for end in ends if end is not None), default=None)
    unready = [each.last_transition_time for each in pod.status.conditions if each.type == "Ready"]
    known = (last, *unready, pod.metadata.deletion_timestamp, pod.metadata.creation_timestamp)
    return min(next((time for time in known if time is not None), now), now)
