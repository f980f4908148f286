"""Table columns of workload kinds, with the descriptions that Kubernetes gives them."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from pliant.embedded.label_selectors import format_label_selector
from pliant.embedded.registry.tables import (
    AGE_COLUMN,
    NAME_COLUMN,
    CellRenderer,
    field_cell,
    format_age,
    format_duration,
    make_column,
    parse_timestamp,
)

Object = Mapping[str, Any]


def _get_section(obj: Object, name: str) -> Object:
    return obj.get(name) or {}


def _template_containers(obj: Object) -> list[Object]:
    template = _get_section(_get_section(obj, "spec"), "template")
    return list(_get_section(template, "spec").get("containers") or ())


def _container_names(obj: Object, now: datetime) -> str:
    return ",".join(each.get("name", "") for each in _template_containers(obj))


def _container_images(obj: Object, now: datetime) -> str:
    return ",".join(each.get("image", "") for each in _template_containers(obj))


def _selector(obj: Object, now: datetime) -> str:
    return format_label_selector(_get_section(obj, "spec").get("selector")) or "<none>"


def _count_cell(section: str, field: str) -> CellRenderer:
    return lambda obj, now: int(_get_section(obj, section).get(field) or 0)


def _ready_replicas(deployment: Object, now: datetime) -> str:
    ready = _get_section(deployment, "status").get("readyReplicas") or 0
    return f"{ready}/{_get_section(deployment, 'spec').get('replicas', 0)}"


def _job_status(job: Object, now: datetime) -> str:
    conditions = _get_section(job, "status").get("conditions") or ()
    true = {each.get("type") for each in conditions if each.get("status") == "True"}
    for condition in ("Complete", "Failed"):
        if condition in true:
            return condition
    if job["metadata"].get("deletionTimestamp"):
        return "Terminating"
    return next((each for each in ("Suspended", "FailureTarget", "SuccessCriteriaMet") if each in true), "Running")


def _job_completions(job: Object, now: datetime) -> str:
    spec, succeeded = _get_section(job, "spec"), _get_section(job, "status").get("succeeded") or 0
    if spec.get("completions") is not None:
        return f"{succeeded}/{spec['completions']}"
    parallelism = spec.get("parallelism") or 0
    return f"{succeeded}/1 of {parallelism}" if parallelism > 1 else f"{succeeded}/1"


def _job_duration(job: Object, now: datetime) -> str:
    status = _get_section(job, "status")
    started, completed = status.get("startTime"), parse_timestamp(status.get("completionTime"))
    if not started:
        return ""
    start = parse_timestamp(started)
    return format_duration(completed - start) if completed and start else format_age(started, now)


def _controller(revision: Object, now: datetime) -> str:
    owners = revision["metadata"].get("ownerReferences") or ()
    controller = next((each for each in owners if each.get("controller")), None)
    if controller is None:
        return "<none>"
    group, _, _ = controller.get("apiVersion", "").rpartition("/")
    resource = f"{controller.get('kind', '').lower()}.{group}" if group else controller.get("kind", "").lower()
    return f"{resource}/{controller.get('name', '')}"


_CONTAINER_COLUMNS: Final = (
    make_column("Containers", _container_names, "Names of each container in the template.", wide=True),
    make_column("Images", _container_images, "Images referenced by each container in the template.", wide=True),
    make_column("Selector", _selector, "The label query over the pods of the object.", wide=True),
)
DEPLOYMENT_COLUMNS: Final = (
    NAME_COLUMN,
    make_column("Ready", _ready_replicas, "Number of the pod with ready state"),
    make_column("Up-to-date", _count_cell("status", "updatedReplicas"), "Number of pods with the current template."),
    make_column("Available", _count_cell("status", "availableReplicas"), "Number of available pods."),
    AGE_COLUMN,
    *_CONTAINER_COLUMNS,
)
REPLICA_SET_COLUMNS: Final = (
    NAME_COLUMN,
    make_column("Desired", _count_cell("spec", "replicas"), "Number of desired pods.", column_type="integer"),
    make_column("Current", _count_cell("status", "replicas"), "Number of existing pods.", column_type="integer"),
    make_column("Ready", _count_cell("status", "readyReplicas"), "Number of ready pods.", column_type="integer"),
    AGE_COLUMN,
    *_CONTAINER_COLUMNS,
)
JOB_COLUMNS: Final = (
    NAME_COLUMN,
    make_column("Status", _job_status, "Status of the job."),
    make_column("Completions", _job_completions, "The number of pods which reached phase Succeeded."),
    make_column("Duration", _job_duration, "Time required to complete the job."),
    AGE_COLUMN,
    *_CONTAINER_COLUMNS,
)
CONTROLLER_REVISION_COLUMNS: Final = (
    NAME_COLUMN,
    make_column("Controller", _controller, "Controller of the object"),
    make_column("Revision", field_cell("revision", 0), "The revision of the state that the object stores."),
    AGE_COLUMN,
)
