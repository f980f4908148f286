"""What the server adds to CustomResourceDefinitions and refuses of them beyond their schema."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pliant.embedded.catalog.crds import complete, kinds_of
from pliant.embedded.schema import Problem, Reason
from pliant.embedded.storage.records import Object
from pliant.errors import InvalidSpec

CLEANUP = "customresourcecleanup.apiextensions.k8s.io"

_NUMBER = (int, float)
_KEYWORDS: dict[str, tuple[type, ...]] = {
    **dict.fromkeys(
        ("type", "format", "pattern", "title", "description", "$ref", "x-kubernetes-list-type"), (str,)
    ),
    **dict.fromkeys(("required", "x-kubernetes-list-map-keys", "enum", "x-kubernetes-validations"), (list,)),
    **dict.fromkeys(("allOf", "anyOf", "oneOf"), (list,)),
    **dict.fromkeys(("properties", "items", "not"), (dict,)),
    **dict.fromkeys(("minimum", "maximum", "multipleOf"), _NUMBER),
    **dict.fromkeys(("minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties"), (int,)),
    **dict.fromkeys(("nullable", "uniqueItems", "exclusiveMinimum", "exclusiveMaximum"), (bool,)),
    "x-kubernetes-preserve-unknown-fields": (bool,),
    "x-kubernetes-int-or-string": (bool,),
    "x-kubernetes-embedded-resource": (bool,),
    "x-kubernetes-map-type": (str,),
    "additionalProperties": (dict, bool),
}
_LISTS_OF_TEXT = ("required", "x-kubernetes-list-map-keys")


def complete_crd(crd: Object, old: Object | None) -> None:
    """Fill in names, and hold the definition until its objects are gone."""
    complete(crd)
    finalizers = crd["metadata"].get("finalizers") or []
    if old is None and CLEANUP not in finalizers:
        crd["metadata"]["finalizers"] = [*finalizers, CLEANUP]


def crd_problems(crd: Object, old: Object | None) -> list[Problem]:
    """Whatever would keep its kinds from being served."""
    for index, version in enumerate(crd["spec"]["versions"]):
        stated = (version.get("schema") or {}).get("openAPIV3Schema")
        if problems := list(_misshapen(stated, f"spec.versions[{index}].schema.openAPIV3Schema")):
            return problems
    try:
        kinds_of(crd)
    except InvalidSpec as problem:
        return [Problem(problem.field, Reason.INVALID.cause, problem.problem)]
    return []


def _misshapen(schema: Any, where: str) -> Iterator[Problem]:
    """Keywords whose values are of the wrong type; what reads schemas may trust the others."""
    if schema is None:
        return
    if not isinstance(schema, dict):
        yield _wrong(where, schema, "a schema")
        return
    for keyword, value in schema.items():
        place, types = f"{where}.{keyword}", _KEYWORDS.get(keyword)
        if types is not None and not _is_one_of(value, types):
            yield _wrong(place, value, " or ".join(kind.__name__ for kind in types))
        elif keyword in _LISTS_OF_TEXT and not all(isinstance(item, str) for item in value):
            yield _wrong(place, value, "a list of strings")
        elif keyword in ("not", "items", "additionalProperties") and isinstance(value, dict):
            yield from _misshapen(value, place)
        elif keyword == "properties":
            for name, child in value.items():
                yield from _misshapen({} if child is None else child, f"{place}[{name}]")
        elif keyword in ("allOf", "anyOf", "oneOf"):
            for index, child in enumerate(value):
                yield from _misshapen({} if child is None else child, f"{place}[{index}]")


def _is_one_of(value: Any, types: tuple[type, ...]) -> bool:
    return isinstance(value, types) and (bool in types or not isinstance(value, bool))


def _wrong(place: str, value: Any, wanted: str) -> Problem:
    return Problem.of(place, Reason.INVALID, value, f"must be {wanted}")
