"""Admission and validation of PriorityClasses, and the priority of new pods."""

from __future__ import annotations

from typing import Any

from pliant.embedded.apiserver.admission.plugins import AdmissionRequest, Operation
from pliant.embedded.apiserver.http.errors import (
    forbidden,
    forbidden_field,
    invalid_field,
    required_field,
    unsupported_value,
)
from pliant.embedded.registry.kinds import Kind
from pliant.embedded.schema import FieldError
from pliant.embedded.storage.store import Transaction
from pliant.embedded.storage.stored_objects import Object, ObjectKey

PRIORITY_CLASSES_RESOURCE_KEY = "scheduling.k8s.io/priorityclasses"
_MAX_USER_PRIORITY = 1_000_000_000
_BUILTIN_PRIORITIES = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}
_PREEMPTION_POLICIES = ("Never", "PreemptLowerPriority")
_DEFAULT_PREEMPTION_POLICY = "PreemptLowerPriority"


class PriorityAdmission:
    """The admission plug-in that refuses a second default PriorityClass."""

    def is_active(self, transaction: Transaction, kind: Kind, namespace: str) -> bool:
        return kind.resource_key == PRIORITY_CLASSES_RESOURCE_KEY

    def mutate(self, request: AdmissionRequest) -> None:
        """Leave the class as it is."""

    def validate(self, request: AdmissionRequest) -> None:
        """Raise `Forbidden` if the class would be another default."""
        if request.operation not in (Operation.CREATE, Operation.UPDATE) or not (request.obj or {}).get(
            "globalDefault"
        ):
            return
        name = _find_default_class(request.transaction)["metadata"]["name"]
        if name and (request.operation is Operation.CREATE or name != request.name):
            detail = f"PriorityClass {name} is already marked as default. Only one default can exist"
            raise forbidden(request.kind, request.name, detail)


def set_pod_priority(transaction: Transaction, kind: Kind, pod: Object) -> None:
    """Set the priority of a new pod from its PriorityClass; raise `Forbidden` when the class does not exist."""
    spec: Any = pod.get("spec")
    if not isinstance(spec, dict) or not isinstance(spec.get("priorityClassName", ""), str | None):
        return  # the validation of the schema reports it
    name = pod["metadata"].get("name") or pod["metadata"].get("generateName") or "Unknown"
    priority_class = _find_priority_class(transaction, spec.get("priorityClassName") or "")
    if priority_class is None:
        raise forbidden(kind, name, f"no PriorityClass with name {spec['priorityClassName']} was found")
    value = priority_class.get("value", 0)
    policy = priority_class.get("preemptionPolicy") or _DEFAULT_PREEMPTION_POLICY
    for field, title, computed in (
        ("priority", "integer value of priority", value),
        ("preemptionPolicy", "string value of PreemptionPolicy", policy),
    ):
        if spec.get(field) not in (None, computed):
            detail = f"the {title} ({spec[field]}) must not be provided in pod spec; "
            detail += f"priority admission controller computed {computed} from the given PriorityClass name"
            raise forbidden(kind, name, detail)
    spec["priority"] = value
    if priority_class["metadata"]["name"]:
        spec["priorityClassName"] = priority_class["metadata"]["name"]
    spec["preemptionPolicy"] = policy


def set_priority_class_defaults(priority_class: Object, old: Object | None) -> None:
    priority_class.setdefault("preemptionPolicy", _DEFAULT_PREEMPTION_POLICY)
    if old is None:
        priority_class["metadata"]["generation"] = 1


def validate_priority_class(priority_class: Object, old: Object | None) -> list[FieldError]:
    name, value = priority_class["metadata"]["name"], priority_class.get("value", 0)
    if old is not None:
        return _validate_priority_class_update(priority_class, old)
    if name.startswith("system-"):
        detail = "priority class names with 'system-' prefix are reserved for system use only"
        return [forbidden_field("metadata.name", detail)]
    policy = priority_class.get("preemptionPolicy")
    if not policy:
        return [required_field("preemptionPolicy")]
    if policy not in _PREEMPTION_POLICIES:
        return [unsupported_value("preemptionPolicy", policy, _PREEMPTION_POLICIES)]
    if value > _MAX_USER_PRIORITY:
        detail = f"maximum allowed value of a user defined priority is {_MAX_USER_PRIORITY}"
        return [forbidden_field("value", detail)]
    return []


def _validate_priority_class_update(priority_class: Object, old: Object) -> list[FieldError]:
    errors = []
    if priority_class.get("value") != old.get("value"):
        errors.append(forbidden_field("value", "may not be changed in an update."))
    policy = priority_class.get("preemptionPolicy")
    if policy != old.get("preemptionPolicy"):
        errors.append(invalid_field("preemptionPolicy", policy, "field is immutable"))
    return errors


def _find_priority_class(transaction: Transaction, name: str) -> Object | None:
    """Return the class of this name, the default class if the name is empty, or None."""
    if name in _BUILTIN_PRIORITIES:
        return {"metadata": {"name": name}, "value": _BUILTIN_PRIORITIES[name]}
    if name:
        record = transaction.get(ObjectKey(PRIORITY_CLASSES_RESOURCE_KEY, "", name))
        return None if record is None else record.decode()
    return _find_default_class(transaction)


def _find_default_class(transaction: Transaction) -> Object:
    """Return the default class of lowest priority; without one, a class without a name."""
    classes = [record.decode() for record in transaction.committed.list_objects(PRIORITY_CLASSES_RESOURCE_KEY)]
    defaults = [each for each in classes if each.get("globalDefault")]
    return min(defaults, key=lambda each: each.get("value", 0), default={"metadata": {"name": ""}, "value": 0})
