"""Validation of the affinity of a pod to other pods."""

from __future__ import annotations

from collections.abc import Iterator

from pliant.embedded.apiserver.admission.validation import names
from pliant.embedded.apiserver.admission.validation.label_selectors import validate_label_selector
from pliant.embedded.apiserver.admission.validation.pods.label_keys import validate_label_keys
from pliant.embedded.apiserver.http.errors import invalid_field, required_field
from pliant.embedded.schema import FieldError
from pliant.embedded.schema.metadata import DNS_LABEL_RULE
from pliant.embedded.storage.stored_objects import Object


def validate_pod_affinity(spec: Object) -> Iterator[FieldError]:
    """Yield the errors of `podAffinity` and `podAntiAffinity`."""
    for field in ("podAffinity", "podAntiAffinity"):
        affinity = (spec.get("affinity") or {}).get(field) or {}
        path = f"spec.affinity.{field}"
        required = "requiredDuringSchedulingIgnoredDuringExecution"
        for index, term in enumerate(affinity.get(required) or ()):
            yield from _validate_term(term, f"{path}.{required}[{index}]")
        preferred = "preferredDuringSchedulingIgnoredDuringExecution"
        for index, weighted in enumerate(affinity.get(preferred) or ()):
            weight, term_path = weighted.get("weight") or 0, f"{path}.{preferred}[{index}]"
            if not 1 <= weight <= 100:
                yield invalid_field(f"{term_path}.weight", weight, "must be in the range 1-100")
            yield from _validate_term(weighted.get("podAffinityTerm") or {}, f"{term_path}.podAffinityTerm")


def _validate_term(term: Object, path: str) -> Iterator[FieldError]:
    for field in ("labelSelector", "namespaceSelector"):
        yield from validate_label_selector(term.get(field) or {}, f"{path}.{field}")
    for namespace in term.get("namespaces") or ():  # API servers name this path so
        yield from names.validate_name(f"{path}.namespace", namespace, DNS_LABEL_RULE)
    yield from validate_label_keys(term, path)
    key = term.get("topologyKey") or ""
    if not key:
        yield required_field(f"{path}.topologyKey", "can not be empty")
    yield from names.validate_qualified_name(f"{path}.topologyKey", key)
