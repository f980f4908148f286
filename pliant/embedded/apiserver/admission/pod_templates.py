"""Defaults and validation of the selector and the pod template of a workload, with the messages of kube-apiserver."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from pliant.embedded.apiserver.admission.disruption_budgets import label_selector_matches
from pliant.embedded.apiserver.admission.pods import set_pod_spec_defaults, validate_pod_spec
from pliant.embedded.apiserver.http.errors import forbidden_field, invalid_field, required_field
from pliant.embedded.schema import FieldError
from pliant.embedded.schema.metadata import label_value_problem, qualified_name_problem, validate_metadata
from pliant.embedded.storage.stored_objects import Object


def set_template_defaults(template: Object) -> None:
    spec = template["spec"]
    set_pod_spec_defaults(spec)
    # `serviceAccount` is the deprecated name of the field; clients read both.
    account = spec.get("serviceAccountName") or spec.get("serviceAccount")
    if account:
        spec["serviceAccountName"] = spec["serviceAccount"] = account
    metadata = template["metadata"]
    for field in [field for field, value in metadata.items() if value in (None, {}, [], "")]:
        del metadata[field]


def validate_selector_and_template(selector: Object, template: Object) -> Iterator[FieldError]:
    """Yield the errors of a selector and of the template, whose labels it must match."""
    selector_errors = list(_validate_selector(selector))
    labels = template["metadata"].get("labels") or {}
    if selector_errors:
        yield from selector_errors
        yield invalid_field("spec.selector", selector, "invalid label selector")
    elif not label_selector_matches(selector, labels):
        yield invalid_field("spec.template.metadata.labels", labels, "`selector` does not match template `labels`")
    for error in validate_metadata(template["metadata"]):
        yield replace(error, field=f"spec.template.{error.field.removeprefix('metadata.')}")
    for error in validate_pod_spec(template["spec"]):
        yield replace(error, field=f"spec.template.{error.field}")


def _validate_selector(selector: Object) -> Iterator[FieldError]:
    """Yield the errors of the keys, values and operators of a label selector."""
    for key, value in (selector.get("matchLabels") or {}).items():
        yield from _validate_key("spec.selector.matchLabels", key)
        if problem := label_value_problem(value):
            yield invalid_field("spec.selector.matchLabels", value, problem)
    for index, expression in enumerate(selector.get("matchExpressions") or ()):
        yield from _validate_expression(f"spec.selector.matchExpressions[{index}]", expression)


def immutable_field_errors(spec: Object, old_spec: Object, *fields: str) -> list[FieldError]:
    changed = [field for field in fields if spec.get(field) != old_spec.get(field)]
    return [invalid_field(f"spec.{field}", spec.get(field), "field is immutable") for field in changed]


def _validate_key(path: str, key: Any) -> Iterator[FieldError]:
    if problem := qualified_name_problem(key):
        yield invalid_field(path, key, problem)


def _validate_expression(path: str, expression: Object) -> Iterator[FieldError]:
    values = expression.get("values") or ()
    match expression.get("operator"):
        case "In" | "NotIn":
            if not values:
                detail = "must be specified when `operator` is 'In' or 'NotIn'"
                yield required_field(f"{path}.values", detail)
        case "Exists" | "DoesNotExist":
            if values:
                detail = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
                yield forbidden_field(f"{path}.values", detail)
        case other:
            yield invalid_field(f"{path}.operator", other, "not a valid selector operator")
    yield from _validate_key(f"{path}.key", expression.get("key") or "")
    for index, value in enumerate(values):
        if problem := label_value_problem(value):
            yield invalid_field(f"{path}.values[{index}]", value, problem)
