"""Writes Kubernetes objects as readable YAML: short lists on one line, no aliases."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TextIO

import yaml

MAX_LINE_WIDTH = 115
MAX_INLINE_LIST_LENGTH = 90  # characters of a list that is written on one line

_BaseDumper: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)


class _ManifestDumper(_BaseDumper):  # type: ignore[misc]
    def ignore_aliases(self, _: object) -> bool:
        return True

    def represent_sequence(self, tag: str, sequence: Iterable[Any], flow_style: bool | None = None) -> yaml.Node:
        items = list(sequence)
        is_plain = all(isinstance(item, str | int) for item in items)
        is_short = is_plain and sum(len(str(item)) + 2 for item in items) <= MAX_INLINE_LIST_LENGTH
        node: yaml.Node = super().represent_sequence(tag, items, flow_style=True if is_short else flow_style)
        return node

    def represent_scalar(self, tag: str, value: Any, style: str | None = None) -> yaml.Node:
        # A file in a ConfigMap stays readable.
        style = "|" if isinstance(value, str) and "\n" in value else style
        node: yaml.Node = super().represent_scalar(tag, value, style=style)
        return node


DUMP_OPTIONS: dict[str, Any] = {
    "Dumper": _ManifestDumper,
    "sort_keys": False,
    "width": MAX_LINE_WIDTH,
    "allow_unicode": True,
}


def write_manifests(manifests: Iterable[dict[str, Any]], stream: TextIO) -> None:
    """Write objects as the documents of a YAML stream."""
    yaml.dump_all(manifests, stream, explicit_start=True, **DUMP_OPTIONS)


def dump_manifest(manifest: dict[str, Any]) -> str:
    text: str = yaml.dump(manifest, **DUMP_OPTIONS)
    return text
