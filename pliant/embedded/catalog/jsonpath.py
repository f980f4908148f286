"""The part of JSONPath that printer columns, scale paths and selectable fields use."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from typing import Any, Final

from pliant.errors import InvalidSpec

Step = Callable[[Any], Iterator[Any]]

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

    def __init__(self, text: str, steps: tuple[Step, ...]) -> None:
        self.text = text
        self._steps = steps

    @classmethod
    def parse(cls, text: str) -> JsonPath:
        """A path such as `.status.conditions[?(@.type=="Ready")].status`; InvalidSpec when it cannot be read."""
        return _parsed(text)

    def find(self, value: Any) -> list[Any]:
        """Every value the path leads to; none where a step is missing."""
        found: Iterable[Any] = (value,)
        for step in self._steps:
            found = [inner for outer in found for inner in step(outer)]
        return list(found)

    def first(self, value: Any) -> Any:
        """The first value the path leads to, or None."""
        found = self.find(value)
        return found[0] if found else None


@lru_cache(maxsize=1024)
def _parsed(text: str) -> JsonPath:
    body = text.strip()
    if body.startswith("{") and body.endswith("}"):
        body = body[1:-1]
    body = body.removeprefix("$")
    if body and body[0] not in ".[":
        body = f".{body}"
    steps: list[Step] = []
    position = 0
    while position < len(body) and body != ".":
        match = _TOKEN.match(body, position)
        if match is None:
            raise InvalidSpec("jsonPath", f"cannot read {text!r} from {body[position:]!r} on")
        steps.append(_step(match))
        position = match.end()
    return JsonPath(text, tuple(steps))


def _step(match: re.Match[str]) -> Step:
    if match["name"] is not None:
        name = re.sub(r"\\(.)", r"\1", match["name"])
        return _every if name == "*" else _member(name)
    if match["key"] is not None:
        return _member(match["key"])
    if match["index"] is not None:
        return _item(int(match["index"]))
    if match["start"] is not None:
        return _items(*(int(bound) if bound else None for bound in (match["start"], match["stop"])))
    if match["all"] is not None:
        return _every
    return _where(_parsed(match["path"]), match["op"] == "==", match["value"])


def _member(name: str) -> Step:
    def step(value: Any) -> Iterator[Any]:
        if isinstance(value, dict) and name in value:
            yield value[name]

    return step


def _item(index: int) -> Step:
    def step(value: Any) -> Iterator[Any]:
        if isinstance(value, list) and -len(value) <= index < len(value):
            yield value[index]

    return step


def _items(start: int | None, stop: int | None) -> Step:
    return lambda value: iter(value[start:stop] if isinstance(value, list) else ())


def _every(value: Any) -> Iterator[Any]:
    if isinstance(value, dict):
        yield from value.values()
    elif isinstance(value, list):
        yield from value


def _where(path: JsonPath, equal: bool, literal: str) -> Step:
    wanted = (
        literal[1:-1]
        if literal[0] in "'\""
        else {"true": True, "false": False, "null": None}.get(literal, literal)
    )

    def step(value: Any) -> Iterator[Any]:
        for entry in value if isinstance(value, list) else ():
            seen = path.first(entry)
            matches = str(seen) == wanted if isinstance(wanted, str) else seen is wanted
            if matches is equal:
                yield entry

    return step
