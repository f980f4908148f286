"""Validation of label selectors."""

from __future__ import annotations

from collections.abc import Iterator

from pliant.embedded.apiserver.admission.validation.names import validate_labels, validate_qualified_name
from pliant.embedded.apiserver.http.errors import forbidden_field, invalid_field, required_field
from pliant.embedded.schema import FieldError
from pliant.embedded.schema.metadata import label_value_problem
from pliant.embedded.storage.stored_objects import Object


def validate_label_selector(selector: Object, path: str) -> Iterator[FieldError]:
    """Yield the errors of the keys, values and operators of a label selector."""
    yield from validate_labels(f"{path}.matchLabels", selector.get("matchLabels") or {})
    for index, expression in enumerate(selector.get("matchExpressions") or ()):
        yield from _validate_expression(expression, f"{path}.matchExpressions[{index}]")


def _validate_expression(expression: Object, path: str) -> Iterator[FieldError]:
    values = expression.get("values") or ()
    match expression.get("operator"):
        case "In" | "NotIn":
            if not values:
                yield required_field(f"{path}.values", "must be specified when `operator` is 'In' or 'NotIn'")
        case "Exists" | "DoesNotExist":
            if values:
                detail = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
                yield forbidden_field(f"{path}.values", detail)
        case other:
            yield invalid_field(f"{path}.operator", other or "", "not a valid selector operator")
    yield from validate_qualified_name(f"{path}.key", expression.get("key") or "")
    for index, value in enumerate(values):
        if problem := label_value_problem(value):
            yield invalid_field(f"{path}.values[{index}]", value, problem)
