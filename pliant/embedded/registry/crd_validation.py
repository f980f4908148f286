"""What the server adds to CustomResourceDefinitions and refuses of them beyond their schema."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pliant.embedded.registry.crds import kinds_of, set_crd_name_defaults
from pliant.embedded.schema import FieldError, FieldErrorType
from pliant.embedded.storage.stored_objects import Object
from pliant.errors import InvalidSpec

CRD_CLEANUP_FINALIZER = "customresourcecleanup.apiextensions.k8s.io"

_NUMBER_TYPES = (int, float)
_KEYWORD_TYPES: dict[str, tuple[type, ...]] = {
    **dict.fromkeys(("type", "format", "pattern", "title", "description", "$ref", "x-kubernetes-list-type"), (str,)),
    **dict.fromkeys(("required", "x-kubernetes-list-map-keys", "enum", "x-kubernetes-validations"), (list,)),
    **dict.fromkeys(("allOf", "anyOf", "oneOf"), (list,)),
    **dict.fromkeys(("properties", "items", "not"), (dict,)),
    **dict.fromkeys(("minimum", "maximum", "multipleOf"), _NUMBER_TYPES),
    **dict.fromkeys(("minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties"), (int,)),
    **dict.fromkeys(("nullable", "uniqueItems", "exclusiveMinimum", "exclusiveMaximum"), (bool,)),
    "x-kubernetes-preserve-unknown-fields": (bool,),
    "x-kubernetes-int-or-string": (bool,),
    "x-kubernetes-embedded-resource": (bool,),
    "x-kubernetes-map-type": (str,),
    "additionalProperties": (dict, bool),
}
_STRING_LIST_KEYWORDS = ("required", "x-kubernetes-list-map-keys")


def apply_crd_defaults(crd: Object, old: Object | None) -> None:
    """Fill in names, and hold the definition until its objects are gone."""
    set_crd_name_defaults(crd)
    finalizers = crd["metadata"].get("finalizers") or []
    if old is None and CRD_CLEANUP_FINALIZER not in finalizers:
        crd["metadata"]["finalizers"] = [*finalizers, CRD_CLEANUP_FINALIZER]


def validate_crd(crd: Object, old: Object | None) -> list[FieldError]:
    """Whatever would keep its kinds from being served."""
    for index, version in enumerate(crd["spec"]["versions"]):
        stated = (version.get("schema") or {}).get("openAPIV3Schema")
        if problems := list(_find_keyword_errors(stated, f"spec.versions[{index}].schema.openAPIV3Schema")):
            return problems
    try:
        kinds_of(crd)
    except InvalidSpec as problem:
        return [FieldError(problem.field, FieldErrorType.INVALID.cause, problem.problem)]
    return []


def _find_keyword_errors(schema: Any, field_path: str) -> Iterator[FieldError]:
    """Keywords whose values are of the wrong type; what reads schemas may trust the others."""
    if schema is None:
        return
    if not isinstance(schema, dict):
        yield _wrong_type_error(field_path, schema, "a schema")
        return
    for keyword, value in schema.items():
        place, types = f"{field_path}.{keyword}", _KEYWORD_TYPES.get(keyword)
        if types is not None and not _has_json_type(value, types):
            yield _wrong_type_error(place, value, " or ".join(kind.__name__ for kind in types))
        elif keyword in _STRING_LIST_KEYWORDS and not all(isinstance(item, str) for item in value):
            yield _wrong_type_error(place, value, "a list of strings")
        elif keyword in ("not", "items", "additionalProperties") and isinstance(value, dict):
            yield from _find_keyword_errors(value, place)
        elif keyword == "properties":
            for name, child in value.items():
                yield from _find_keyword_errors({} if child is None else child, f"{place}[{name}]")
        elif keyword in ("allOf", "anyOf", "oneOf"):
            for index, child in enumerate(value):
                yield from _find_keyword_errors({} if child is None else child, f"{place}[{index}]")


def _has_json_type(value: Any, types: tuple[type, ...]) -> bool:
    return isinstance(value, types) and (bool in types or not isinstance(value, bool))


def _wrong_type_error(field_path: str, value: Any, expected: str) -> FieldError:
    return FieldError.of(field_path, FieldErrorType.INVALID, value, f"must be {expected}")
