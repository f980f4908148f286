"""Adds keywords to the published schemas of built-in kinds, for rules that Kubernetes has only in code."""

from __future__ import annotations

from typing import Any

SchemaRules = dict[str, dict[str, Any]]
"""Keywords to add to a schema, by path; `[]` stands for the items of a list."""


def add_schema_rules(openapi: dict[str, Any], rules: SchemaRules, *, requires_spec: bool = True) -> None:
    """Add keywords to a schema in place, and make all fields of its status optional.

    With `requires_spec=False` those of its spec are optional, too: code validates them, in the order of Kubernetes.
    """
    for path, keywords in rules.items():
        _schema_node_at(openapi, path).update(keywords)
    for section in ("status",) if requires_spec else ("spec", "status"):
        drop_required(openapi["properties"].get(section, {}))


def drop_required(schema: dict[str, Any]) -> None:
    """Make all fields optional: the API server decodes absent ones as zero values."""
    schema.pop("required", None)
    for inner in (*schema.get("properties", {}).values(), schema.get("items"), schema.get("additionalProperties")):
        if isinstance(inner, dict):
            drop_required(inner)


def _schema_node_at(schema: dict[str, Any], path: str) -> dict[str, Any]:
    """Return the schema of a path such as `spec.containers[].name`."""
    node = schema
    for part in path.split("."):
        name = part.removesuffix("[]")
        node = node["properties"][name]
        if name != part:
            node = node["items"]
    return node
