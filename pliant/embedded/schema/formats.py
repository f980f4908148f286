"""The string and integer formats of OpenAPI schemas, and Go regular expressions."""

from __future__ import annotations

import base64
import ipaddress
import re
from collections.abc import Callable
from datetime import date, datetime
from functools import lru_cache
from typing import Final, Protocol
from urllib.parse import urlsplit

from pliant.errors import InvalidSpec

_DURATION: Final = re.compile(r"[+-]?(0|((\d+(\.\d*)?|\.\d+)(ns|us|µs|μs|ms|s|m|h))+)")
_NAMED_DURATION: Final = re.compile(
    r"\d+\s*(ns|nano|us|µs|micro|ms|milli|s(?![a-z])|sec|m(?![a-z])|min|h(?![a-z])|hr(?![a-z])|hour|d(?![a-z])|day"
    r"|w(?![a-z])|wk(?![a-z])|week)",
    re.IGNORECASE,
)
"""A number with a unit; text around it is ignored."""
_DATE: Final = re.compile(r"\d{4}-\d\d-\d\d")
_HOST_CHARACTER: Final = r"(?:[^\W_]|[$+<=>^`|~])"  # letters, digits and symbols
_HOSTNAME: Final = re.compile(
    rf"(?=.{{1,255}}\Z)(?!.*[^.]{{64}})(?:{_HOST_CHARACTER}(?:-?{_HOST_CHARACTER}{{0,62}})?"
    rf"|(?:{_HOST_CHARACTER}(?:(?:-|{_HOST_CHARACTER}){{0,61}}{_HOST_CHARACTER})?\.)+[^\W\d_]{{2,63}})"
)
"""As API servers read it: one label has one hyphen at most, and the last one of several has two letters at least."""
_EMAIL: Final = re.compile(r"[^@\s<>]+@[^@\s<>]+")
_MAC: Final = re.compile(
    r"[0-9A-Fa-f]{2}(?:(:|-)[0-9A-Fa-f]{2}(?:\1[0-9A-Fa-f]{2}){4}(?:(?:\1[0-9A-Fa-f]{2}){2}|(?:\1[0-9A-Fa-f]{2}){14})?"
    r"|[0-9A-Fa-f]{2}(?:\.[0-9A-Fa-f]{4}){2}(?:\.[0-9A-Fa-f]{4}|(?:\.[0-9A-Fa-f]{4}){7})?)"
)
_UUID: Final = re.compile(r"[0-9A-Fa-f]{8}-?([0-9A-Fa-f]{4}-?){3}[0-9A-Fa-f]{12}")
_DATE_TIME: Final = re.compile(r"\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(\.\d{1,9})?([Zz]|[+-]\d\d:?\d\d)")


def _parses_with(parser: Callable[[str], object]) -> Callable[[str], bool]:
    def is_parsable(text: str) -> bool:
        try:
            parser(text)
        except ValueError:
            return False
        return True

    return is_parsable


def _is_date_time(text: str) -> bool:
    return _DATE_TIME.fullmatch(text) is not None and _parses_with(datetime.fromisoformat)(text[:19])


def _is_base64(text: str) -> bool:
    return text != "" and _parses_with(lambda text: base64.b64decode(text, validate=True))(text)


def _is_date(text: str) -> bool:
    return _DATE.fullmatch(text) is not None and _parses_with(date.fromisoformat)(text)


def _is_duration(text: str) -> bool:
    return _DURATION.fullmatch(text) is not None or _NAMED_DURATION.search(text) is not None


def _is_uri(text: str) -> bool:
    try:
        parts = urlsplit(text)
    except ValueError:
        return False
    return bool(parts.scheme) or text.startswith("/")


def _matches_pattern(pattern: re.Pattern[str]) -> Callable[[str], bool]:
    return lambda text: pattern.fullmatch(text) is not None


STRING_FORMAT_CHECKS: Final[dict[str, Callable[[str], bool]]] = {
    "byte": _is_base64,
    "cidr": _parses_with(lambda text: ipaddress.ip_network(text, strict=False)),
    "date": _is_date,
    "date-time": _is_date_time,
    "datetime": _is_date_time,
    "duration": _is_duration,
    "email": _matches_pattern(_EMAIL),
    "hostname": _matches_pattern(_HOSTNAME),
    "ipv4": _parses_with(ipaddress.IPv4Address),
    "ipv6": _parses_with(ipaddress.IPv6Address),
    "mac": _matches_pattern(_MAC),
    "uri": _is_uri,
    "uuid": _matches_pattern(_UUID),
}
"""Formats that are validated; others are ignored, as in Kubernetes."""

INTEGER_RANGES: Final[dict[str, tuple[int, int]]] = {"int32": (-(2**31), 2**31 - 1), "int64": (-(2**63), 2**63 - 1)}

_POSIX_CLASSES: Final = {
    "[:alpha:]": "A-Za-z",
    "[:digit:]": "0-9",
    "[:alnum:]": "A-Za-z0-9",
    "[:lower:]": "a-z",
    "[:upper:]": "A-Z",
    "[:space:]": r"\s",
    "[:word:]": r"\w",
    "[:xdigit:]": "0-9A-Fa-f",
}


_DIFFERS_FROM_PYTHON: Final = re.compile(r"\(\?[^:]|\\[pPQCAbB1-9]|[*+?}][+?]")
"""Syntax that Python lacks, reads differently, or has in addition to that of Go."""


class SearchablePattern(Protocol):
    def search(self, text: str, /) -> object:
        """Return something true if some part of a text matches."""


class _ParsedPattern:
    """A pattern for which Python has no equivalent."""

    def __init__(self, pattern: str) -> None:
        # Importing the parser costs time; few schemas have such a pattern.
        from pliant.embedded.cel.regex.matcher import compile_pattern
        from pliant.embedded.cel.values import EvaluationError

        try:
            self._is_match = compile_pattern(pattern).is_match
        except EvaluationError as error:
            raise ValueError(str(error)) from None

    def search(self, text: str) -> object:
        return self._is_match(text) or None


@lru_cache(maxsize=1024)
def compile_go_pattern(pattern: str, field_path: str = "pattern") -> SearchablePattern:
    """Translate a Go regular expression; raise InvalidSpec with `field_path` if it is invalid."""
    if _DIFFERS_FROM_PYTHON.search(pattern):
        try:
            return _ParsedPattern(pattern)
        except ValueError as error:
            raise InvalidSpec(field_path, f"must be a valid regular expression, but isn't: {error}") from error
    text = pattern
    for name, characters in _POSIX_CLASSES.items():
        text = text.replace(name, characters)
    # In Go `$` matches only at the end; in Python it also matches before a trailing newline.
    if text.endswith("$") and not text.endswith(r"\$"):
        text = text[:-1] + r"\Z"
    try:
        return re.compile(text.replace(r"\z", r"\Z"), re.ASCII)
    except re.error as error:
        raise InvalidSpec(field_path, f"must be a valid regular expression, but isn't: {error}") from error
