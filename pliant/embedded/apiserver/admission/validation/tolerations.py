"""Validation of the tolerations of a pod."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from pliant.embedded.apiserver.admission.validation.names import validate_qualified_name
from pliant.embedded.apiserver.http.errors import invalid_field, unsupported_value
from pliant.embedded.schema import FieldError
from pliant.embedded.schema.metadata import label_value_problem
from pliant.embedded.storage.stored_objects import Object

_EFFECTS: Final = ("NoExecute", "NoSchedule", "PreferNoSchedule")
_OPERATORS: Final = ("Equal", "Exists")


def validate_tolerations(spec: Object) -> Iterator[FieldError]:
    for index, toleration in enumerate(spec.get("tolerations") or ()):
        path = f"spec.tolerations[{index}]"
        key, operator, value = (toleration.get(field) or "" for field in ("key", "operator", "value"))
        effect = toleration.get("effect") or ""
        if key:
            yield from validate_qualified_name(f"{path}.key", key)
        elif operator != "Exists":
            yield invalid_field(f"{path}.operator", operator, "operator must be Exists when `key` is empty")
        if toleration.get("tolerationSeconds") is not None and effect != "NoExecute":
            detail = "effect must be 'NoExecute' when `tolerationSeconds` is set"
            yield invalid_field(f"{path}.effect", effect, detail)
        if operator in ("", "Equal"):
            if problem := label_value_problem(value):
                yield invalid_field(f"{path}.operator", value, problem)
        elif operator == "Exists":
            if value:
                yield invalid_field(f"{path}.operator", value, "value must be empty when `operator` is 'Exists'")
        else:
            yield unsupported_value(f"{path}.operator", operator, _OPERATORS)
        if effect and effect not in _EFFECTS:
            yield unsupported_value(f"{path}.effect", effect, _EFFECTS)
