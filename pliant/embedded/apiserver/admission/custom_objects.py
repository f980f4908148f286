"""Validation of custom objects: their type, the schema of their CRD, and its rules."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from pliant.embedded.apiserver.admission.validation.scale_fields import validate_scale_fields
from pliant.embedded.apiserver.handlers.whole_numbers import are_same_values
from pliant.embedded.apiserver.http.errors import invalid_field
from pliant.embedded.registry.kinds import Kind
from pliant.embedded.schema import FieldError, FieldErrorType, Schema
from pliant.embedded.schema.metadata import PATH_SEGMENT_RULE, validate_metadata
from pliant.embedded.storage.stored_objects import Object

_CAUSES_THAT_PREVENT_RULES = frozenset(
    each.cause
    for each in (
        FieldErrorType.UNSUPPORTED,
        FieldErrorType.REQUIRED,
        FieldErrorType.TOO_LONG,
        FieldErrorType.TOO_MANY,
        FieldErrorType.TYPE,
    )
)
_RULES_NOT_EVALUATED = (
    "Invalid value: null: some validation rules were not checked because the object was invalid; correct the existing "
    "errors to complete validation"
)


def validate_custom_object(
    kind: Kind, schema: Schema, obj: Object, old: Object | None, found: Sequence[FieldError]
) -> list[FieldError]:
    """Return the errors of type, schema and rules; objects of a wrong type or size are not passed to rules.

    `found` are errors that the request has besides. The schema says little about an object of another type.
    """
    of_type = _find_type_errors(kind, obj)
    if of_type:
        # The metadata of a new object are validated later, if there are no errors.
        of_metadata = validate_metadata(obj["metadata"], PATH_SEGMENT_RULE) if old is not None else []
        errors = [*of_metadata, *of_type, *schema.validate_structure(obj)]
    else:
        errors = [*schema.validate(obj), *validate_scale_fields(kind, obj)]
        errors = errors if old is None else _without_unchanged_fields(errors, obj, old)
    if not any(error.reason in _CAUSES_THAT_PREVENT_RULES for error in (*found, *errors)):
        return errors + schema.validate_rules(obj, old)
    if not schema.has_rules:
        return errors
    return [*errors, FieldError("<nil>", FieldErrorType.INVALID.cause, _RULES_NOT_EVALUATED)]


def with_type_of_object(kind: Kind, obj: Object) -> Kind:
    """Return a kind with the name and the group that a custom object says it has, for messages about it."""
    api_version = str(obj["apiVersion"])
    group = kind.group if api_version == kind.api_version else api_version.rpartition("/")[0]
    return kind if (kind.kind, kind.group) == (obj["kind"], group) else replace(kind, kind=obj["kind"], group=group)


def _find_type_errors(kind: Kind, obj: Object) -> list[FieldError]:
    return [
        invalid_field(field, obj[field], f"must be {expected}")
        for field, expected in (("kind", kind.kind), ("apiVersion", kind.api_version))
        if obj[field] != expected
    ]


def _without_unchanged_fields(errors: Sequence[FieldError], obj: Object, old: Object) -> list[FieldError]:
    """Return the errors of the top-level fields that an update changes: a CRD may be stricter than stored objects.

    Otherwise the status of such an object could not be written. API servers compare every field.
    """
    return [
        error
        for error in errors
        if not are_same_values(obj.get(name := re.split(r"[.\[]", error.field.removeprefix("."))[0]), old.get(name))
    ]
