"""The subset of JSONPath that printer columns, scale paths and selectable fields use."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from typing import Any, Final

from pliant.errors import InvalidSpec

PathStep = Callable[[Any], Iterator[Any]]

_TOKEN: Final = re.compile(
    r"""\.(?P<name>(?:\\.|[^.\[\]\\])+)            # .field, with dots escaped by a backslash
      | \[\s*(?P<quote>['"])(?P<key>.*?)(?P=quote)\s*\]   # ['field']
      | \[\s*(?P<index>-?\d+)\s*\]                 # [0]
      | \[\s*(?P<start>-?\d*)\s*:\s*(?P<stop>-?\d*)\s*\]   # [-1:]
      | (?P<all>\[\s*\*\s*\])                      # [*]
      | \[\?\(\s*@(?P<path>[^=!<>()]+?)\s*(?P<op>==|!=)\s*(?P<value>'[^']*'|"[^"]*"|[^\s)]+)\s*\)\]
    """,
    re.VERBOSE,
)


class JsonPath:
    def __init__(self, text: str, steps: tuple[PathStep, ...]) -> None:
        self.text = text
        self._steps = steps

    @classmethod
    @lru_cache(maxsize=1024)
    def parse(cls, text: str) -> JsonPath:
        """Parse a path such as `.status.conditions[?(@.type=="Ready")].status`; raise InvalidSpec if it is invalid."""
        body = text.strip()
        if body.startswith("{") and body.endswith("}"):
            body = body[1:-1]
        body = body.removeprefix("$")
        if body and body[0] not in ".[":
            body = f".{body}"
        steps: list[PathStep] = []
        position = 0
        while position < len(body) and body != ".":
            match = _TOKEN.match(body, position)
            if match is None:
                raise InvalidSpec("jsonPath", f"cannot parse {text!r} at {body[position:]!r}")
            steps.append(_parse_step(match))
            position = match.end()
        return cls(text, tuple(steps))

    def find_all(self, value: Any) -> list[Any]:
        found: Iterable[Any] = (value,)
        for step in self._steps:
            found = [inner for outer in found for inner in step(outer)]
        return list(found)

    def find_first(self, value: Any) -> Any:
        found = self.find_all(value)
        return found[0] if found else None


def _parse_step(match: re.Match[str]) -> PathStep:
    if match["name"] is not None:
        name = re.sub(r"\\(.)", r"\1", match["name"])
        return _all_children if name == "*" else _field_step(name)
    if match["key"] is not None:
        return _field_step(match["key"])
    if match["index"] is not None:
        return _index_step(int(match["index"]))
    if match["start"] is not None:
        return _slice_step(*(int(bound) if bound else None for bound in (match["start"], match["stop"])))
    if match["all"] is not None:
        return _all_children
    return _filter_step(JsonPath.parse(match["path"]), match["op"] == "==", match["value"])


def _field_step(name: str) -> PathStep:
    def step(value: Any) -> Iterator[Any]:
        if isinstance(value, dict) and name in value:
            yield value[name]

    return step


def _index_step(index: int) -> PathStep:
    def step(value: Any) -> Iterator[Any]:
        if isinstance(value, list) and -len(value) <= index < len(value):
            yield value[index]

    return step


def _slice_step(start: int | None, stop: int | None) -> PathStep:
    return lambda value: iter(value[start:stop] if isinstance(value, list) else ())


def _all_children(value: Any) -> Iterator[Any]:
    if isinstance(value, dict):
        yield from value.values()
    elif isinstance(value, list):
        yield from value


def _filter_step(path: JsonPath, is_equal: bool, literal: str) -> PathStep:
    expected = (
        literal[1:-1] if literal[0] in "'\"" else {"true": True, "false": False, "null": None}.get(literal, literal)
    )

    def step(value: Any) -> Iterator[Any]:
        for item in value if isinstance(value, list) else ():
            actual = path.find_first(item)
            matches = str(actual) == expected if isinstance(expected, str) else actual is expected
            if matches is is_equal:
                yield item

    return step
