"""Defaults and validation of the selector and the pod template of a workload, with the messages of kube-apiserver."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from pliant.embedded.apiserver.admission.disruption_budgets import label_selector_matches
from pliant.embedded.apiserver.admission.pods import set_pod_spec_defaults
from pliant.embedded.apiserver.admission.validation.pod_spec import validate_pod_spec
from pliant.embedded.apiserver.http.errors import invalid_field
from pliant.embedded.schema import FieldError
from pliant.embedded.schema.metadata import validate_metadata
from pliant.embedded.storage.stored_objects import Object

SELECTOR_MISMATCH = "`selector` does not match template `labels`"


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


def validate_selected_labels(selector: Object, template: Object) -> Iterator[FieldError]:
    """Require that a valid selector matches the labels of the template."""
    labels = template["metadata"].get("labels") or {}
    if not label_selector_matches(selector, labels):
        yield invalid_field("spec.template.metadata.labels", labels, SELECTOR_MISMATCH)


def validate_template(template: Object) -> Iterator[FieldError]:
    for error in validate_metadata(template["metadata"]):
        yield replace(error, field=f"spec.template.{error.field.removeprefix('metadata.')}")
    for error in validate_pod_spec(template["spec"], is_template=True):
        yield replace(error, field=f"spec.template.{error.field}")


def immutable_field_errors(spec: Object, old_spec: Object, *fields: str) -> list[FieldError]:
    changed = [field for field in fields if spec.get(field) != old_spec.get(field)]
    return [invalid_field(f"spec.{field}", spec.get(field), "field is immutable") for field in changed]
