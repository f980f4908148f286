"""Writes Kubernetes objects as YAML that people can review: short lists in one line, and no references."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TextIO

import yaml

MAX_LINE_WIDTH = 115
MAX_INLINE_LIST_LENGTH = 90
"""How many characters a list may have that is written in one line."""

_BaseDumper: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)


class _ManifestDumper(_BaseDumper):  # type: ignore[misc]
    def ignore_aliases(self, _: object) -> bool:
        """Write everything out: what occurs twice would otherwise become a reference."""
        return True

    def represent_sequence(self, tag: str, sequence: Iterable[Any], flow_style: bool | None = None) -> yaml.Node:
        """Write `verbs: [get, list, watch]` in one line, and one item a line where that would be long."""
        items = list(sequence)
        is_plain = all(isinstance(item, str | int) for item in items)
        is_short = is_plain and sum(len(str(item)) + 2 for item in items) <= MAX_INLINE_LIST_LENGTH
        node: yaml.Node = super().represent_sequence(tag, items, flow_style=True if is_short else flow_style)
        return node


DUMP_OPTIONS: dict[str, Any] = {
    "Dumper": _ManifestDumper,
    "sort_keys": False,
    "width": MAX_LINE_WIDTH,
    "allow_unicode": True,
}


def write_manifests(manifests: Iterable[dict[str, Any]], stream: TextIO) -> None:
    """Write objects as the documents of a YAML stream, in this order."""
    yaml.dump_all(manifests, stream, explicit_start=True, **DUMP_OPTIONS)


def dump_manifest(manifest: dict[str, Any]) -> str:
    """Return one object as YAML."""
    text: str = yaml.dump(manifest, **DUMP_OPTIONS)
    return text
