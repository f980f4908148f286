"""The pods that a Job creates."""

from __future__ import annotations

from pliant.embedded.controllers.workloads.job_views import (
    COMPLETION_INDEX,
    INDEX_FAILURE_COUNT_ANNOTATION,
    TRACKING_FINALIZER,
    Job,
)
from pliant.embedded.controllers.workloads.views import JOBS, Object
from pliant.embedded.controllers.workloads.writes import build_pod

_INDEX_VARIABLE = "JOB_COMPLETION_INDEX"
_MAX_PREFIX_CHARACTERS = 58


def build_job_pod(job: Job, index: int | None, earlier_failures: int | None) -> Object:
    """Return a pod, of an index if the job is indexed, with the number of earlier failures if the job limits it."""
    pod = build_pod(JOBS, job.metadata, job.spec.template)
    metadata = pod["metadata"]
    metadata["finalizers"] = [*metadata.get("finalizers", ()), TRACKING_FINALIZER]
    if index is None:
        return pod
    suffix = f"-{index}-"
    metadata["generateName"] = job.metadata.name[: _MAX_PREFIX_CHARACTERS - len(suffix)] + suffix
    metadata["labels"] = {**metadata.get("labels", {}), COMPLETION_INDEX: str(index)}
    metadata["annotations"] = {**metadata.get("annotations", {}), COMPLETION_INDEX: str(index)}
    if earlier_failures is not None:
        metadata["annotations"][INDEX_FAILURE_COUNT_ANNOTATION] = str(earlier_failures)
    pod["spec"] = {**pod["spec"], "hostname": f"{job.metadata.name}-{index}"}
    for group in ("containers", "initContainers"):
        if pod["spec"].get(group):
            pod["spec"][group] = [_with_index_variable(container) for container in pod["spec"][group]]
    return pod


def _with_index_variable(container: Object) -> Object:
    variables = container.get("env") or []
    if any(each.get("name") == _INDEX_VARIABLE for each in variables):
        return container
    reference = {"fieldRef": {"fieldPath": f"metadata.labels['{COMPLETION_INDEX}']"}}
    return {**container, "env": [*variables, {"name": _INDEX_VARIABLE, "valueFrom": reference}]}
