"""Compares a manifest with a stored object, to decide whether a job can adopt the object."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from pliant.frameworks.progress_reporting import REPORT_TOKEN_VARIABLE, REPORT_URL_VARIABLE
from pliant.schemas.quantity import parse_quantity

_JOB_SPECIFIC_VARIABLES = frozenset({REPORT_URL_VARIABLE, REPORT_TOKEN_VARIABLE})
"""Variables that contain the UID of the job but do not matter for whether pods of two jobs can train together."""


def find_difference(expected: Any, actual: Any, path: str) -> str:
    """Return the path of the first field of a manifest that differs in a stored object; empty if there is none.

    The API server adds default values, so fields that only the stored object has are no difference.
    """
    if isinstance(expected, Mapping):
        if not isinstance(actual, Mapping):
            return path
        return _first_difference(expected, actual, path)
    if isinstance(expected, list | tuple):
        if path.endswith(".env"):
            expected, actual = _variables_by_name(expected), _variables_by_name(actual or ())
            return _first_difference(expected, actual, path)
        if not isinstance(actual, list) or len(actual) < len(expected):
            return path
        differences = (find_difference(each, actual[i], f"{path}[{i}]") for i, each in enumerate(expected))
        return next(filter(None, differences), "")
    return "" if _are_equal(expected, actual, path) else path


def _first_difference(expected: Mapping[str, Any], actual: Mapping[str, Any], path: str) -> str:
    # An empty value may have been dropped, or replaced by a default.
    given = {name: value for name, value in expected.items() if value not in (None, "", {}, [], ())}
    differences = (find_difference(each, actual.get(name), f"{path}.{name}") for name, each in given.items())
    return next(filter(None, differences), "")


def _variables_by_name(variables: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    return {each["name"]: each for each in variables if each["name"] not in _JOB_SPECIFIC_VARIABLES}


def _are_equal(expected: Any, actual: Any, path: str) -> bool:
    if expected == actual or actual is None or ".resources." not in path:
        return bool(expected == actual)
    try:
        return parse_quantity(expected) == parse_quantity(actual)
    except ValueError:
        return False
