"""The part of JSONPath that printer columns, scale paths and selectable fields use."""

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
    """A path into a JSON value, parsed once."""

    def __init__(self, text: str, steps: tuple[PathStep, ...]) -> None:
        self.text = text
        self._steps = steps

    @classmethod
    def parse(cls, text: str) -> JsonPath:
        """A path such as `.status.conditions[?(@.type=="Ready")].status`; InvalidSpec when it cannot be read."""
        return _parse_cached(text)

    def find_all(self, value: Any) -> list[Any]:
        """Every value the path leads to; none where a step is missing."""
        found: Iterable[Any] = (value,)
        for step in self._steps:
            found = [inner for outer in found for inner in step(outer)]
        return list(found)

    def find_first(self, value: Any) -> Any:
        """The first value the path leads to, or None."""
        found = self.find_all(value)
        return found[0] if found else None


@lru_cache(maxsize=1024)
def _parse_cached(text: str) -> JsonPath:
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
            raise InvalidSpec("jsonPath", f"cannot read {text!r} from {body[position:]!r} on")
        steps.append(_parse_step(match))
        position = match.end()
    return JsonPath(text, tuple(steps))


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
    return _filter_step(_parse_cached(match["path"]), match["op"] == "==", match["value"])


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
    wanted = (
        literal[1:-1] if literal[0] in "'\"" else {"true": True, "false": False, "null": None}.get(literal, literal)
    )

    def step(value: Any) -> Iterator[Any]:
        for entry in value if isinstance(value, list) else ():
            seen = path.find_first(entry)
            matches = str(seen) == wanted if isinstance(wanted, str) else seen is wanted
            if matches is is_equal:
                yield entry

    return step
