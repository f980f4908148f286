"""Reads much YAML in little time."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import yaml

_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def documents(text: str) -> list[Any]:
    """Every document of a text."""
    return list(yaml.load_all(text, Loader=_LOADER))


def without_definitions(text: str) -> Iterable[dict[str, Any]]:
    """The objects of a text that are no definitions of kinds: those are long, and seldom looked at."""
    for part in text.split("\n---\n"):
        if "kind: CustomResourceDefinition\n" not in part:
            yield from documents(part)
