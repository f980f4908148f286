"""Defaults of pods, and their validation."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pliant.embedded.apiserver.admission.ephemeral_containers import forbid_on_create, validate_ephemeral_containers
from pliant.embedded.apiserver.admission.validation.image_names import is_latest_image
from pliant.embedded.apiserver.admission.validation.pod_spec import validate_pod_spec
from pliant.embedded.apiserver.admission.validation.pod_status import set_pod_addresses, validate_pod_status
from pliant.embedded.apiserver.admission.validation.pod_update import validate_pod_update
from pliant.embedded.schema import FieldError
from pliant.embedded.storage.stored_objects import Object

_QOS_RESOURCES = ("cpu", "memory")
_DEFAULT_TOLERATION_SECONDS = 300


def set_pod_defaults(pod: Object, old: Object | None) -> None:
    spec = pod.setdefault("spec", {})
    set_pod_spec_defaults(spec)
    for _, container in _iter_containers(spec):
        _set_default_requests(container)
    # `serviceAccount` is the deprecated name of the field; clients read both.
    if old is None:
        spec["serviceAccountName"] = spec.get("serviceAccountName") or "default"
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
    elif isinstance(pod.get("status"), dict):
        set_pod_addresses(pod["status"])
        before = old.get("status") or {}
        if before.get("qosClass"):
            pod["status"]["qosClass"] = before["qosClass"]


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


def set_qos_class(pod: Object) -> None:
    pod["status"]["qosClass"] = compute_qos_class(pod["spec"])


def validate_pod(pod: Object, old: Object | None) -> list[FieldError]:
    """Validate a pod, and that an update changes only mutable fields."""
    spec = pod["spec"]
    if old is None:
        return [*forbid_on_create(pod), *validate_pod_spec(spec)]
    status, old_status = pod.get("status") or {}, old.get("status") or {}
    errors = [] if status == old_status else list(validate_pod_status(status, old_status))
    if spec == old["spec"]:  # most updates write only the status
        return errors
    errors += validate_pod_spec(spec) + validate_pod_update(spec, old["spec"])
    return [*errors, *validate_ephemeral_containers(pod, old)]


def compute_qos_class(spec: Object) -> str:
    """Return Guaranteed, Burstable or BestEffort."""
    resources = [container.get("resources") or {} for _, container in _iter_containers(spec)]
    if not any((each.get("requests") or {}).get(name) for each in resources for name in _QOS_RESOURCES):
        return "BestEffort"
    for each in resources:
        limits, requests = each.get("limits") or {}, each.get("requests") or {}
        if any(not limits.get(name) or limits[name] != requests.get(name) for name in _QOS_RESOURCES):
            return "Burstable"
    return "Guaranteed"


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
