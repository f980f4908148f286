"""Whatever an expression is, it is refused, or its evaluation has a value or an error."""

from __future__ import annotations

import random

import pytest

from pliant.embedded.cel import environment, types
from pliant.embedded.cel.environment import Environment, compile_expression
from pliant.embedded.cel.source_errors import CompileError
from pliant.embedded.cel.values import Duration
from tests.depth import IS_DEEP, SEED

_VALUES = (
    *("self.list", "self.text", "self.map", "self.number", "self.nothing", "self.time", "self.flag", "x"),
    *("1", "2u", "1.5", "-1", "'a'", "true", "null", "[]", "{}", "[1, 2]", "{'a': 1}"),
    *("optional.of(1)", "optional.none()", "quantity('1')", "ip('1.2.3.4')", "semver('1.2.3')", "duration('1h')"),
)
_OPERATORS = ("+", "-", "*", "/", "%", "==", "!=", "<", "<=", ">", ">=", "&&", "||", "in")
_MACROS = ("all", "exists", "exists_one", "map", "filter", "sortBy")
_FUNCTIONS = (
    *("size", "type", "int", "uint", "double", "string", "bytes", "bool", "dyn", "duration", "timestamp", "quantity"),
    *("ip", "cidr", "url", "semver", "isIP", "lists.range", "sets.contains", "optional.unwrap", "strings.quote"),
)
_METHODS = (
    *("split", "join", "replace", "substring", "indexOf", "lastIndexOf", "charAt", "format", "matches", "find", "trim"),
    *("sum", "min", "max", "sort", "reverse", "distinct", "flatten", "slice", "first", "isSorted", "contains"),
    *("value", "hasValue", "or", "orValue", "unwrapOpt", "getDate", "getHours", "add", "compareTo", "asInteger"),
    *("family", "masked", "containsIP", "getHost", "major", "startsWith", "endsWith", "findAll", "lowerAscii"),
)
_TOKENS = (*_VALUES, *_OPERATORS, *"()[]{}.?,:!", "has(", "[?", "{?", ".?", "r'(", "'\\x41'", "`a`", "=", '"')
_SELF = {
    "list": [1, 2, 3],
    "text": "abc",
    "map": {"a": 1, "b": "x"},
    "number": 5,
    "nothing": None,
    "time": Duration(5),
    "flag": True,
}


class Writer:
    """Writes random expressions, most of which can be parsed."""

    def __init__(self, rng: random.Random) -> None:
        self._choose = rng.choice
        self._rng = rng

    def write(self, depth: int) -> str:
        if depth == 0 or self._rng.random() < 0.2:
            return self._choose(_VALUES)
        one, other = self.write(depth - 1), self.write(depth - 1)
        return self._choose(
            (
                f"({one} {self._choose(_OPERATORS)} {other})",
                f"({one}).{self._choose(_MACROS)}(x, {other})",
                f"({one}).{self._choose(_METHODS)}({self._choose(('', other))})",
                f"{self._choose(_FUNCTIONS)}({one})",
                f"({one}){self._choose(('[', '[?'))}{other}]",
                f"({one}){self._choose(('.', '.?'))}a",
                f"dyn({one})",
                f"({one} == {other} ? {one} : {other})",
            )
        )

    def write_tokens(self) -> str:
        return " ".join(self._choose(_TOKENS) for _ in range(self._rng.randrange(1, 12)))


def test_random_expressions_never_crash(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environment, "MAX_EVALUATION_SECONDS", 0.1)
    variables = Environment({"self": types.DYN})
    writer = Writer(random.Random(SEED))
    evaluated = 0
    for number in range(40_000 if IS_DEEP else 2_000):
        source = writer.write_tokens() if number % 4 == 0 else writer.write(1 + number % 4)
        try:
            program = compile_expression(source, variables)
        except CompileError:
            continue
        result = program.evaluate({"self": _SELF})
        assert result.error is None or str(result.error), source
        evaluated += 1
    assert evaluated > 100
