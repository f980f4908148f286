"""What the published schemas of built-in kinds say and API servers do not validate."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_ITEMS_VALIDATED_BY_CODE = {"httpHeaders", "matchExpressions", "matchFields", "ownerReferences"}
"""Lists whose items lack required fields: API servers report these by other paths or with other reasons."""
_NEVER_ABSENT = ("boolean", "integer", "number")


def without_list_keys_and_numbers(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return a schema in which lists may have equal keys, and numbers and booleans are not required.

    The published schemas of built-in kinds serve clients. API servers validate with code: it names duplicates by other
    paths, and an absent number is zero.
    """
    result = {name: value for name, value in schema.items() if name != "x-kubernetes-list-type"}
    if result.get("format") == "byte":  # has been read as bytes, which may be empty
        del result["format"]
    properties = schema.get("properties")
    if isinstance(properties, Mapping):
        result["properties"] = {name: without_list_keys_and_numbers(each) for name, each in properties.items()}
        result["required"] = [
            name for name in schema.get("required", ()) if properties.get(name, {}).get("type") not in _NEVER_ABSENT
        ]
        for name in _ITEMS_VALIDATED_BY_CODE & result["properties"].keys():
            result["properties"][name].get("items", {}).pop("required", None)
    for keyword in ("items", "additionalProperties"):
        if isinstance(schema.get(keyword), Mapping):
            result[keyword] = without_list_keys_and_numbers(schema[keyword])
    return result
