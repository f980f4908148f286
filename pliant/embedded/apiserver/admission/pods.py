"""What the server refuses of the nodes a pod asks for, in the words of the real one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pliant.embedded.schema import FieldError, FieldErrorType, deep_copy
from pliant.embedded.storage.stored_objects import Object
from pliant.kube.quantity import parse_quantity

_REQUIRED_DURING_SCHEDULING = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED_DURING_SCHEDULING = "preferredDuringSchedulingIgnoredDuringExecution"
_MAX_AFFINITY_WEIGHT = 100
_INVALID_OPERATOR_MESSAGE = "not a valid selector operator"


def validate_node_affinity(spec: Object) -> Iterator[FieldError]:
    """Everything wrong with the node affinity of a pod."""
    wishes = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    path = "spec.affinity.nodeAffinity"
    if required := wishes.get(_REQUIRED_DURING_SCHEDULING):
        place = f"{path}.{_REQUIRED_DURING_SCHEDULING}.nodeSelectorTerms"
        terms = required.get("nodeSelectorTerms") or ()
        if not terms:
            yield FieldError.of(place, FieldErrorType.REQUIRED, None, "must have at least one node selector term")
        for index, term in enumerate(terms):
            yield from _validate_node_selector_term(term, f"{place}[{index}]")
    for index, each in enumerate(wishes.get(_PREFERRED_DURING_SCHEDULING) or ()):
        place, weight = f"{path}.{_PREFERRED_DURING_SCHEDULING}[{index}]", each.get("weight") or 0
        if not 1 <= weight <= _MAX_AFFINITY_WEIGHT:
            yield FieldError.of(f"{place}.weight", FieldErrorType.INVALID, weight, "must be in the range 1-100")
        yield from _validate_node_selector_term(each.get("preference") or {}, f"{place}.preference")


def _validate_node_selector_term(term: Object, path: str) -> Iterator[FieldError]:
    for index, each in enumerate(term.get("matchExpressions") or ()):
        yield from _validate_match_expression(each, f"{path}.matchExpressions[{index}]")
    for index, each in enumerate(term.get("matchFields") or ()):
        yield from _validate_match_field(each, f"{path}.matchFields[{index}]")


def _validate_match_expression(requirement: Object, path: str) -> Iterator[FieldError]:
    values: list[Any] = requirement.get("values") or []
    match requirement.get("operator"):
        case "In" | "NotIn":
            if not values:
                words = "must be specified when `operator` is 'In' or 'NotIn'"
                yield FieldError.of(f"{path}.values", FieldErrorType.REQUIRED, None, words)
        case "Exists" | "DoesNotExist":
            if values:
                words = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
                yield FieldError.of(f"{path}.values", FieldErrorType.FORBIDDEN, None, words)
        case "Gt" | "Lt":
            if len(values) != 1:
                words = "must be specified single value when `operator` is 'Lt' or 'Gt'"
                yield FieldError.of(f"{path}.values", FieldErrorType.REQUIRED, None, words)
        case other:
            yield FieldError.of(f"{path}.operator", FieldErrorType.INVALID, other, _INVALID_OPERATOR_MESSAGE)


def _validate_match_field(requirement: Object, path: str) -> Iterator[FieldError]:
    if requirement.get("operator") not in ("In", "NotIn"):
        yield FieldError.of(
            f"{path}.operator", FieldErrorType.INVALID, requirement.get("operator"), _INVALID_OPERATOR_MESSAGE
        )
    elif len(requirement.get("values") or ()) != 1:
        words = "must be only one value when `operator` is 'In' or 'NotIn' for node field selector"
        yield FieldError.of(f"{path}.values", FieldErrorType.REQUIRED, None, words)
    if requirement.get("key") != "metadata.name":
        yield FieldError.of(
            f"{path}.key", FieldErrorType.INVALID, requirement.get("key"), "not a valid field selector key"
        )


_PROBE_FIELDS = ("livenessProbe", "readinessProbe", "startupProbe")
_PROBE_HANDLER_TYPES = ("exec", "httpGet", "tcpSocket", "grpc")
_HOOK_HANDLER_TYPES = ("exec", "httpGet", "tcpSocket", "sleep")
_RESTART_POLICIES = ("Always", "Never", "OnFailure")
_MAX_PORT = 65535


def validate_probes_and_hooks(spec: Object) -> Iterator[FieldError]:
    """All that is wrong with the probes and hooks of a pod, and with containers that may have none."""
    for index, container in enumerate(spec.get("containers") or ()):
        yield from _validate_container_probes(container, f"spec.containers[{index}]")
    for index, container in enumerate(spec.get("initContainers") or ()):
        place, policy = f"spec.initContainers[{index}]", container.get("restartPolicy")
        if policy is not None and policy not in _RESTART_POLICIES:
            words = ", ".join(f'"{each}"' for each in _RESTART_POLICIES)
            yield FieldError.of(
                f"{place}.restartPolicy", FieldErrorType.UNSUPPORTED, policy, f"supported values: {words}"
            )
        if policy == "Always":
            yield from _validate_container_probes(container, place)
            continue
        for field in (*_PROBE_FIELDS, "lifecycle"):
            if container.get(field):
                why = "may not be set for init containers without restartPolicy=Always"
                yield FieldError.of(f"{place}.{field}", FieldErrorType.FORBIDDEN, None, why)


def _validate_container_probes(container: Object, path: str) -> Iterator[FieldError]:
    for kind in _PROBE_FIELDS:
        probe, where = container.get(kind), f"{path}.{kind}"
        if probe is None:
            continue
        yield from _validate_handler(probe, where, _PROBE_HANDLER_TYPES)
        grace = probe.get("terminationGracePeriodSeconds")
        if kind == "readinessProbe" and grace is not None:
            field = f"{where}.terminationGracePeriodSeconds"
            yield FieldError.of(field, FieldErrorType.INVALID, grace, "must not be set for readinessProbes")
        if kind != "readinessProbe" and probe.get("successThreshold") not in (None, 1):
            yield FieldError.of(
                f"{where}.successThreshold", FieldErrorType.INVALID, probe["successThreshold"], "must be 1"
            )
    for kind, hook in (container.get("lifecycle") or {}).items():
        if isinstance(hook, dict):
            yield from _validate_handler(hook, f"{path}.lifecycle.{kind}", _HOOK_HANDLER_TYPES)


def _validate_handler(handler: Object, path: str, handler_types: tuple[str, ...]) -> Iterator[FieldError]:
    """There must be one way to ask, and it must be sound."""
    chosen = [way for way in handler_types if handler.get(way) is not None]
    if not chosen:
        yield FieldError.of(path, FieldErrorType.REQUIRED, None, "must specify a handler type")
    for way in chosen[1:]:
        yield FieldError.of(f"{path}.{way}", FieldErrorType.FORBIDDEN, None, "may not specify more than 1 handler type")
    if chosen[:1] == ["exec"] and not handler["exec"].get("command"):
        yield FieldError.of(f"{path}.exec.command", FieldErrorType.REQUIRED, None, "")
    if chosen and chosen[0] in ("httpGet", "tcpSocket") and not _is_valid_port(handler[chosen[0]].get("port")):
        why = f"must be between 1 and {_MAX_PORT}, inclusive"
        yield FieldError.of(f"{path}.{chosen[0]}.port", FieldErrorType.INVALID, handler[chosen[0]].get("port"), why)


def _is_valid_port(port: Any) -> bool:
    return bool(port) if isinstance(port, str) else isinstance(port, int) and 1 <= port <= _MAX_PORT


_QOS_RESOURCES = ("cpu", "memory")
_DEFAULT_TOLERATION_SECONDS = 300
_FORBIDDEN_POD_UPDATE_MESSAGE = (
    "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,"
    "`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),"
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
)


def set_pod_defaults(pod: Object, old: Object | None) -> None:
    """Fill in what follows from other fields."""
    spec = pod.setdefault("spec", {})
    for container in _list_all_containers(spec):
        _set_container_defaults(container)
    # The older name of the same field; clients still read either.
    spec["serviceAccount"] = spec.setdefault("serviceAccountName", "default")
    if old is None:
        spec.setdefault("priority", 0)
        spec.setdefault("preemptionPolicy", "PreemptLowerPriority")
        _add_default_tolerations(spec)
        status = pod.setdefault("status", {})
        status.setdefault("phase", "Pending")
        status["qosClass"] = compute_qos_class(spec)


def validate_pod(pod: Object, old: Object | None) -> list[FieldError]:
    """Rules between fields, and what may not change once a pod exists."""
    if old is not None:
        same = pod["spec"] == old["spec"] or _without_mutable_fields(pod["spec"]) == _without_mutable_fields(
            old["spec"]
        )
        return (
            []
            if same
            else [FieldError("spec", FieldErrorType.FORBIDDEN.cause, f"Forbidden: {_FORBIDDEN_POD_UPDATE_MESSAGE}")]
        )
    if not pod["spec"].get("containers"):
        return [FieldError("spec.containers", FieldErrorType.REQUIRED.cause, FieldErrorType.REQUIRED.message_prefix)]
    spec = pod["spec"]
    if senseless := _validate_resource_quantities(spec):
        return senseless
    rules = (
        _validate_container_names,
        _validate_volume_mounts,
        _validate_requests_within_limits,
        validate_node_affinity,
        validate_probes_and_hooks,
    )
    return [problem for rule in rules for problem in rule(spec)]


def compute_qos_class(spec: Object) -> str:
    """Guaranteed, Burstable or BestEffort, from what the containers ask for."""
    asks = [container.get("resources") or {} for container in _list_all_containers(spec)]
    if not any((ask.get("requests") or {}).get(unit) for ask in asks for unit in _QOS_RESOURCES):
        return "BestEffort"
    for ask in asks:
        limits, requests = ask.get("limits") or {}, ask.get("requests") or {}
        if any(not limits.get(unit) or limits[unit] != requests.get(unit) for unit in _QOS_RESOURCES):
            return "Burstable"
    return "Guaranteed"


def _add_default_tolerations(spec: Object) -> None:
    """A pod outlives five minutes without news of its node, unless it says otherwise."""
    tolerations = spec.setdefault("tolerations", [])
    for trouble in ("not-ready", "unreachable"):
        key = f"node.kubernetes.io/{trouble}"
        if not any(
            each.get("key") in (None, "", key) and each.get("effect") in (None, "", "NoExecute") for each in tolerations
        ):
            tolerations.append(
                {
                    "key": key,
                    "operator": "Exists",
                    "effect": "NoExecute",
                    "tolerationSeconds": _DEFAULT_TOLERATION_SECONDS,
                }
            )


def _set_container_defaults(container: Object) -> None:
    image = str(container.get("image") or "")
    is_pinned = "@" in image or (":" in image.rpartition("/")[2] and not image.endswith(":latest"))
    container.setdefault("imagePullPolicy", "IfNotPresent" if is_pinned else "Always")
    resources = container.get("resources") or {}
    if resources.get("limits"):
        resources["requests"] = {**resources["limits"], **(resources.get("requests") or {})}


def _list_all_containers(spec: Object) -> list[Any]:
    return [*(spec.get("initContainers") or ()), *(spec.get("containers") or ())]


def _without_mutable_fields(spec: Object) -> Object:
    """What of a spec may never change."""
    settled = deep_copy(spec)
    for container in _list_all_containers(settled):
        container.pop("image", None)
        container.pop("imagePullPolicy", None)
    for field in ("activeDeadlineSeconds", "tolerations", "terminationGracePeriodSeconds"):
        settled.pop(field, None)
    return dict(settled)


def _validate_container_names(spec: Object) -> list[FieldError]:
    problems, seen = [], set()
    for group in ("initContainers", "containers"):
        for index, container in enumerate(spec.get(group) or ()):
            name = container.get("name")
            if name in seen:
                problems.append(FieldError.of(f"spec.{group}[{index}].name", FieldErrorType.DUPLICATE, name, ""))
            seen.add(name)
    return problems


def _validate_resource_quantities(spec: Object) -> list[FieldError]:
    """What is no amount, or less than none: the published schema only says how one that is text is written."""
    return [
        FieldError.of(f"spec.{group}[{index}].resources.{side}[{unit}]", FieldErrorType.INVALID, value, why)
        for group in ("initContainers", "containers")
        for index, container in enumerate(spec.get(group) or ())
        for side in ("limits", "requests")
        for unit, value in ((container.get("resources") or {}).get(side) or {}).items()
        if (why := _quantity_error(value))
    ]


def _quantity_error(value: object) -> str:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return "must be an amount"
    return "must be greater than or equal to 0" if parse_quantity(value) < 0 else ""


def _validate_requests_within_limits(spec: Object) -> list[FieldError]:
    problems = []
    for group in ("initContainers", "containers"):
        for index, container in enumerate(spec.get(group) or ()):
            resources = container.get("resources") or {}
            limits = resources.get("limits") or {}
            for resource, wanted in (resources.get("requests") or {}).items():
                if resource in limits and parse_quantity(wanted) > parse_quantity(limits[resource]):
                    why = f"must be less than or equal to {resource} limit of {limits[resource]}"
                    place = f"spec.{group}[{index}].resources.requests"
                    problems.append(FieldError.of(place, FieldErrorType.INVALID, str(wanted), why))
    return problems


def _validate_volume_mounts(spec: Object) -> list[FieldError]:
    known = {volume.get("name") for volume in spec.get("volumes") or ()}
    return [
        FieldError(
            f"spec.{group}[{index}].volumeMounts[{place}].name", "FieldValueNotFound", f'Not found: "{mount["name"]}"'
        )
        for group in ("initContainers", "containers")
        for index, container in enumerate(spec.get(group) or ())
        for place, mount in enumerate(container.get("volumeMounts") or ())
        if mount.get("name") not in known
    ]
