"""Reads YAML as Kubernetes does, within limits, and remembers where every field was written."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import yaml

from pliant.cli.problems import InvalidInput, Place, refuse

MOST_BYTES = 4 * 1024 * 1024
MOST_NODES = 200_000
DEEPEST = 60

_Base: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class _Loader(_Base):  # type: ignore[misc]
    """Scalars mean what they mean to Kubernetes: no dates, no base-60 numbers."""


_TAG = "tag:yaml.org,2002:"
_KEPT = {f"{_TAG}bool", f"{_TAG}null", f"{_TAG}merge"}
_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in rules if tag in _KEPT]
    for first, rules in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
_Loader.add_implicit_resolver(
    f"{_TAG}int", re.compile(r"[-+]?(0|[1-9][0-9]*|0o?[0-7]+|0x[0-9a-fA-F]+)$"), list("-+0123456789")
)
_Loader.add_implicit_resolver(
    f"{_TAG}float",
    re.compile(r"[-+]?(\.[0-9]+|[0-9]+\.[0-9]*|[0-9]+(?=[eE]))([eE][-+]?[0-9]+)?$"),
    list("-+.0123456789"),
)


@dataclass(frozen=True, slots=True)
class Written:
    """One YAML document: its value, and where each part of it stands in the text."""

    value: Any
    source: str
    lines: list[str]
    node: yaml.Node

    def place(self, field: str = "") -> Place:
        """Where a field such as `spec.containers[0].image` is written; if it is not, what it would stand under."""
        node = _find(self.node, field)
        return _place(self.source, self.lines, node.start_mark, _width(node))


def documents(source: str, data: bytes) -> list[Written]:
    """Every document in a text that is not empty; raises `InvalidInput` naming line and column."""
    if len(data) > MOST_BYTES:
        raise refuse(f"larger than {MOST_BYTES // 1024 // 1024} MiB", place=Place(source=source))
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise refuse("not UTF-8 text", place=Place(source=source, line=line, column=1)) from None
    lines = text.splitlines()
    try:
        _check_depth(source, lines, text)
        return [
            Written(_Reader(source, lines, loader).value(node), source, lines, node)
            for loader, node in _nodes(text)
            if not _is_empty(node)
        ]
    except yaml.MarkedYAMLError as error:
        raise _syntax_problem(source, lines, error) from None
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        place = Place(source=source, line=line, column=1)
        raise refuse(f"character {error.character!r} is not allowed in YAML", place=place) from None


def _nodes(text: str) -> Iterator[tuple[Any, yaml.Node]]:
    loader = _Loader(text)
    try:
        while loader.check_node():
            yield loader, loader.get_node()
    finally:
        loader.dispose()


def _check_depth(source: str, lines: list[str], text: str) -> None:
    """Refuse deep nesting before it is composed: libyaml's composer recurses until it crashes."""
    depth = 0
    for event in yaml.parse(text, Loader=_Loader):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
            if depth > DEEPEST:
                place = _place(source, lines, event.start_mark, 1)
                raise refuse(f"nested more than {DEEPEST} levels deep", place=place)
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1


def _is_empty(node: yaml.Node) -> bool:
    return isinstance(node, yaml.ScalarNode) and node.tag == f"{_TAG}null"


class _Reader:
    """Turns nodes into plain data, counting what aliases unfold to."""

    def __init__(self, source: str, lines: list[str], loader: Any) -> None:
        self._source = source
        self._lines = lines
        self._loader = loader
        self._count = 0

    def value(self, node: yaml.Node, depth: int = 0) -> Any:
        """The data under a node, its aliases unfolded."""
        self._count += 1
        if self._count > MOST_NODES or depth > DEEPEST:
            raise self._refuse(node, "unfolds to too much: aliases that repeat or contain each other")
        if isinstance(node, yaml.MappingNode):
            return self._mapping(node, depth)
        if isinstance(node, yaml.SequenceNode):
            return [self.value(item, depth + 1) for item in node.value]
        return self._scalar(node)

    def _mapping(self, node: yaml.MappingNode, depth: int) -> dict[str, Any]:
        seen: set[str] = set()
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode):
                raise self._refuse(key, "a key must be a plain word")
            if key.value in seen and key.value != "<<":
                raise self._refuse(key, f"`{key.value}` is written twice")
            seen.add(key.value)
        inherited: dict[str, Any] = {}
        own: dict[str, Any] = {}
        for key, item in node.value:
            value = self.value(item, depth + 1)
            if key.tag != f"{_TAG}merge":
                own[key.value] = value
                continue
            # Merged here and not by the library: what it unfolds to is counted like everything else.
            for part in reversed(value if isinstance(value, list) else [value]):
                if not isinstance(part, dict):
                    raise self._refuse(item, "`<<` must name a mapping")
                inherited.update(part)
        return inherited | own

    def _scalar(self, node: yaml.Node) -> Any:
        value = self._loader.construct_object(node)
        if value is None or isinstance(value, (str, int)) or (isinstance(value, float) and math.isfinite(value)):
            return value
        raise self._refuse(node, f"`{node.value}` is not a value that JSON can hold")

    def _refuse(self, node: yaml.Node, what: str) -> InvalidInput:
        return refuse(what, place=_place(self._source, self._lines, node.start_mark, _width(node)))


def _place(source: str, lines: list[str], mark: Any, width: int) -> Place:
    line = min(mark.line, max(len(lines) - 1, 0))
    column = mark.column if line == mark.line else 0
    return Place(source=source, line=line + 1, column=column + 1, text=lines[line] if lines else "", width=width)


def _width(node: yaml.Node) -> int:
    same_line = node.start_mark.line == node.end_mark.line
    return int(node.end_mark.column - node.start_mark.column) if same_line else 1


def _find(node: yaml.Node, field: str) -> yaml.Node:
    """The key or item that a path leads to, as far as the path is written."""
    spot = node
    while field:
        step = _step(node, field)
        if step is None:
            return spot
        spot, node, field = step
    return spot


def _step(node: yaml.Node, field: str) -> tuple[yaml.Node, yaml.Node, str] | None:
    """One step along a path: the node to point at, the node below it, and what is left of the path."""
    if isinstance(node, yaml.SequenceNode):
        found = re.match(r"\.?\[?(\d+)\]?", field)
        if found and int(found[1]) < len(node.value):
            item = node.value[int(found[1])]
            return item, item, field[found.end() :]
    if isinstance(node, yaml.MappingNode):
        # Longest first: keys of labels and ConfigMaps hold dots themselves.
        for key, item in sorted(node.value, key=lambda pair: -len(str(pair[0].value))):
            found = re.match(rf"\.?\[?['\"]?{re.escape(str(key.value))}['\"]?\]?(?=[.\[]|$)", field)
            if found:
                return key, item, field[found.end() :]
    return None


_HINTS = (
    ("cannot start any token", "\t", "indent with spaces, not tabs"),
    ("mapping values are not allowed", "", "check the indentation; a value that contains `: ` needs quotes"),
    ("did not find expected key", "", "check the indentation of this line against the one above"),
    ("did not find expected '-' indicator", "", "check the indentation of this line against the one above"),
    ("while scanning a quoted scalar", "", "close the quotes"),
)


def _syntax_problem(source: str, lines: list[str], error: yaml.MarkedYAMLError) -> InvalidInput:
    mark = error.problem_mark or error.context_mark
    place = _place(source, lines, mark, 1) if mark else Place(source=source)
    said = f"{error.context or ''} {error.problem or ''}"
    fix = next((hint for words, sign, hint in _HINTS if words in said and sign in place.text), "")
    return refuse(f"not valid YAML: {error.problem or error}", place=place, fix=fix)
