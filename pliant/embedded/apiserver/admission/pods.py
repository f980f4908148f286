"""Defaults of pods, and their validation."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from fractions import Fraction
from typing import Any

from pliant.embedded.apiserver.admission.dropped_fields import drop_disabled_fields
from pliant.embedded.apiserver.admission.label_keys import merge_label_keys
from pliant.embedded.apiserver.admission.validation.image_names import is_latest_image
from pliant.embedded.apiserver.admission.validation.pod_spec import validate_pod_spec
from pliant.embedded.apiserver.admission.validation.pod_status import (
    keep_observed_values,
    set_pod_addresses,
    validate_pod_status,
)
from pliant.embedded.apiserver.admission.validation.pod_update import validate_pod_update
from pliant.embedded.apiserver.admission.validation.pods.ephemeral_containers import (
    forbid_on_create,
    validate_added_containers,
)
from pliant.embedded.apiserver.admission.validation.pods.pod_resources import set_pod_resource_defaults
from pliant.embedded.apiserver.http.errors import forbidden_field
from pliant.embedded.schema import FieldError
from pliant.embedded.storage.stored_objects import Object
from pliant.schemas.quantity import parse_quantity

_QOS_RESOURCES = ("cpu", "memory")
_DEFAULT_TOLERATION_SECONDS = 300
_GATED_CONDITION = {
    "type": "PodScheduled",
    "status": "False",
    "lastProbeTime": None,
    "reason": "SchedulingGated",
    "message": "Scheduling is blocked due to non-empty scheduling gates",
}


def set_pod_defaults(pod: Object, old: Object | None) -> None:
    spec = pod.setdefault("spec", {})
    set_pod_spec_defaults(spec)
    for _, container in _iter_containers(spec):
        _set_default_requests(container)
    set_pod_resource_defaults(spec)
    if (spec.get("terminationGracePeriodSeconds") or 0) < 0:
        spec["terminationGracePeriodSeconds"] = 1
    # `serviceAccount` is the deprecated name of the field; clients read both.
    account = spec.get("serviceAccountName") or spec.get("serviceAccount") or ("default" if old is None else "")
    if account:
        spec["serviceAccountName"] = account
    if spec.get("serviceAccountName"):
        spec["serviceAccount"] = spec["serviceAccountName"]
    _add_default_tolerations(spec)
    if spec.get("hostNetwork"):
        _set_host_ports(spec)
    if old is None:
        spec.setdefault("priority", 0)
        spec.setdefault("preemptionPolicy", "PreemptLowerPriority")
        status = pod.setdefault("status", {})
        status.setdefault("phase", "Pending")
        if spec.get("schedulingGates"):
            created = pod["metadata"].get("creationTimestamp")
            status["conditions"] = [{**_GATED_CONDITION, "lastTransitionTime": created}]
        merge_label_keys(pod)
    elif isinstance(pod.get("status"), dict):
        set_pod_addresses(pod["status"])
        keep_observed_values(pod["status"], old.get("status") or {})


def _set_host_ports(spec: Object) -> None:
    for _, container in _iter_containers(spec):
        for port in container.get("ports") or ():
            if port.get("containerPort"):
                port.setdefault("hostPort", port["containerPort"])


def set_pod_spec_defaults(spec: Object) -> None:
    """Set the defaults of pods and pod templates that are not in the schema."""
    for container in (*(each for _, each in _iter_containers(spec)), *(spec.get("ephemeralContainers") or ())):
        policy = "Always" if is_latest_image(container.get("image") or "") else "IfNotPresent"
        container.setdefault("imagePullPolicy", policy)
    for volume in spec.get("volumes") or ():
        if volume.keys() <= {"name"}:
            volume["emptyDir"] = {}
        elif (image := volume.get("image")) is not None and not image.get("pullPolicy"):
            image["pullPolicy"] = "Always" if is_latest_image(image.get("reference") or "") else "IfNotPresent"
        elif (template := (volume.get("ephemeral") or {}).get("volumeClaimTemplate")) is not None:
            template.setdefault("metadata", {})
            template.setdefault("spec", {}).setdefault("volumeMode", "Filesystem")
    drop_disabled_fields(spec)


def set_qos_class(pod: Object) -> None:
    pod["status"]["qosClass"] = compute_qos_class(pod["spec"])


def validate_pod(pod: Object, old: Object | None) -> list[FieldError]:
    """Validate a pod, and that an update changes only mutable fields."""
    spec = pod["spec"]
    name = pod["metadata"].get("name") or ""
    if old is None:
        errors = [*forbid_on_create(pod), *validate_pod_spec(spec, pod_name=name)]
        if spec.get("nodeName") and spec.get("schedulingGates"):
            detail = "cannot be set until all schedulingGates have been cleared"
            errors.append(forbidden_field("spec.nodeName", detail))
        return errors
    status, old_status = pod.get("status") or {}, old.get("status") or {}
    errors = [] if status == old_status else list(validate_pod_status(pod, old))
    if spec == old["spec"]:  # most updates write only the status
        return errors
    errors += validate_pod_spec(spec, pod_name=name) + validate_pod_update(spec, old["spec"])
    return [*errors, *validate_added_containers(pod, old)]


def compute_qos_class(spec: Object) -> str:
    """Return Guaranteed, Burstable or BestEffort, of the resources of the pod itself if it has any."""
    own = spec.get("resources")
    containers = [container.get("resources") or {} for _, container in _iter_containers(spec)]
    resources = containers if own is None else [own]
    sums = {field: _add_amounts(each.get(field) or {} for each in resources) for field in ("requests", "limits")}
    if not sums["requests"] and not sums["limits"]:
        return "BestEffort"
    limited = [_add_amounts([each.get("limits") or {}]) for each in resources if own is None or each.get("limits")]
    if any(each.keys() != set(_QOS_RESOURCES) for each in limited):
        return "Burstable"
    return "Guaranteed" if sums["requests"] == sums["limits"] else "Burstable"


def _add_amounts(quantities: Iterable[Object]) -> dict[str, Fraction]:
    """Return the sums of positive amounts of the resources that matter for the class of a pod."""
    sums: dict[str, Fraction] = {}
    for each in quantities:
        for name in _QOS_RESOURCES:
            if name in each and (amount := parse_quantity(each[name])) > 0:
                sums[name] = sums.get(name, Fraction(0)) + amount
    return sums


def _iter_containers(spec: Object) -> Iterator[tuple[str, Any]]:
    """Yield the field path and the object of each init container and container."""
    for group in ("initContainers", "containers"):
        for index, container in enumerate(spec.get(group) or ()):
            yield f"spec.{group}[{index}]", container


def _add_default_tolerations(spec: Object) -> None:
    """Let a pod tolerate the failure of its node for five minutes, unless it has its own tolerations for that."""
    tolerations = spec.setdefault("tolerations", [])
    for taint in ("not-ready", "unreachable"):
        key, effect = f"node.kubernetes.io/{taint}", "NoExecute"
        if not any(
            each.get("key") in (None, "", key) and each.get("effect") in (None, "", effect) for each in tolerations
        ):
            toleration = {"key": key, "operator": "Exists", "effect": effect}
            tolerations.append({**toleration, "tolerationSeconds": _DEFAULT_TOLERATION_SECONDS})


def _set_default_requests(container: Object) -> None:
    resources = container.get("resources") or {}
    if resources.get("limits"):
        resources["requests"] = {**resources["limits"], **(resources.get("requests") or {})}
