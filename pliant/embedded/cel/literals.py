"""Checks the literals of an expression: their elements have one type, and conversions can parse them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

from pliant.embedded.cel import expressions as ast
from pliant.embedded.cel.functions.conversions import CONVERSIONS
from pliant.embedded.cel.functions.regex_functions import compile_pattern
from pliant.embedded.cel.functions.time import parse_duration, parse_timestamp
from pliant.embedded.cel.source_errors import SourceError
from pliant.embedded.cel.types import Type
from pliant.embedded.cel.values import EvaluationError

_INSTANTIATED: Final[dict[str, Callable[[Any], Any]]] = {
    **CONVERSIONS,
    **dict.fromkeys(("find", "findAll"), compile_pattern),
}
_PARSERS: Final[dict[str, tuple[int, Callable[[str], Any]]]] = {
    "duration": (0, parse_duration),
    "timestamp": (0, parse_timestamp),
    "matches": (-1, compile_pattern),
}
"""The position of the argument, and what parses it."""


def find_literal_errors(root: ast.Expression) -> Iterator[SourceError]:
    """Yield an error for each literal that its function cannot parse, and for elements of different types."""
    yield from _find_mixed_types(root)
    for node in root.walk():
        argument = _literal_argument(node, _PARSERS)
        if argument is not None:
            name, literal, (_, parse) = argument
            try:
                parse(literal.value)
            except EvaluationError:
                yield SourceError(literal.position, f"invalid {name} argument")


def _literal_argument(node: ast.Expression, functions: Any) -> tuple[str, ast.Literal, Any] | None:
    """Return the function, the text and the entry of a call of one of the functions with a literal text."""
    if not (isinstance(node, ast.Call) and node.function in functions and node.args):
        return None
    entry = functions[node.function]
    argument = node.args[entry[0] if isinstance(entry, tuple) else 0]
    if isinstance(argument, ast.Literal) and isinstance(argument.value, str):
        return node.function, argument, entry
    return None


def find_conversion_error(root: ast.Expression) -> str:
    """Return why the conversion of a literal fails, such as `int('x')`; empty if none does."""
    for node in root.walk():
        argument = _literal_argument(node, _INSTANTIATED)
        if argument is not None:
            try:
                argument[2](argument[1].value)
            except EvaluationError as error:
                return str(error)
    return ""


def _find_mixed_types(node: ast.Expression) -> Iterator[SourceError]:
    if isinstance(node, ast.Call) and node.function == "format":
        return
    if isinstance(node, ast.CreateList):
        optional = [index in node.optional_indices for index in range(len(node.elements))]
        yield from _find_other_types(list(zip(node.elements, optional, strict=True)))
    elif isinstance(node, ast.CreateMap):
        yield from _find_other_types([(key, False) for key, _, _ in node.entries])
        yield from _find_other_types([(value, is_optional) for _, value, is_optional in node.entries])
    for part in node.parts():
        yield from _find_mixed_types(part)


def _find_other_types(elements: list[tuple[ast.Expression, bool]]) -> Iterator[SourceError]:
    """Yield an error for the first element whose type is not that of the first."""
    expected: Type | None = None
    for element, is_optional in elements:
        found = element.type.params[0] if is_optional and element.type.params else element.type
        if expected is None:
            expected = found
        elif found != expected:
            yield SourceError(element.position, f"expected type '{expected}' but found '{found}'")
            return
