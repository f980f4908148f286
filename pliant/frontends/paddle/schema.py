"""The definition of a kind that took whatever was written: it still does, and says what is read."""

from __future__ import annotations

from typing import Any

from pliant.frontends.crd import ANYTHING

EXACT = frozenset({"instances"})
"""Fields of ours, which nobody has ever written in another way."""


def loosened(crd: dict[str, Any]) -> dict[str, Any]:
    """The definition with a spec in which numbers may be text, and other spellings and fields are kept.

    So is what other operators wrote into the status: it may tell that a job has ended.
    """
    for version in crd["spec"]["versions"]:
        properties = version["schema"]["openAPIV3Schema"]["properties"]
        properties["spec"] = _loose(properties["spec"])
        properties["status"] |= ANYTHING
    return crd


def _loose(schema: dict[str, Any]) -> dict[str, Any]:
    match schema.get("type"):
        case "object":
            fields = {
                name: each if name in EXACT else _loose(each)
                for name, each in schema.get("properties", {}).items()
            }
            return {**schema, **({"properties": fields} if fields else {}), **ANYTHING}
        case "integer":
            return {**_said(schema), "x-kubernetes-int-or-string": True, "nullable": True}
        case "string":
            return {**schema, "nullable": True}
        case _:
            return {**_said(schema), **ANYTHING, "nullable": True}


def _said(schema: dict[str, Any]) -> dict[str, Any]:
    return {"description": schema["description"]} if "description" in schema else {}
