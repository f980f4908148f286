"""Defaults and validation of namespaces."""

from __future__ import annotations

from typing import Final

from pliant.embedded.apiserver.http.errors import invalid_field
from pliant.embedded.schema import FieldError
from pliant.embedded.schema.metadata import label_value_problem, qualified_name_problem
from pliant.embedded.storage.stored_objects import Object

_KUBERNETES_FINALIZER: Final = "kubernetes"
_STANDARD_FINALIZERS: Final = (_KUBERNETES_FINALIZER, "foregroundDeletion", "orphan")


def set_namespace_defaults(namespace: Object, old: Object | None) -> None:
    """Set the label with the name, and the finalizer that every new namespace has."""
    metadata = namespace["metadata"]
    metadata["labels"] = with_name_label(namespace)["metadata"]["labels"]
    spec = namespace.setdefault("spec", {})
    if old is None and _KUBERNETES_FINALIZER not in (spec.get("finalizers") or ()):
        spec["finalizers"] = [*(spec.get("finalizers") or ()), _KUBERNETES_FINALIZER]
    status = namespace.setdefault("status", {})
    status["phase"] = status.get("phase") or "Active"


def with_name_label(namespace: Object) -> Object:
    """Return a namespace with the label that contains its name, which is empty before it is generated."""
    metadata = namespace["metadata"]
    labels = {**(metadata.get("labels") or {}), "kubernetes.io/metadata.name": metadata.get("name") or ""}
    return {**namespace, "metadata": {**metadata, "labels": labels}}


def validate_namespace(namespace: Object, old: Object | None) -> list[FieldError]:
    """Validate the name as the value of the label that contains it, the finalizers of the spec and the phase."""
    metadata = namespace["metadata"]
    problem = label_value_problem(name := metadata["name"])
    errors = [invalid_field("metadata.labels", name, problem)] if problem else []
    for index, finalizer in enumerate((namespace.get("spec") or {}).get("finalizers") or ()):
        path = "spec.finalizers" if old is None else f"spec.finalizers[{index}]"
        if problem := _finalizer_problem(finalizer):
            errors.append(invalid_field(path, finalizer, problem))
    expected = "Terminating" if metadata.get("deletionTimestamp") else "Active"
    if old is not None and (phase := (namespace.get("status") or {}).get("phase")) != expected:
        is_empty = "is not empty" if expected == "Terminating" else "is empty"
        errors.append(
            invalid_field("status.Phase", phase, f"may only be '{expected}' if `deletionTimestamp` {is_empty}")
        )
    return errors


def _finalizer_problem(name: str) -> str:
    if problem := qualified_name_problem(name):
        return problem
    is_known = "/" in name or name in _STANDARD_FINALIZERS
    return "" if is_known else "name is neither a standard finalizer name nor is it fully qualified"
