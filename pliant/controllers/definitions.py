"""Compares the definitions of our kinds that a cluster has with those of this version."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any


def outdated_parts(wanted: Mapping[str, Any], installed: Mapping[str, Any]) -> list[str]:
    """Where an installed definition says less than, or something else than, the one wanted.

    What a server adds by itself, and fields that a newer or older version has beside ours, do no harm.
    """
    return list(_differences("spec", wanted.get("spec") or {}, installed.get("spec") or {}))


def _differences(path: str, wanted: Any, found: Any) -> Iterator[str]:
    if isinstance(wanted, dict) and isinstance(found, dict):
        for key, value in wanted.items():
            if key == "description":
                continue
            if key in found:
                yield from _differences(f"{path}.{key}", value, found[key])
            elif value not in (None, False, []):  # a server keeps nothing that says nothing
                yield f"{path}.{key}"
    elif isinstance(wanted, list) and isinstance(found, list) and _is_named(wanted) and _is_named(found):
        there = {entry["name"]: entry for entry in found}
        for entry in wanted:
            yield from _differences(f"{path}[{entry['name']}]", entry, there.get(entry["name"]))
    elif wanted != found:
        yield path


def _is_named(entries: list[Any]) -> bool:
    return all(isinstance(entry, dict) and "name" in entry for entry in entries)
