"""What the server adds to pods and refuses of them beyond their schema."""

from __future__ import annotations

from typing import Any

from pliant.embedded.schema import Problem, Reason, copied
from pliant.embedded.server.affinityrules import affinity_problems
from pliant.embedded.server.checkrules import check_problems
from pliant.embedded.storage.records import Object
from pliant.kube.amounts import amount

_UNITS = ("cpu", "memory")
_PATIENCE = 300
_ONLY = (
    "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,"
    "`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),"
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
)


def complete_pod(pod: Object, old: Object | None) -> None:
    """Fill in what follows from other fields."""
    spec = pod.setdefault("spec", {})
    for container in _containers(spec):
        _complete_container(container)
    # The older name of the same field; clients still read either.
    spec["serviceAccount"] = spec.setdefault("serviceAccountName", "default")
    if old is None:
        spec.setdefault("priority", 0)
        spec.setdefault("preemptionPolicy", "PreemptLowerPriority")
        _tolerate_for_a_while(spec)
        status = pod.setdefault("status", {})
        status.setdefault("phase", "Pending")
        status["qosClass"] = quality_of_service(spec)


def pod_problems(pod: Object, old: Object | None) -> list[Problem]:
    """Rules between fields, and what may not change once a pod exists."""
    if old is not None:
        same = pod["spec"] == old["spec"] or _settled(pod["spec"]) == _settled(old["spec"])
        return [] if same else [Problem("spec", Reason.FORBIDDEN.cause, f"Forbidden: {_ONLY}")]
    if not pod["spec"].get("containers"):
        return [Problem("spec.containers", Reason.REQUIRED.cause, Reason.REQUIRED.words)]
    spec = pod["spec"]
    if senseless := _senseless_amounts(spec):
        return senseless
    rules = (_repeated_names, _unknown_volumes, _limits_exceeded, affinity_problems, check_problems)
    return [problem for rule in rules for problem in rule(spec)]


def quality_of_service(spec: Object) -> str:
    """Guaranteed, Burstable or BestEffort, from what the containers ask for."""
    asks = [container.get("resources") or {} for container in _containers(spec)]
    if not any((ask.get("requests") or {}).get(unit) for ask in asks for unit in _UNITS):
        return "BestEffort"
    for ask in asks:
        limits, requests = ask.get("limits") or {}, ask.get("requests") or {}
        if any(not limits.get(unit) or limits[unit] != requests.get(unit) for unit in _UNITS):
            return "Burstable"
    return "Guaranteed"


def _tolerate_for_a_while(spec: Object) -> None:
    """A pod outlives five minutes without news of its node, unless it says otherwise."""
    tolerations = spec.setdefault("tolerations", [])
    for trouble in ("not-ready", "unreachable"):
        key = f"node.kubernetes.io/{trouble}"
        if not any(
            each.get("key") in (None, "", key) and each.get("effect") in (None, "", "NoExecute")
            for each in tolerations
        ):
            tolerations.append(
                {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": _PATIENCE}
            )


def _complete_container(container: Object) -> None:
    image = str(container.get("image") or "")
    is_pinned = "@" in image or (":" in image.rpartition("/")[2] and not image.endswith(":latest"))
    container.setdefault("imagePullPolicy", "IfNotPresent" if is_pinned else "Always")
    resources = container.get("resources") or {}
    if resources.get("limits"):
        resources["requests"] = {**resources["limits"], **(resources.get("requests") or {})}


def _containers(spec: Object) -> list[Any]:
    return [*(spec.get("initContainers") or ()), *(spec.get("containers") or ())]


def _settled(spec: Object) -> Object:
    """What of a spec may never change."""
    settled = copied(spec)
    for container in _containers(settled):
        container.pop("image", None)
        container.pop("imagePullPolicy", None)
    for field in ("activeDeadlineSeconds", "tolerations", "terminationGracePeriodSeconds"):
        settled.pop(field, None)
    return dict(settled)


def _repeated_names(spec: Object) -> list[Problem]:
    problems, seen = [], set()
    for group in ("initContainers", "containers"):
        for index, container in enumerate(spec.get(group) or ()):
            name = container.get("name")
            if name in seen:
                problems.append(Problem.of(f"spec.{group}[{index}].name", Reason.DUPLICATE, name, ""))
            seen.add(name)
    return problems


def _senseless_amounts(spec: Object) -> list[Problem]:
    """What is no amount, or less than none: the published schema only says how one that is text is written."""
    return [
        Problem.of(f"spec.{group}[{index}].resources.{side}[{unit}]", Reason.INVALID, value, why)
        for group in ("initContainers", "containers")
        for index, container in enumerate(spec.get(group) or ())
        for side in ("limits", "requests")
        for unit, value in ((container.get("resources") or {}).get(side) or {}).items()
        if (why := _senseless(value))
    ]


def _senseless(value: object) -> str:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return "must be an amount"
    return "must be greater than or equal to 0" if amount(value) < 0 else ""


def _limits_exceeded(spec: Object) -> list[Problem]:
    problems = []
    for group in ("initContainers", "containers"):
        for index, container in enumerate(spec.get(group) or ()):
            resources = container.get("resources") or {}
            limits = resources.get("limits") or {}
            for resource, wanted in (resources.get("requests") or {}).items():
                if resource in limits and amount(wanted) > amount(limits[resource]):
                    why = f"must be less than or equal to {resource} limit of {limits[resource]}"
                    place = f"spec.{group}[{index}].resources.requests"
                    problems.append(Problem.of(place, Reason.INVALID, str(wanted), why))
    return problems


def _unknown_volumes(spec: Object) -> list[Problem]:
    known = {volume.get("name") for volume in spec.get("volumes") or ()}
    return [
        Problem(
            f"spec.{group}[{index}].volumeMounts[{place}].name",
            "FieldValueNotFound",
            f'Not found: "{mount["name"]}"',
        )
        for group in ("initContainers", "containers")
        for index, container in enumerate(spec.get(group) or ())
        for place, mount in enumerate(container.get("volumeMounts") or ())
        if mount.get("name") not in known
    ]
