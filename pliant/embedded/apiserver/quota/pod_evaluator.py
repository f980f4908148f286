"""The evaluator of pods: their number, and what their containers request."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from typing import Any, Final

from pliant.embedded.apiserver.admission.plugins import AdmissionRequest, Operation
from pliant.embedded.apiserver.admission.pods import compute_qos_class
from pliant.embedded.apiserver.handlers.object_lifecycle import FINISHED_POD_PHASES
from pliant.embedded.apiserver.quota.amounts import ONE, Amounts, add
from pliant.embedded.apiserver.quota.evaluators import Evaluator, Requirement, count_name, matches_operator
from pliant.embedded.apiserver.quota.pod_resources import container_amounts, has_pod_level_resources, pod_amounts
from pliant.embedded.apiserver.quota.resource_names import (
    HUGE_PAGES_PREFIX,
    REQUESTS_PREFIX,
    is_device_resource,
    is_extended_quota_resource,
)
from pliant.embedded.registry.tables import parse_timestamp
from pliant.embedded.storage.stored_objects import Object

_COMPUTE_RESOURCES: Final = ("cpu", "memory", "ephemeral-storage")
_REQUIRED_RESOURCES: Final = frozenset(
    {f"{prefix}{name}" for prefix in ("", "requests.", "limits.") for name in ("cpu", "memory")}
)
"""Every container must specify these if a quota limits them."""


class PodEvaluator(Evaluator):
    def __init__(self) -> None:
        super().__init__("pods")
        sections = ("", "requests.", "limits.")
        compute = (f"{section}{name}" for section in sections for name in _COMPUTE_RESOURCES)
        self.names = (*self.names, *compute, "pods")

    def handles(self, request: AdmissionRequest) -> bool:
        if request.subresource:
            return False
        if request.operation is Operation.UPDATE and request.obj is not None and request.old is not None:
            return _has_deadline(request.obj) != _has_deadline(request.old)
        return request.operation is Operation.CREATE

    def matching_resources(self, names: Iterable[str]) -> list[str]:
        prefixes = (HUGE_PAGES_PREFIX, REQUESTS_PREFIX + HUGE_PAGES_PREFIX)
        return [
            name
            for name in names
            if name in self.names or name.startswith(prefixes) or is_extended_quota_resource(name)
        ]

    def matches_scope(self, requirement: Requirement, obj: Object) -> bool:
        match requirement.get("scopeName"):
            case "Terminating":
                return _has_deadline(obj)
            case "NotTerminating":
                return not _has_deadline(obj)
            case "BestEffort":
                return _is_best_effort(obj)
            case "NotBestEffort":
                return not _is_best_effort(obj)
            case "PriorityClass":
                priority_class = obj["spec"].get("priorityClassName")
                return matches_operator(requirement, {priority_class} if priority_class else set())
            case "CrossNamespacePodAffinity":
                return any(term.get("namespaces") or "namespaceSelector" in term for term in _affinity_terms(obj))
        return False

    def find_missing_requests(self, names: Iterable[str], obj: Object) -> str:
        spec = obj["spec"]
        if has_pod_level_resources(spec):
            return ""
        required = _REQUIRED_RESOURCES.intersection(names)
        missing: dict[str, set[str]] = {}
        for container in (*(spec.get("containers") or ()), *(spec.get("initContainers") or ())):
            present = _compute_usage(container_amounts(container, "requests"), container_amounts(container, "limits"))
            for name in required - present.keys():
                missing.setdefault(name, set()).add(container["name"])
        if not missing:
            return ""
        parts = (f"{name} for: {','.join(sorted(containers))}" for name, containers in sorted(missing.items()))
        return f"must specify {'; '.join(parts)}"

    def usage(self, obj: Object) -> Amounts:
        """Return what a pod uses; a pod that has ended uses only its place among the stored objects."""
        result = {count_name("pods"): ONE}
        if (obj.get("status") or {}).get("phase") in FINISHED_POD_PHASES:
            return result
        spec = obj["spec"]
        return add(result, _compute_usage(pod_amounts(spec, "requests"), pod_amounts(spec, "limits")))


def deletion_deadline(pod: Object) -> datetime | None:
    """Return when a terminating pod should be gone; after that, for example on a lost node, it uses no quota."""
    metadata = pod["metadata"]
    deletion, grace = parse_timestamp(metadata.get("deletionTimestamp")), metadata.get("deletionGracePeriodSeconds")
    return None if deletion is None or grace is None else deletion + timedelta(seconds=grace)


def _compute_usage(requests: Amounts, limits: Amounts) -> Amounts:
    result = {"pods": ONE}
    for name in _COMPUTE_RESOURCES:
        if name in requests:
            result[name] = result[REQUESTS_PREFIX + name] = requests[name]
        if name in limits:
            result[f"limits.{name}"] = limits[name]
    for name, amount in requests.items():
        if name.startswith(HUGE_PAGES_PREFIX):
            result[name] = result[REQUESTS_PREFIX + name] = amount
        elif is_device_resource(name):
            result[REQUESTS_PREFIX + name] = amount
    return result


def _has_deadline(pod: Object) -> bool:
    deadline = (pod.get("spec") or {}).get("activeDeadlineSeconds")
    return deadline is not None and deadline >= 0


def _is_best_effort(pod: Object) -> bool:
    qos_class = (pod.get("status") or {}).get("qosClass")
    return (qos_class or compute_qos_class(pod["spec"])) == "BestEffort"


def _affinity_terms(pod: Object) -> Iterator[dict[str, Any]]:
    affinity = pod["spec"].get("affinity") or {}
    for field in ("podAffinity", "podAntiAffinity"):
        group = affinity.get(field) or {}
        yield from group.get("requiredDuringSchedulingIgnoredDuringExecution") or ()
        for preferred in group.get("preferredDuringSchedulingIgnoredDuringExecution") or ():
            yield preferred.get("podAffinityTerm") or {}
