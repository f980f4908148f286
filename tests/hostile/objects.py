"""Jobs of every kind in which a few fields, chosen from the schema, hold hostile values."""

from __future__ import annotations

import copy
import random
from dataclasses import dataclass
from functools import cache
from typing import Any

from pliant.frontends import FRONTENDS
from pliant.schemas import load_kubernetes_schema
from tests.edits.jobs import KindKey, Raw
from tests.hostile.values import Schema, anything, hostile_value

METADATA_SCHEMA: Schema = {
    "type": "object",
    "properties": {
        "labels": {"type": "object", "additionalProperties": {"type": "string"}},
        "annotations": {"type": "object", "additionalProperties": {"type": "string"}},
        "finalizers": {"type": "array", "items": {"type": "string"}},
        "ownerReferences": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {
                    **{name: {"type": "string"} for name in ("apiVersion", "kind", "name", "uid")},
                    "controller": {"type": "boolean"},
                },
            },
        },
        "generateName": {"type": "string"},
        "resourceVersion": {"type": "string"},
        "generation": {"type": "integer"},
    },
}
ANNOTATIONS = (
    *("pliant/service-per-replica", "pliant/template-hash", "pliant/resize", "pliant/end", "pliant/managed-by"),
    *("pliant.master/pending_timeout", "pending_timeout", "pliant/autoscale", "pliant.io/workspace"),
)
"""Annotations that the operator reads, or might."""


@dataclass(frozen=True)
class Mutation:
    """One hostile value at one place."""

    path: tuple[str | int, ...]
    value: Any

    def __str__(self) -> str:
        return f"{'.'.join(map(str, self.path))} = {str(self.value)[:60]!r}"

    def applied(self, raw: Raw) -> Raw:
        """The object with the value; what is missing on the way is added."""
        changed: Raw = _with_value(raw, self.path, self.value)
        return changed


def _with_value(here: Any, path: tuple[str | int, ...], value: Any) -> Any:
    """A copy of a value with another value at a path; the rest is shared."""
    if not path:
        return value
    first, *rest = path
    if isinstance(first, int):
        items = list(here) if isinstance(here, list) else []
        return [_with_value(items[0] if items else None, tuple(rest), value), *items[1:]]
    fields = dict(here) if isinstance(here, dict) else {}
    return {**fields, first: _with_value(fields.get(first), tuple(rest), value)}


@cache
def schema_of(kind: KindKey) -> Schema:
    """The schema of a kind, with the schema of pod templates where the definition has none."""
    schema = copy.deepcopy(FRONTENDS[kind].crd()["spec"]["versions"][0]["schema"]["openAPIV3Schema"])
    schema["properties"]["metadata"] = METADATA_SCHEMA
    _fill_templates(schema)
    return dict(schema)


def _fill_templates(schema: Schema) -> None:
    for name, inner in schema.get("properties", {}).items():
        if name == "template":
            schema["properties"][name] = load_kubernetes_schema("PodTemplateSpec")
        else:
            _fill_templates(inner)
    for nested in (schema.get("additionalProperties"), schema.get("items")):
        if isinstance(nested, dict):
            _fill_templates(nested)


def mutations(schema: Schema, present: Raw, rng: random.Random) -> list[Mutation]:
    """One to four hostile values for an object."""
    return [_mutation(schema, present, rng) for _ in range(rng.choice([1, 1, 2, 4]))]


def mutated(raw: Raw, hostile: list[Mutation]) -> Raw:
    """The object with the values."""
    for each in hostile:
        raw = each.applied(raw)
    return raw


def _mutation(schema: Schema, present: Raw, rng: random.Random) -> Mutation:
    if rng.random() < 0.05:
        return Mutation(("metadata", "annotations", rng.choice(ANNOTATIONS)), str(anything(rng)))
    fields = [name for name in schema["properties"] if name not in ("apiVersion", "kind")]
    top = rng.choices(fields, [{"metadata": 3, "status": 2}.get(name, 20) for name in fields])[0]
    path: list[str | int] = [top]
    schema, here = schema["properties"][top], present.get(top)
    # A place anywhere in the tree: mostly deep, since the shallow ones are few.
    while rng.random() > 0.12:
        step, inner = _descend(schema, here, rng)
        if step is None:
            break
        path.append(step)
        schema = inner
        here = here[step] if isinstance(here, dict) and step in here else _item(here, step)
    return Mutation(tuple(path), hostile_value(schema, rng))


def _descend(schema: Schema, here: Any, rng: random.Random) -> tuple[str | int | None, Schema]:
    """A field or an item of a value; one that the value has is more likely."""
    match schema:
        case {"type": "array", "items": items}:
            return 0, items
        case {"properties": fields} if fields:
            known = [name for name in here if name in fields] if isinstance(here, dict) else []
            name = rng.choice(known) if known and rng.random() < 0.6 else rng.choice(sorted(fields))
            return name, fields[name]
        case {"additionalProperties": dict(inner)}:
            names = sorted(here) if isinstance(here, dict) and here else ["worker"]
            return rng.choice(names), inner
    return None, {}


def _item(here: Any, step: str | int) -> Any:
    return here[step] if isinstance(here, list) and isinstance(step, int) and step < len(here) else None
