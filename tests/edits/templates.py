"""Random edits of pod templates: fields of any depth get values of their type, other values, or go."""

from __future__ import annotations

import random
from typing import Any

from pliant.schemas import load_kubernetes_schema
from tests.edits.fields import Edit, Path, edits_of
from tests.edits.jobs import KINDS, Raw, job_of

SCHEMA = load_kubernetes_schema("PodTemplateSpec")
TEMPLATES = [edit for kind in KINDS for edit in edits_of(kind) if edit.path[-1] == "template"]
NONSENSE: list[Any] = ["nonsense", 7, True, ["a"], {"a": "b"}, [], {}, "", -1, 1.5]
FAVOURITES = {"": "spec", "spec": "containers"}
"""Where half of all edits happen: in containers."""
MAX_DEPTH = 3


def template_edit(number: int) -> Edit:
    """The nth of infinitely many edits."""
    rng = random.Random(f"template {number}")
    whole = rng.choice(TEMPLATES)
    present: Any = job_of(whole.kind)
    for step in whole.path:
        present = present[step]
    path, schema, name = _field(rng, present, SCHEMA, whole.path, "")
    value = rng.choice([None, *NONSENSE]) if rng.random() < 0.4 else _value(rng, schema, 0)
    return Edit(whole.kind, path, value, f"{number} {name}")


def _field(rng: random.Random, present: Any, schema: Raw, path: Path, name: str) -> tuple[Path, Raw, str]:
    """Any field of a template, below what is there."""
    if schema.get("type") == "array" and isinstance(present, list) and present:
        return _field(rng, present[0], schema["items"], (*path, 0), f"{name}[0]")
    properties = schema.get("properties")
    if not properties or (name and rng.random() < 0.2):
        return path, schema, name
    favourite = FAVOURITES.get(name, "")
    field = favourite if favourite and rng.random() < 0.6 else rng.choice(sorted(properties))
    nested = present.get(field) if isinstance(present, dict) else None
    return _field(rng, nested, properties[field], (*path, field), f"{name}.{field}".lstrip("."))


def _value(rng: random.Random, schema: Raw, depth: int) -> Any:
    """A value of the right type, which need not make sense."""
    match schema.get("type"):
        case "object" if "additionalProperties" in schema:
            return {"key": _value(rng, schema["additionalProperties"], depth + 1)}
        case "object":
            names = sorted(schema.get("properties", {}))
            chosen = rng.sample(names, min(len(names), 2)) if depth < MAX_DEPTH else []
            needed = {*chosen, *schema.get("required", ())}
            return {name: _value(rng, schema["properties"][name], depth + 1) for name in sorted(needed)}
        case "array":
            return [_value(rng, schema["items"], depth + 1)]
        case "integer":
            return rng.randrange(1, 100)
        case "boolean":
            return rng.random() < 0.5
        case "string":
            return rng.choice(["any", "other", "Always", "2026-01-01T00:00:00Z"])
        case _:
            return rng.choice(["1", 1])
