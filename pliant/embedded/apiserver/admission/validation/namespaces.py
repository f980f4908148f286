"""Validation of namespaces."""

from __future__ import annotations

from pliant.embedded.apiserver.http.errors import invalid_field
from pliant.embedded.schema import FieldError
from pliant.embedded.schema.metadata import label_value_problem
from pliant.embedded.storage.stored_objects import Object


def validate_namespace(namespace: Object, old: Object | None) -> list[FieldError]:
    """Validate the name as the value of the label that contains it."""
    problem = label_value_problem(name := namespace["metadata"]["name"])
    return [invalid_field("metadata.labels", name, problem)] if problem else []
