"""Reads YAML as Kubernetes does, within limits, and records the location of every field."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import yaml

from pliant.cli.input.mistaken_inputs import suggest_for_template
from pliant.cli.input.problems import InvalidInput, SourceLocation, input_error

MAX_FILE_BYTES = 4 * 1024 * 1024
MAX_YAML_NODES = 200_000
MAX_YAML_DEPTH = 60

_BaseLoader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class _KubernetesLoader(_BaseLoader):  # type: ignore[misc]
    """Resolves scalars as Kubernetes does: no dates, no base-60 numbers."""


_TAG_PREFIX = "tag:yaml.org,2002:"
_KEPT_TAGS = {f"{_TAG_PREFIX}bool", f"{_TAG_PREFIX}null", f"{_TAG_PREFIX}merge"}
_KubernetesLoader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in rules if tag in _KEPT_TAGS]
    for first, rules in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
_KubernetesLoader.add_implicit_resolver(
    f"{_TAG_PREFIX}int", re.compile(r"[-+]?(0|[1-9][0-9]*|0o?[0-7]+|0x[0-9a-fA-F]+)$"), list("-+0123456789")
)
_KubernetesLoader.add_implicit_resolver(
    f"{_TAG_PREFIX}float",
    re.compile(r"[-+]?(\.[0-9]+|[0-9]+\.[0-9]*|[0-9]+(?=[eE]))([eE][-+]?[0-9]+)?$"),
    list("-+.0123456789"),
)


@dataclass(frozen=True, slots=True)
class YamlDocument:
    """A YAML document, and the location of each of its fields."""

    value: Any
    source: str
    lines: list[str]
    node: yaml.Node

    def location_of(self, field: str = "") -> SourceLocation:
        """Return the location of a field such as `spec.containers[0].image`, or of its nearest parent."""
        node = _find_node(self.node, field)
        return _source_location(self.source, self.lines, node.start_mark, _node_width(node))


def parse_documents(source: str, data: bytes) -> list[YamlDocument]:
    """Parse all documents that are not empty; raise InvalidInput with line and column."""
    if len(data) > MAX_FILE_BYTES:
        raise input_error(f"larger than {MAX_FILE_BYTES // 1024 // 1024} MiB", location=SourceLocation(source=source))
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise input_error("not UTF-8 text", location=SourceLocation(source=source, line=line, column=1)) from None
    lines = text.splitlines()
    try:
        _check_depth(source, lines, text)
        return [
            YamlDocument(_NodeConverter(source, lines, loader).convert(node), source, lines, node)
            for loader, node in _compose_nodes(text)
            if node.tag != f"{_TAG_PREFIX}null"  # an empty document
        ]
    except yaml.MarkedYAMLError as error:
        raise _syntax_error(source, lines, error) from None
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        location = SourceLocation(source=source, line=line, column=1)
        raise input_error(f"character {error.character!r} is not allowed in YAML", location=location) from None


def _compose_nodes(text: str) -> Iterator[tuple[Any, yaml.Node]]:
    loader = _KubernetesLoader(text)
    try:
        while loader.check_node():
            yield loader, loader.get_node()
    finally:
        loader.dispose()


def _check_depth(source: str, lines: list[str], text: str) -> None:
    """Reject deep nesting before composing: the composer of libyaml recurses until it crashes."""
    depth = 0
    for event in yaml.parse(text, Loader=_KubernetesLoader):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
            if depth > MAX_YAML_DEPTH:
                location = _source_location(source, lines, event.start_mark, 1)
                raise input_error(f"nested more than {MAX_YAML_DEPTH} levels deep", location=location)
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1


class _NodeConverter:
    """Converts nodes to plain data and counts what aliases expand to."""

    def __init__(self, source: str, lines: list[str], loader: Any) -> None:
        self._source = source
        self._lines = lines
        self._loader = loader
        self._count = 0

    def convert(self, node: yaml.Node, depth: int = 0) -> Any:
        self._count += 1
        if self._count > MAX_YAML_NODES or depth > MAX_YAML_DEPTH:
            raise self._error_at(node, "too many values: aliases that repeat or contain each other")
        if isinstance(node, yaml.MappingNode):
            return self._convert_mapping(node, depth)
        if isinstance(node, yaml.SequenceNode):
            return [self.convert(item, depth + 1) for item in node.value]
        return self._convert_scalar(node)

    def _convert_mapping(self, node: yaml.MappingNode, depth: int) -> dict[str, Any]:
        seen: set[str] = set()
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode):
                fix = suggest_for_template("{{") if isinstance(key, yaml.MappingNode) else ""
                raise self._error_at(key, "a key must be a scalar", fix)
            if key.value in seen and key.value != "<<":
                raise self._error_at(key, f"duplicate key `{key.value}`")
            seen.add(key.value)
        inherited: dict[str, Any] = {}
        own: dict[str, Any] = {}
        for key, item in node.value:
            value = self.convert(item, depth + 1)
            if key.tag != f"{_TAG_PREFIX}merge":
                own[key.value] = value
                continue
            # Merged here and not by the library, so that merged values are counted.
            for part in reversed(value if isinstance(value, list) else [value]):
                if not isinstance(part, dict):
                    raise self._error_at(item, "`<<` must refer to a mapping")
                inherited.update(part)
        return inherited | own

    def _convert_scalar(self, node: yaml.Node) -> Any:
        value = self._loader.construct_object(node)
        if value is None or isinstance(value, (str, int)) or (isinstance(value, float) and math.isfinite(value)):
            return value
        raise self._error_at(node, f"`{node.value}` is not a JSON value")

    def _error_at(self, node: yaml.Node, message: str, fix: str = "") -> InvalidInput:
        location = _source_location(self._source, self._lines, node.start_mark, _node_width(node))
        return input_error(message, location=location, fix=fix)


def _source_location(source: str, lines: list[str], mark: Any, width: int) -> SourceLocation:
    line = min(mark.line, max(len(lines) - 1, 0))
    column = mark.column if line == mark.line else 0
    return SourceLocation(
        source=source, line=line + 1, column=column + 1, text=lines[line] if lines else "", width=width
    )


def _node_width(node: yaml.Node) -> int:
    same_line = node.start_mark.line == node.end_mark.line
    return int(node.end_mark.column - node.start_mark.column) if same_line else 1


def _find_node(node: yaml.Node, field_path: str) -> yaml.Node:
    spot = node
    while field_path:
        step = _follow_step(node, field_path)
        if step is None:
            return spot
        spot, node, field_path = step
    return spot


def _follow_step(node: yaml.Node, field_path: str) -> tuple[yaml.Node, yaml.Node, str] | None:
    """Follow one step of a path; return the node to point at, its value, and the rest of the path."""
    if isinstance(node, yaml.SequenceNode):
        found = re.match(r"\.?\[?(\d+)\]?", field_path)
        if found and int(found[1]) < len(node.value):
            item = node.value[int(found[1])]
            return item, item, field_path[found.end() :]
    if isinstance(node, yaml.MappingNode):
        # Longest first: keys of labels and ConfigMaps contain dots.
        for key, item in sorted(node.value, key=lambda pair: -len(str(pair[0].value))):
            found = re.match(rf"\.?\[?['\"]?{re.escape(str(key.value))}['\"]?\]?(?=[.\[]|$)", field_path)
            if found:
                return key, item, field_path[found.end() :]
    return None


_SYNTAX_HINTS = (
    ("cannot start any token", "\t", "indent with spaces, not tabs"),
    ("mapping values are not allowed", "", "check the indentation; a value that contains `: ` needs quotes"),
    ("did not find expected key", "", "check the indentation of this line against the one above"),
    ("did not find expected '-' indicator", "", "check the indentation of this line against the one above"),
    ("while scanning a quoted scalar", "", "close the quotes"),
)


def _syntax_error(source: str, lines: list[str], error: yaml.MarkedYAMLError) -> InvalidInput:
    mark = error.problem_mark or error.context_mark
    location = _source_location(source, lines, mark, 1) if mark else SourceLocation(source=source)
    message = f"{error.context or ''} {error.problem or ''}"
    fix = suggest_for_template("\n".join(lines))
    fix = fix or next((fix for text, char, fix in _SYNTAX_HINTS if text in message and char in location.text), "")
    return input_error(f"not valid YAML: {error.problem or error}", location=location, fix=fix)
