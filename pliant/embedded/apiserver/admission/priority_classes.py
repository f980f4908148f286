"""How important pods are: the number behind the PriorityClass that each names."""

from __future__ import annotations

from typing import Any

from pliant.embedded.apiserver.http.errors import forbidden
from pliant.embedded.registry.kinds import Kind
from pliant.embedded.schema import FieldError, FieldErrorType
from pliant.embedded.storage.store import Transaction
from pliant.embedded.storage.stored_objects import Object, ObjectKey

PRIORITY_CLASSES = "scheduling.k8s.io/priorityclasses"
_MAX_USER_PRIORITY = 1_000_000_000
_SYSTEM_PREFIX = "system-"
_BUILTIN_PRIORITIES = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}
"""Known without an object, as every cluster has them."""
_DEFAULT_PREEMPTION_POLICY = "PreemptLowerPriority"


def set_pod_priority(transaction: Transaction, kind: Kind, pod: Object) -> None:
    """Write into a new pod what its PriorityClass says; Forbidden when there is none of that name."""
    spec: Any = pod.get("spec")
    if not isinstance(spec, dict) or not isinstance(spec.get("priorityClassName", ""), str | None):
        return  # the schema says what is wrong with it
    name = pod["metadata"].get("name") or ""
    found = _find_priority_class(transaction, spec.get("priorityClassName") or "")
    if found is None:
        raise forbidden(kind, name, f"no PriorityClass with name {spec['priorityClassName']} was found")
    value = found.get("value", 0)
    if spec.get("priority") not in (None, value):
        why = (
            f"the integer value of priority ({spec['priority']}) must not be provided in pod spec; "
            f"priority admission controller computed {value} from the given PriorityClass name"
        )
        raise forbidden(kind, name, why)
    policy = found.get("preemptionPolicy") or _DEFAULT_PREEMPTION_POLICY
    if spec.get("preemptionPolicy") not in (None, policy):
        why = (
            f"the string value of PreemptionPolicy ({spec['preemptionPolicy']}) must not be provided in pod spec; "
            f"priority admission controller computed {policy} from the given PriorityClass name"
        )
        raise forbidden(kind, name, why)
    spec["priority"] = value
    if found["metadata"]["name"]:
        spec["priorityClassName"] = found["metadata"]["name"]
    spec["preemptionPolicy"] = policy


def set_priority_class_defaults(priority_class: Object, old: Object | None) -> None:
    """Fill in what a PriorityClass leaves open."""
    priority_class.setdefault("preemptionPolicy", _DEFAULT_PREEMPTION_POLICY)
    priority_class["metadata"].setdefault("generation", 1)


def validate_priority_class(priority_class: Object, old: Object | None) -> list[FieldError]:
    """A class may not change its mind, nor be more important than the cluster itself."""
    name, value = priority_class["metadata"]["name"], priority_class.get("value", 0)
    if old is not None:
        return _validate_priority_class_update(priority_class, old)
    if name.startswith(_SYSTEM_PREFIX):
        why = "Forbidden: priority class names with 'system-' prefix are reserved for system use only"
        return [FieldError("metadata.name", FieldErrorType.FORBIDDEN.cause, why)]
    if value > _MAX_USER_PRIORITY:
        why = f"Forbidden: maximum allowed value of a user defined priority is {_MAX_USER_PRIORITY}"
        return [FieldError("value", FieldErrorType.FORBIDDEN.cause, why)]
    return []


def _validate_priority_class_update(priority_class: Object, old: Object) -> list[FieldError]:
    problems = []
    if priority_class.get("value") != old.get("value"):
        why = "Forbidden: may not be changed in an update."
        problems.append(FieldError("value", FieldErrorType.FORBIDDEN.cause, why))
    if priority_class.get("preemptionPolicy") != old.get("preemptionPolicy"):
        policy = priority_class.get("preemptionPolicy")
        problems.append(FieldError.of("preemptionPolicy", FieldErrorType.INVALID, policy, "field is immutable"))
    return problems


def _find_priority_class(transaction: Transaction, name: str) -> Object | None:
    """The class of a pod: the one it names, else the default one, else none worth mentioning."""
    if name in _BUILTIN_PRIORITIES:
        return {"metadata": {"name": name}, "value": _BUILTIN_PRIORITIES[name]}
    if name:
        record = transaction.get(ObjectKey(PRIORITY_CLASSES, "", name))
        return None if record is None else record.decode()
    defaults = [each.decode() for each in transaction.committed.list_objects(PRIORITY_CLASSES)]
    chosen = [each for each in defaults if each.get("globalDefault")]
    return min(chosen, key=lambda each: each.get("value", 0), default={"metadata": {"name": ""}, "value": 0})
