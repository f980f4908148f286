"""Expressions have the values, errors and costs that they have on kube-apiserver."""

from __future__ import annotations

import time
from contextlib import suppress
from typing import Any

import pytest

from pliant.embedded.cel import environment, types
from pliant.embedded.cel.environment import Environment, Program, compile_expression
from pliant.embedded.cel.regex.matcher import compile_pattern
from pliant.embedded.cel.source_errors import CompileError
from pliant.embedded.cel.values import CostLimitError, EvaluationError

_ANYTHING = Environment({"self": types.DYN})

VALUES: dict[str, Any] = {
    "1 + 2 * 3 == 7 && 7 / 2 == 3 && -7 / 2 == -3 && -7 % 2 == -1": True,
    "1.5 < 2 && 2u > 1 && dyn(1) == 1.0": True,
    "'a' + 'b' == 'ab' && [1] + [2] == [1, 2]": True,
    "self.list.all(x, x > 0) && self.list.exists(x, x == 2) && self.list.exists_one(x, x == 2)": True,
    "self.list.map(x, x > 1, x * 2)": [4, 6],
    "self.list.filter(x, x > 1).size()": 2,
    "has(self.list) && !has(self.none)": True,
    "self.?none.orValue(3) + self.list[?7].orValue(4)": 7,
    "optional.of(1).optMap(x, x + 1).value()": 2,
    "self.none == 1 || true": True,
    "false && self.none == 1": False,
    "'a,b,c'.split(',', 2)": ["a", "b,c"],
    "['a', 'b'].join('-').upperAscii().replace('A', 'x').substring(1)": "-B",
    "'%s has %d of %.1f'.format(['x', 3, 1.5])": "x has 3 of 1.5",
    "[3, 1, 2].sort()": [1, 2, 3],
    "[3, 1, 2].sortBy(x, -x)": [3, 2, 1],
    "[1, 2].sum() + [1, 2].max() + [[1], [2]].flatten().indexOf(2)": 6,
    "sets.contains([1, 2], [2]) && sets.intersects([1], [1, 3]) && sets.equivalent([1, 2], [2, 1, 1])": True,
    "{'a': 1, 'b': 2}.all(k, v, v > 0) && {'a': 1}.transformMap(k, v, v + 1) == {'a': 2}": True,
    "duration('1h30m').getMinutes() + timestamp('2020-02-03T04:05:06Z').getDate()": 93,
    "timestamp('2020-02-03T04:05:06Z').getHours('Europe/Paris')": 5,
    "string(timestamp('2020-01-01T02:00:00+02:00') + duration('0.5s'))": "2020-01-01T00:00:00.500Z".replace("00Z", "Z"),
    "quantity('1Gi').add(1).compareTo(quantity('1Gi')) == 1 && quantity('1500m').isGreaterThan(quantity('1'))": True,
    "ip('10.0.0.1').family() == 4 && cidr('10.0.0.0/8').containsIP('10.1.1.1') && !isIP('x')": True,
    "url('https://a.b:80/c?d=1').getPort() + url('https://a.b:80/c?d=1').getQuery()['d'][0]": "801",
    "semver('1.2.3-rc.1').isLessThan(semver('1.2.3')) && isSemver('v1.0', true) && !isSemver('v1.0')": True,
    "format.dns1123Label().validate('ok').hasValue() || !format.dns1123Label().validate('A').hasValue()": False,
    "'abc12'.find('[0-9]+') + 'a1b22'.findAll('[0-9]+')[1]": "1222",
    "type(1) == int && type('a') == string && type([]) == list && type(type(1)) == type": True,
    "int('-12') + int(3.9) + int(timestamp('1970-01-01T00:00:01Z'))": -8,
    r"'\u00e9\x41\101\n' == 'éAA' + '\n' && r'\n'.size() == 2 && b'é'.size() == 2": True,
    "self.text.matches('^[a-z]+$') ? 'lower' : 'other'": "lower",
}

ERRORS = {
    "self.none": "no such key: none",
    "(null).getDate()": "no such overload: getDate(null_type)",
    "self.list[9]": "index out of bounds: 9",
    "1 / (self.list[0] - 1)": "division by zero",
    "9223372036854775807 + self.list[0]": "integer overflow",
    "self.text + self.list[0]": "no such overload",
    "size(self.list[0]) == 1": "no such overload: size",
    "int(self.text)": "type conversion error from 'string' to 'int'",
    "optional.none().value()": "optional.none() dereference",
    "quantity(self.text)": "quantities must match the regular expression "
    "'^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'",
    "self.text.substring(9)": "index out of range: 9",
    "[1].filter(x, x > 1).min()": "min called on empty list",
}

COMPILE_ERRORS = {
    "1 +": "Syntax error: mismatched input '<EOF>' expecting {'[', '{', '(', '.', '-', '!', 'true', 'false', 'null', "
    "NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, IDENTIFIER}",
    "(1": "Syntax error: missing ')' at '<EOF>'",
    "unknown.field": "undeclared reference to 'unknown' (in container '')",
    "'a' + 1": "found no matching overload for '_+_' applied to '(string, int)'",
    "'a'.startsWith(1)": "found no matching overload for 'startsWith' applied to 'string.(int)'",
    "[1, 'a']": "expected type 'int' but found 'string'",
    "'a'.matches('(')": "invalid matches argument",
    "duration('x')": "invalid duration argument",
    "for": "reserved identifier: for",
    "x {?": "Syntax error: missing ':' at '<EOF>'",
    "has(self)": "invalid argument to has() macro",
    "[1].all(1, true)": "argument must be a simple name",
    "'open": "Syntax error: token recognition error at: ''open'",
    "cel.bind(x, 1, x)": "undeclared reference to 'bind' (in container '')",
}


def program(source: str) -> Program:
    return compile_expression(source, _ANYTHING)


def evaluate(source: str, self: Any = None) -> Any:
    """Return the value of an expression; raise its error."""
    given = {"list": [1, 2, 3], "text": "abc", "map": {"a": 1}} if self is None else self
    result = program(source).evaluate({"self": given})
    if result.error is not None:
        raise result.error
    return result.value


@pytest.mark.parametrize("source", VALUES)
def test_an_expression_has_its_value(source: str) -> None:
    assert evaluate(source) == VALUES[source]


@pytest.mark.parametrize("source", ERRORS)
def test_an_expression_fails_with_the_message_of_kubernetes(source: str) -> None:
    with pytest.raises(EvaluationError) as raised:
        evaluate(source)
    assert str(raised.value) == ERRORS[source]


@pytest.mark.parametrize("source", COMPILE_ERRORS)
def test_an_invalid_expression_is_refused_with_the_message_of_kubernetes(source: str) -> None:
    with pytest.raises(CompileError) as raised:
        program(source)
    assert COMPILE_ERRORS[source] in str(raised.value)


def test_an_error_shows_the_line_and_the_position() -> None:
    with pytest.raises(CompileError) as raised:
        program("self.a == 1 &&\n  unknown > 2")
    text = "ERROR: <input>:2:3: undeclared reference to 'unknown' (in container '')\n |   unknown > 2\n | ..^"
    assert str(raised.value) == text


HOSTILE = {
    "nested loops": ("self.all(a, self.all(b, self.all(c, a + b + c >= 0)))", list(range(1000))),
    "a long list": ("self.map(x, self.map(y, x + y)).size() > 0", list(range(5000))),
    "doubled text": ("self.map(x, x + x).map(x, x + x).map(x, x + x).join('').size() > 0", ["x" * 100_000] * 1000),
    "replaced text": ("self.replace('', self).size() > 0", "x" * 1_000_000),
    "distinct elements": ("self.distinct().size() > 0", [[number] for number in range(20_000)]),
    "a pattern with nested repetition": ("self.find('((a?){30}){30}b') == ''", "a" * 300_000),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_expression_is_stopped_within_its_budget(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environment, "MAX_EVALUATION_SECONDS", 0.2)
    source, value = HOSTILE[name]
    compiled = program(source)
    started = time.thread_time()
    result = compiled.evaluate({"self": value})
    assert isinstance(result.error, CostLimitError)
    assert str(result.error) == "operation cancelled: actual cost limit exceeded"
    assert time.thread_time() - started < 1.5


def test_a_pattern_that_backtracks_elsewhere_is_matched_in_linear_time() -> None:
    started = time.thread_time()
    assert evaluate("self.matches('^(a+)+$')", "a" * 50_000 + "b") is False
    assert evaluate("self.matches('(x*)*y')", "x" * 50_000) is False
    assert time.thread_time() - started < 2


@pytest.mark.parametrize(
    "source", ["(" * 5000 + "1" + ")" * 5000, "1" + " + 1" * 20_000, "!" * 50_000 + "true", "a." * 9000]
)
def test_a_deep_expression_is_refused_or_evaluated(source: str) -> None:
    with suppress(CompileError):
        assert program(source).evaluate({}).error is None


def test_what_an_expression_costs_is_counted_as_in_kubernetes() -> None:
    costs = {"1 + 1 == 2": 2, "self.list[0] == 1": 4, "self.list.all(x, x > 0)": 18, "'a' == 'b'": 1}
    given = {"self": {"list": [1, 2, 3]}}
    assert {source: program(source).evaluate(given).cost for source in costs} == costs


@pytest.mark.parametrize(
    ("pattern", "text", "matches"),
    [
        (r"a*?b", "aab ab b", ["aab", "ab", "b"]),
        (r"\bfoo\b|(?i)BAR", "foo food bar", ["foo", "bar"]),
        (r"[^a-c\d]+", "a1xyz b2", ["xyz "]),
        (r"(ab|a)(c|bcd)", "abcd abc", ["abc", "abc"]),
        (r"x{2,3}", "xxxxx", ["xxx", "xx"]),
        (r"[[:upper:]]\w*", "Ab cD", ["Ab", "D"]),
        (r"\Qa.b\E", "a.b axb", ["a.b"]),
        (r"(?m)^.$", "a\nb", ["a", "b"]),
        (r"\pL+", "éa1", ["éa"]),
    ],
)
def test_a_pattern_finds_what_it_finds_in_go(pattern: str, text: str, matches: list[str]) -> None:
    assert list(compile_pattern(pattern).find_all(text)) == matches


@pytest.mark.parametrize(
    "pattern", ["(", ")", "[a", "a**", "*a", "a{2,1}", "a{1001}", r"\8", "(?=a)", "(?P<1>a)", "[b-a]"]
)
def test_an_invalid_pattern_is_refused(pattern: str) -> None:
    with pytest.raises(EvaluationError, match="error parsing regexp"):
        compile_pattern(pattern)
