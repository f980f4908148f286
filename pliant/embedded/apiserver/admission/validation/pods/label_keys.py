"""Validation of the label keys by which affinities and spread constraints match the labels of their own pod."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pliant.embedded.apiserver.admission.validation.names import validate_qualified_name
from pliant.embedded.apiserver.http.errors import forbidden_field, invalid_field
from pliant.embedded.schema import FieldError
from pliant.embedded.storage.stored_objects import Object


def validate_label_keys(term: Object, path: str) -> Iterator[FieldError]:
    """Yield the errors of `matchLabelKeys` and `mismatchLabelKeys`."""
    selector, matched = term.get("labelSelector"), term.get("matchLabelKeys") or []
    mismatched = term.get("mismatchLabelKeys") or []
    for field, keys in (("matchLabelKeys", matched), ("mismatchLabelKeys", mismatched)):
        if keys and selector is None:
            yield forbidden_field(f"{path}.{field}", "must not be specified when labelSelector is not set")
        elif keys:
            for index, key in enumerate(keys):
                yield from validate_qualified_name(f"{path}.{field}[{index}]", key)
    if selector is not None:
        yield from _validate_selected_keys(selector, matched, path)
    for index, key in enumerate(matched):
        if key in mismatched:
            detail = "exists in both matchLabelKeys and mismatchLabelKeys"
            yield invalid_field(f"{path}.matchLabelKeys[{index}]", key, detail)


def _validate_selected_keys(selector: Object, keys: Sequence[str], path: str) -> Iterator[FieldError]:
    """Yield errors of keys that the selector also has; a new pod has an expression for each key already."""
    known = set(selector.get("matchLabels") or ())
    positions = {key: index for index, key in enumerate(keys)}
    for expression in selector.get("matchExpressions") or ():
        key = expression.get("key") or ""
        if key in positions and key in known:  # API servers name this path without the field
            yield invalid_field(f"{path}[{positions[key]}]", key, "exists in both matchLabelKeys and labelSelector")
        known.add(key)
