"""How important pods are: the number behind the PriorityClass that each names."""

from __future__ import annotations

from typing import Any

from pliant.embedded.catalog.kinds import Kind
from pliant.embedded.schema import Problem, Reason
from pliant.embedded.server.refusals import forbidden
from pliant.embedded.storage.records import Key, Object
from pliant.embedded.storage.store import Transaction

CLASSES = "scheduling.k8s.io/priorityclasses"
_HIGHEST = 1_000_000_000
_SYSTEM = "system-"
_BUILT_IN = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}
"""Known without an object, as every cluster has them."""
_POLITE_TO_EQUALS = "PreemptLowerPriority"


def settle_priority(transaction: Transaction, kind: Kind, pod: Object) -> None:
    """Write into a new pod what its PriorityClass says; Forbidden when there is none of that name."""
    spec: Any = pod.get("spec")
    if not isinstance(spec, dict) or not isinstance(spec.get("priorityClassName", ""), str | None):
        return  # the schema says what is wrong with it
    name = pod["metadata"].get("name") or ""
    found = _class_of(transaction, spec.get("priorityClassName") or "")
    if found is None:
        raise forbidden(kind, name, f"no PriorityClass with name {spec['priorityClassName']} was found")
    value = found.get("value", 0)
    if spec.get("priority") not in (None, value):
        why = (
            f"the integer value of priority ({spec['priority']}) must not be provided in pod spec; "
            f"priority admission controller computed {value} from the given PriorityClass name"
        )
        raise forbidden(kind, name, why)
    policy = found.get("preemptionPolicy") or _POLITE_TO_EQUALS
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


def complete_class(obj: Object, old: Object | None) -> None:
    """Fill in what a PriorityClass leaves open."""
    obj.setdefault("preemptionPolicy", _POLITE_TO_EQUALS)
    obj["metadata"].setdefault("generation", 1)


def class_problems(obj: Object, old: Object | None) -> list[Problem]:
    """A class may not change its mind, nor be more important than the cluster itself."""
    name, value = obj["metadata"]["name"], obj.get("value", 0)
    if old is not None:
        return _changes(obj, old)
    if name.startswith(_SYSTEM):
        why = "Forbidden: priority class names with 'system-' prefix are reserved for system use only"
        return [Problem("metadata.name", Reason.FORBIDDEN.cause, why)]
    if value > _HIGHEST:
        why = f"Forbidden: maximum allowed value of a user defined priority is {_HIGHEST}"
        return [Problem("value", Reason.FORBIDDEN.cause, why)]
    return []


def _changes(obj: Object, old: Object) -> list[Problem]:
    problems = []
    if obj.get("value") != old.get("value"):
        why = "Forbidden: may not be changed in an update."
        problems.append(Problem("value", Reason.FORBIDDEN.cause, why))
    if obj.get("preemptionPolicy") != old.get("preemptionPolicy"):
        policy = obj.get("preemptionPolicy")
        problems.append(Problem.of("preemptionPolicy", Reason.INVALID, policy, "field is immutable"))
    return problems


def _class_of(transaction: Transaction, name: str) -> Object | None:
    """The class of a pod: the one it names, else the default one, else none worth mentioning."""
    if name in _BUILT_IN:
        return {"metadata": {"name": name}, "value": _BUILT_IN[name]}
    if name:
        record = transaction.get(Key(CLASSES, "", name))
        return None if record is None else record.decode()
    defaults = [each.decode() for each in transaction.visible.listing(CLASSES)]
    chosen = [each for each in defaults if each.get("globalDefault")]
    return min(chosen, key=lambda each: each.get("value", 0), default={"metadata": {"name": ""}, "value": 0})
