"""Defaulting and validation of pods: containers, volumes, resources, node affinity, probes and hooks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pliant.embedded.apiserver.admission.ephemeral_containers import forbid_on_create, validate_ephemeral_containers
from pliant.embedded.apiserver.admission.volume_paths import validate_volume_paths
from pliant.embedded.apiserver.http.errors import (
    duplicate_value,
    forbidden_field,
    invalid_field,
    required_field,
    unsupported_value,
)
from pliant.embedded.schema import FieldError, deep_copy
from pliant.embedded.storage.stored_objects import Object
from pliant.schemas.quantity import parse_quantity

_QOS_RESOURCES = ("cpu", "memory")
_DEFAULT_TOLERATION_SECONDS = 300
FORBIDDEN_POD_UPDATE_MESSAGE = (
    "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,"
    "`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),"
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
)
_INVALID_QUANTITY_MESSAGE = (
    "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
)
_PROBE_FIELDS = ("livenessProbe", "readinessProbe", "startupProbe")
_PROBE_HANDLER_TYPES = ("exec", "httpGet", "tcpSocket", "grpc")
_HOOK_HANDLER_TYPES = ("exec", "httpGet", "tcpSocket", "sleep")
_RESTART_POLICIES = ("Always", "Never", "OnFailure")
_MAX_PORT = 65535
_REQUIRED_DURING_SCHEDULING = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED_DURING_SCHEDULING = "preferredDuringSchedulingIgnoredDuringExecution"
_INVALID_OPERATOR_MESSAGE = "not a valid selector operator"


def set_pod_defaults(pod: Object, old: Object | None) -> None:
    spec = pod.setdefault("spec", {})
    set_pod_spec_defaults(spec)
    for _, container in _iter_containers(spec):
        _set_default_requests(container)
    # `serviceAccount` is the deprecated name of the field; clients read both.
    spec["serviceAccount"] = spec.setdefault("serviceAccountName", "default")
    if old is None:
        spec.setdefault("priority", 0)
        spec.setdefault("preemptionPolicy", "PreemptLowerPriority")
        _add_default_tolerations(spec)
        status = pod.setdefault("status", {})
        status.setdefault("phase", "Pending")


def set_pod_spec_defaults(spec: Object) -> None:
    """Set the defaults of pods and pod templates that are not in the schema."""
    for container in (*(each for _, each in _iter_containers(spec)), *(spec.get("ephemeralContainers") or ())):
        image = str(container.get("image") or "")
        is_pinned = "@" in image or (":" in image.rpartition("/")[2] and not image.endswith(":latest"))
        container.setdefault("imagePullPolicy", "IfNotPresent" if is_pinned else "Always")
    for volume in spec.get("volumes") or ():
        if volume.keys() <= {"name"}:
            volume["emptyDir"] = {}


def set_qos_class(pod: Object) -> None:
    pod["status"]["qosClass"] = compute_qos_class(pod["spec"])


def validate_pod(pod: Object, old: Object | None) -> list[FieldError]:
    """Validate a new pod, or that an update changes only mutable fields."""
    spec = pod["spec"]
    if old is not None:
        if spec == old["spec"] or _without_mutable_fields(spec) == _without_mutable_fields(old["spec"]):
            return list(validate_ephemeral_containers(pod, old))
        return [forbidden_field("spec", FORBIDDEN_POD_UPDATE_MESSAGE)]
    return list(forbid_on_create(pod)) + validate_pod_spec(spec)


def validate_pod_spec(spec: Object) -> list[FieldError]:
    """Validate the spec of a pod or of a pod template; the paths of errors begin with `spec`."""
    if not spec.get("containers"):
        return [required_field("spec.containers")]
    if errors := list(_validate_resource_quantities(spec)):
        return errors
    validators = (
        _validate_container_names,
        _validate_volume_mounts,
        validate_volume_paths,
        _validate_requests_within_limits,
        validate_node_affinity,
        validate_probes_and_hooks,
    )
    return [error for validate in validators for error in validate(spec)]


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


def _without_mutable_fields(spec: Object) -> Object:
    immutable = deep_copy(spec)
    for _, container in _iter_containers(immutable):
        container.pop("image", None)
        container.pop("imagePullPolicy", None)
    for field in ("activeDeadlineSeconds", "tolerations", "terminationGracePeriodSeconds", "ephemeralContainers"):
        immutable.pop(field, None)
    return dict(immutable)


def _validate_container_names(spec: Object) -> Iterator[FieldError]:
    names = set()
    for path, container in _iter_containers(spec):
        name = container.get("name")
        if name in names:
            yield duplicate_value(f"{path}.name", name)
        names.add(name)


def _validate_resource_quantities(spec: Object) -> Iterator[FieldError]:
    """Validate what the schema leaves open: quantities of other JSON types, and negative quantities."""
    for path, container in _iter_containers(spec):
        for group in ("limits", "requests"):
            for name, value in ((container.get("resources") or {}).get(group) or {}).items():
                field = f"{path}.resources.{group}[{name}]"
                if isinstance(value, bool) or not isinstance(value, str | int | float):
                    yield invalid_field(field, value, _INVALID_QUANTITY_MESSAGE)
                elif parse_quantity(value) < 0:
                    yield invalid_field(field, value, "must be greater than or equal to 0")


def _validate_requests_within_limits(spec: Object) -> Iterator[FieldError]:
    for path, container in _iter_containers(spec):
        resources = container.get("resources") or {}
        limits = resources.get("limits") or {}
        for name, request in (resources.get("requests") or {}).items():
            if name in limits and parse_quantity(request) > parse_quantity(limits[name]):
                detail = f"must be less than or equal to {name} limit of {limits[name]}"
                yield invalid_field(f"{path}.resources.requests", str(request), detail)


def _validate_volume_mounts(spec: Object) -> Iterator[FieldError]:
    volumes = {volume.get("name") for volume in spec.get("volumes") or ()}
    for path, container in _iter_containers(spec):
        for index, mount in enumerate(container.get("volumeMounts") or ()):
            if mount.get("name") not in volumes:
                message = f'Not found: "{mount["name"]}"'
                yield FieldError(f"{path}.volumeMounts[{index}].name", "FieldValueNotFound", message)


def validate_node_affinity(spec: Object) -> Iterator[FieldError]:
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    if required := affinity.get(_REQUIRED_DURING_SCHEDULING):
        path = f"spec.affinity.nodeAffinity.{_REQUIRED_DURING_SCHEDULING}.nodeSelectorTerms"
        terms = required.get("nodeSelectorTerms") or ()
        if not terms:
            yield required_field(path, "must have at least one node selector term")
        for index, term in enumerate(terms):
            yield from _validate_node_selector_term(term, f"{path}[{index}]")
    for index, preferred in enumerate(affinity.get(_PREFERRED_DURING_SCHEDULING) or ()):
        path = f"spec.affinity.nodeAffinity.{_PREFERRED_DURING_SCHEDULING}[{index}]"
        weight = preferred.get("weight") or 0
        if not 1 <= weight <= 100:
            yield invalid_field(f"{path}.weight", weight, "must be in the range 1-100")
        yield from _validate_node_selector_term(preferred.get("preference") or {}, f"{path}.preference")


def _validate_node_selector_term(term: Object, path: str) -> Iterator[FieldError]:
    for index, requirement in enumerate(term.get("matchExpressions") or ()):
        yield from _validate_match_expression(requirement, f"{path}.matchExpressions[{index}]")
    for index, requirement in enumerate(term.get("matchFields") or ()):
        yield from _validate_match_field(requirement, f"{path}.matchFields[{index}]")


def _validate_match_expression(requirement: Object, path: str) -> Iterator[FieldError]:
    values: list[Any] = requirement.get("values") or []
    match requirement.get("operator"):
        case "In" | "NotIn":
            if not values:
                yield required_field(f"{path}.values", "must be specified when `operator` is 'In' or 'NotIn'")
        case "Exists" | "DoesNotExist":
            if values:
                detail = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
                yield forbidden_field(f"{path}.values", detail)
        case "Gt" | "Lt":
            if len(values) != 1:
                yield required_field(f"{path}.values", "must be specified single value when `operator` is 'Lt' or 'Gt'")
        case other:
            yield invalid_field(f"{path}.operator", other, _INVALID_OPERATOR_MESSAGE)


def _validate_match_field(requirement: Object, path: str) -> Iterator[FieldError]:
    if requirement.get("operator") not in ("In", "NotIn"):
        yield invalid_field(f"{path}.operator", requirement.get("operator"), _INVALID_OPERATOR_MESSAGE)
    elif len(requirement.get("values") or ()) != 1:
        detail = "must be only one value when `operator` is 'In' or 'NotIn' for node field selector"
        yield required_field(f"{path}.values", detail)
    if requirement.get("key") != "metadata.name":
        yield invalid_field(f"{path}.key", requirement.get("key"), "not a valid field selector key")


def validate_probes_and_hooks(spec: Object) -> Iterator[FieldError]:
    """Validate probes and lifecycle hooks, which only containers and sidecars may have."""
    for index, container in enumerate(spec.get("containers") or ()):
        yield from _validate_container_probes(container, f"spec.containers[{index}]")
    for index, container in enumerate(spec.get("initContainers") or ()):
        path, policy = f"spec.initContainers[{index}]", container.get("restartPolicy")
        if policy is not None and policy not in _RESTART_POLICIES:
            yield unsupported_value(f"{path}.restartPolicy", policy, _RESTART_POLICIES)
        if policy == "Always":
            yield from _validate_container_probes(container, path)
            continue
        for field in (*_PROBE_FIELDS, "lifecycle"):
            if container.get(field):
                detail = "may not be set for init containers without restartPolicy=Always"
                yield forbidden_field(f"{path}.{field}", detail)


def _validate_container_probes(container: Object, container_path: str) -> Iterator[FieldError]:
    for field in _PROBE_FIELDS:
        probe, path = container.get(field), f"{container_path}.{field}"
        if probe is None:
            continue
        yield from _validate_handler(probe, path, _PROBE_HANDLER_TYPES)
        grace, threshold = probe.get("terminationGracePeriodSeconds"), probe.get("successThreshold")
        if field == "readinessProbe" and grace is not None:
            detail = "must not be set for readinessProbes"
            yield invalid_field(f"{path}.terminationGracePeriodSeconds", grace, detail)
        if field != "readinessProbe" and threshold not in (None, 1):
            yield invalid_field(f"{path}.successThreshold", threshold, "must be 1")
    for field, hook in (container.get("lifecycle") or {}).items():
        if isinstance(hook, dict):
            yield from _validate_handler(hook, f"{container_path}.lifecycle.{field}", _HOOK_HANDLER_TYPES)


def _validate_handler(handler: Object, path: str, handler_types: tuple[str, ...]) -> Iterator[FieldError]:
    """Require exactly one handler, with a command or a valid port."""
    present = [handler_type for handler_type in handler_types if handler.get(handler_type) is not None]
    if not present:
        yield required_field(path, "must specify a handler type")
        return
    for handler_type in present[1:]:
        yield forbidden_field(f"{path}.{handler_type}", "may not specify more than 1 handler type")
    handler_type, action = present[0], handler[present[0]]
    if handler_type == "exec" and not action.get("command"):
        yield required_field(f"{path}.exec.command")
    if handler_type in ("httpGet", "tcpSocket") and not _is_valid_port(action.get("port")):
        detail = f"must be between 1 and {_MAX_PORT}, inclusive"
        yield invalid_field(f"{path}.{handler_type}.port", action.get("port"), detail)


def _is_valid_port(port: Any) -> bool:
    return bool(port) if isinstance(port, str) else isinstance(port, int) and 1 <= port <= _MAX_PORT
