"""Evaluators: which resources of a quota an object uses, and how much of them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from pliant.embedded.apiserver.admission.plugins import AdmissionRequest, Operation
from pliant.embedded.apiserver.quota.amounts import ONE, Amounts, count_of, parse_amount
from pliant.embedded.registry.kinds import Kind
from pliant.embedded.storage.stored_objects import Object

Requirement = dict[str, Any]
"""One restriction of a scope: scopeName, operator and values."""
_STORAGE_CLASS_SUFFIX: Final = ".storageclass.storage.k8s.io/"
_STORAGE_CLASS_ANNOTATION: Final = "volume.beta.kubernetes.io/storage-class"
_SHORT_COUNT_NAMES: Final = ("configmaps", "resourcequotas", "replicationcontrollers", "secrets")
"""Core resources that quotas also count by their plain name."""
_UNCOUNTED_RESOURCES: Final = frozenset({"bindings", "componentstatuses", "events", "events.events.k8s.io"})


def count_name(qualified_name: str) -> str:
    """Return the resource of a quota that counts objects: `count/pytorchjobs.kubeflow.org`."""
    return f"count/{qualified_name}"


class Evaluator:
    """Counts the objects of one kind."""

    def __init__(self, qualified_name: str) -> None:
        self.names: tuple[str, ...] = (count_name(qualified_name),)
        if qualified_name in _SHORT_COUNT_NAMES:
            self.names = (*self.names, qualified_name)

    def handles(self, request: AdmissionRequest) -> bool:
        """Return whether an operation may change the usage."""
        return request.operation is Operation.CREATE and not request.subresource

    def matching_resources(self, names: Iterable[str]) -> list[str]:
        """Return the resources of a quota that objects of this kind use."""
        return [name for name in names if name in self.names]

    def matches_scope(self, requirement: Requirement, obj: Object) -> bool:
        return False

    def find_missing_requests(self, names: Iterable[str], obj: Object) -> str:
        """Return what an object must specify because a quota limits these resources; empty if nothing."""
        return ""

    def usage(self, obj: Object) -> Amounts:
        return dict.fromkeys(self.names, ONE)


class ServiceEvaluator(Evaluator):
    def __init__(self) -> None:
        super().__init__("services")
        self.names = (*self.names, "services", "services.nodeports", "services.loadbalancers")

    def handles(self, request: AdmissionRequest) -> bool:
        return request.operation in (Operation.CREATE, Operation.UPDATE) and not request.subresource

    def usage(self, obj: Object) -> Amounts:
        spec = obj.get("spec") or {}
        ports, service_type = spec.get("ports") or (), spec.get("type")
        node_ports = len(ports) if service_type in ("NodePort", "LoadBalancer") else 0
        if service_type == "LoadBalancer" and spec.get("allocateLoadBalancerNodePorts") is False:
            node_ports = sum(bool(port.get("nodePort")) for port in ports)
        return {
            count_name("services"): ONE,
            "services": ONE,
            "services.nodeports": count_of(node_ports),
            "services.loadbalancers": count_of(int(service_type == "LoadBalancer")),
        }


class ClaimEvaluator(Evaluator):
    """Counts PersistentVolumeClaims and the storage that they request, also of each storage class."""

    def __init__(self) -> None:
        super().__init__("persistentvolumeclaims")
        self.names = (*self.names, "persistentvolumeclaims", "requests.storage")

    def handles(self, request: AdmissionRequest) -> bool:
        return request.operation in (Operation.CREATE, Operation.UPDATE) and not request.subresource

    def matching_resources(self, names: Iterable[str]) -> list[str]:
        suffixes = tuple(_STORAGE_CLASS_SUFFIX + name for name in ("persistentvolumeclaims", "requests.storage"))
        return [name for name in names if name in self.names or name.endswith(suffixes)]

    def matches_scope(self, requirement: Requirement, obj: Object) -> bool:
        if requirement.get("scopeName") != "VolumeAttributesClass":
            return False
        spec, status = obj.get("spec") or {}, obj.get("status") or {}
        names = {spec.get("volumeAttributesClassName"), status.get("currentVolumeAttributesClassName")} - {None, ""}
        return matches_operator(requirement, names)

    def usage(self, obj: Object) -> Amounts:
        spec = obj.get("spec") or {}
        result = {count_name("persistentvolumeclaims"): ONE, "persistentvolumeclaims": ONE}
        annotations = obj["metadata"].get("annotations") or {}
        storage_class = annotations.get(_STORAGE_CLASS_ANNOTATION) or spec.get("storageClassName")
        prefix = f"{storage_class}{_STORAGE_CLASS_SUFFIX}" if storage_class else ""
        if prefix:
            result[f"{prefix}persistentvolumeclaims"] = ONE
        requested = ((spec.get("resources") or {}).get("requests") or {}).get("storage")
        if requested is not None:
            storage = max(parse_amount(requested), _allocated_storage(obj, requested), key=lambda each: each.nanos)
            whole_bytes = storage._replace(nanos=-(-storage.nanos // ONE.nanos) * ONE.nanos)
            result["requests.storage"] = whole_bytes
            if prefix:
                result[f"{prefix}requests.storage"] = whole_bytes
        return result


def _allocated_storage(claim: Object, requested: Any) -> Any:
    allocated = ((claim.get("status") or {}).get("allocatedResources") or {}).get("storage")
    return parse_amount(requested if allocated is None else allocated)


def matches_operator(requirement: Requirement, values: set[Any]) -> bool:
    """Return whether one of the values of an object matches a requirement; it may have none."""
    wanted = set(requirement.get("values") or ())
    match requirement.get("operator"):
        case "Exists":
            return bool(values)
        case "DoesNotExist":
            return not values
        case "In":
            return bool(values & wanted)
        case "NotIn":
            return not values or bool(values - wanted)
    return False


def is_counted(kind: Kind) -> bool:
    """Return whether quotas may count the objects of a kind."""
    is_stored = "create" in kind.verbs and "list" in kind.verbs
    return kind.namespaced and is_stored and kind.qualified_name not in _UNCOUNTED_RESOURCES
