"""Parses the syntax of RE2 to a tree."""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from pliant.embedded.cel.values import EvaluationError

Ranges = tuple[tuple[int, int], ...]
_MAX_CODE: Final = 0x10FFFF
_MAX_REPEAT: Final = 1000
_MAX_DEPTH: Final = 100


@dataclass(frozen=True, slots=True)
class Characters:
    """One character of these ranges."""

    ranges: Ranges
    ignores_case: bool = False


@dataclass(frozen=True, slots=True)
class Assertion:
    """`begin_text`, `end_text`, `begin_line`, `end_line`, `word` or `not_word`."""

    kind: str


@dataclass(frozen=True, slots=True)
class Sequence:
    parts: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Alternatives:
    parts: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Repeat:
    part: Node
    low: int
    high: int | None
    is_greedy: bool


Node = Characters | Assertion | Sequence | Alternatives | Repeat

_DIGIT: Final = ((48, 57),)
_WORD: Final = ((48, 57), (65, 90), (95, 95), (97, 122))
_SPACE: Final = ((9, 10), (12, 13), (32, 32))
_PERL_CLASSES: Final = {"d": _DIGIT, "w": _WORD, "s": _SPACE}
_POSIX_CLASSES: Final[dict[str, Ranges]] = {
    "alnum": ((48, 57), (65, 90), (97, 122)),
    "alpha": ((65, 90), (97, 122)),
    "ascii": ((0, 127),),
    "blank": ((9, 9), (32, 32)),
    "cntrl": ((0, 31), (127, 127)),
    "digit": _DIGIT,
    "graph": ((33, 126),),
    "lower": ((97, 122),),
    "print": ((32, 126),),
    "punct": ((33, 47), (58, 64), (91, 96), (123, 126)),
    "space": ((9, 13), (32, 32)),
    "upper": ((65, 90),),
    "word": _WORD,
    "xdigit": ((48, 57), (65, 70), (97, 102)),
}
_ESCAPES: Final = {"a": 7, "f": 12, "n": 10, "r": 13, "t": 9, "v": 11}
_ANY: Final = ((0, _MAX_CODE),)


def invert(ranges: Ranges) -> Ranges:
    """Return the characters that are in none of the ranges."""
    inverted, start = [], 0
    for low, high in sorted(ranges):
        if low > start:
            inverted.append((start, low - 1))
        start = max(start, high + 1)
    return (*inverted, *([(start, _MAX_CODE)] if start <= _MAX_CODE else []))


@lru_cache(maxsize=32)
def _unicode_class(name: str) -> Ranges:
    ranges: list[tuple[int, int]] = []
    for code in range(_MAX_CODE + 1):
        if unicodedata.category(chr(code)).startswith(name):
            if ranges and ranges[-1][1] == code - 1:
                ranges[-1] = (ranges[-1][0], code)
            else:
                ranges.append((code, code))
    return tuple(ranges)


class PatternParser:
    """Parses one pattern; raises EvaluationError with the message of Go."""

    def __init__(self, pattern: str) -> None:
        self._pattern = pattern
        self._index = 0
        self._flags = frozenset[str]()
        self._depth = 0

    def parse(self) -> Node:
        node = self._parse_alternatives()
        if self._index < len(self._pattern):
            raise self._error("unexpected )", self._pattern)
        return node

    def _error(self, problem: str, text: str) -> EvaluationError:
        return EvaluationError(f"error parsing regexp: {problem}: `{text}`")

    def _peek(self) -> str:
        return self._pattern[self._index : self._index + 1]

    def _accept(self, text: str) -> bool:
        if not self._pattern.startswith(text, self._index):
            return False
        self._index += len(text)
        return True

    def _parse_alternatives(self) -> Node:
        self._depth += 1
        if self._depth > _MAX_DEPTH:
            raise self._error("expression nests too deeply", self._pattern)
        flags = self._flags
        parts = [self._parse_sequence()]
        while self._accept("|"):
            parts.append(self._parse_sequence())
        self._flags = flags
        self._depth -= 1
        return parts[0] if len(parts) == 1 else Alternatives(tuple(parts))

    def _parse_sequence(self) -> Node:
        parts: list[Node] = []
        while self._peek() not in ("", "|", ")"):
            start = self._index
            if self._accept("\\Q"):
                end = self._pattern.find("\\E", self._index)
                quoted = self._pattern[self._index : end if end >= 0 else len(self._pattern)]
                parts += [self._characters(((ord(each), ord(each)),)) for each in quoted]
                self._index += len(quoted) + 2
                continue
            node = self._parse_atom()
            if node is not None:
                parts.append(self._parse_repeats(node, start))
        return Sequence(tuple(parts))

    def _characters(self, ranges: Ranges) -> Characters:
        return Characters(ranges, "i" in self._flags)

    def _parse_atom(self) -> Node | None:
        character = self._peek()
        start = self._index
        self._index += 1
        match character:
            case "(":
                return self._parse_group()
            case "[":
                return self._parse_class(start)
            case ".":
                return Characters(_ANY if "s" in self._flags else invert(((10, 10),)))
            case "^":
                return Assertion("begin_line" if "m" in self._flags else "begin_text")
            case "$":
                return Assertion("end_line" if "m" in self._flags else "end_text")
            case "\\":
                return self._parse_escape(start)
            case "*" | "+" | "?":
                raise self._error("missing argument to repetition operator", character)
        return self._characters(((ord(character), ord(character)),))

    def _parse_group(self) -> Node | None:
        if self._accept("?"):
            if self._accept("P<") or self._accept("<"):
                end = self._pattern.find(">", self._index)
                if end < 0 or not self._pattern[self._index : end].isidentifier():
                    raise self._error("invalid named capture", self._pattern[self._index - 2 :])
                self._index = end + 1
            elif not self._parse_flags():
                return None
        flags = self._flags
        node = self._parse_alternatives()
        self._flags = flags
        if not self._accept(")"):
            raise self._error("missing closing )", self._pattern)
        return node

    def _parse_flags(self) -> bool:
        """Apply the flags of `(?i)` or `(?i:`; return whether a group follows."""
        start = self._index - 2
        flags, removes = set(self._flags), False
        while True:
            character = self._peek()
            self._index += 1
            if character in ("i", "m", "s", "U"):
                (flags.discard if removes else flags.add)(character)
            elif character == "-" and not removes:
                removes = True
            elif character in (":", ")"):
                self._flags = frozenset(flags)
                return character == ":"
            else:
                raise self._error("invalid or unsupported Perl syntax", self._pattern[start : self._index])

    def _parse_repeats(self, node: Node, start: int) -> Node:
        bounds = self._parse_bounds()
        if bounds is None:
            return node
        low, high = bounds
        text = self._pattern[start : self._index]
        if low > _MAX_REPEAT or (high is not None and (high > _MAX_REPEAT or high < low)):
            raise self._error("invalid repeat count", text[text.rfind("{") :])
        is_greedy = self._accept("?") is ("U" in self._flags)
        operator = self._index
        if self._parse_bounds() is not None:
            raise self._error("invalid nested repetition operator", self._pattern[operator - 1 : self._index])
        return Repeat(node, low, high, is_greedy)

    def _parse_bounds(self) -> tuple[int, int | None] | None:
        for operator, bounds in (("*", (0, None)), ("+", (1, None)), ("?", (0, 1))):
            if self._accept(operator):
                return bounds
        end = self._pattern.find("}", self._index)
        if self._peek() != "{" or end < 0:
            return None
        low, comma, high = self._pattern[self._index + 1 : end].partition(",")
        if not low.isdecimal() or not (high.isdecimal() or not high) or len(low + high) > 12:
            return None
        self._index = end + 1
        return int(low), (int(high) if high else None) if comma else int(low)

    def _parse_escape(self, start: int) -> Node:
        character = self._peek()
        assertion = {"A": "begin_text", "z": "end_text", "b": "word", "B": "not_word"}.get(character)
        if assertion is not None:
            self._index += 1
            return Assertion(assertion)
        ranges = self._parse_class_escape(start)
        return self._characters(ranges)

    def _parse_class_escape(self, start: int) -> Ranges:
        """Return the characters of an escape, behind its backslash."""
        character = self._peek()
        self._index += 1
        if character == "":
            raise self._error("trailing backslash at end of expression", "")
        if character.lower() in _PERL_CLASSES:
            ranges = _PERL_CLASSES[character.lower()]
            return ranges if character.islower() else invert(ranges)
        if character in ("p", "P"):
            return self._parse_unicode_class(start, is_negated=character == "P")
        code = self._parse_code(character, start)
        return ((code, code),)

    def _parse_unicode_class(self, start: int, *, is_negated: bool) -> Ranges:
        name = self._peek()
        self._index += 1
        if name == "{":
            end = self._pattern.find("}", self._index)
            name = self._pattern[self._index : end]
            self._index = end + 1 if end >= 0 else len(self._pattern)
        if name.startswith("^"):
            is_negated, name = not is_negated, name[1:]
        ranges = _unicode_class(name) if name and len(name) <= 2 else ()
        if not ranges:
            raise self._error("invalid character class range", self._pattern[start : self._index])
        return invert(ranges) if is_negated else ranges

    def _parse_code(self, character: str, start: int) -> int:
        if character in _ESCAPES:
            return _ESCAPES[character]
        digits = ""
        if character == "x":
            if self._accept("{"):
                end = self._pattern.find("}", self._index)
                digits = self._pattern[self._index : max(end, self._index)]
                self._index = max(end, self._index) + 1
            else:
                digits = self._pattern[self._index : self._index + 2]
                self._index += 2
            is_hex = 0 < len(digits) <= 6 and all(each in "0123456789abcdefABCDEF" for each in digits)
            if is_hex and int(digits, 16) <= _MAX_CODE:
                return int(digits, 16)
        elif character in "01234567" and (character == "0" or self._peek() in tuple("01234567")):
            digits = character
            while len(digits) < 3 and self._peek() in tuple("01234567"):
                digits += self._peek()
                self._index += 1
            return int(digits, 8)
        elif ord(character) < 128 and not character.isalnum():
            return ord(character)
        raise self._error("invalid escape sequence", self._pattern[start : self._index])

    def _parse_class(self, start: int) -> Node:
        is_negated = self._accept("^")
        ranges: list[tuple[int, int]] = []
        is_first = True
        while is_first or self._peek() != "]":
            if self._peek() == "":
                raise self._error("missing closing ]", self._pattern[start:])
            ranges += self._parse_class_part()
            is_first = False
        self._index += 1
        return Characters(invert(tuple(ranges)) if is_negated else tuple(ranges), "i" in self._flags)

    def _parse_class_part(self) -> Ranges:
        start = self._index
        if self._accept("[:"):
            end = self._pattern.find(":]", self._index)
            name = self._pattern[self._index : end]
            if end >= 0 and name.removeprefix("^") in _POSIX_CLASSES:
                self._index = end + 2
                ranges = _POSIX_CLASSES[name.removeprefix("^")]
                return invert(ranges) if name.startswith("^") else ranges
            self._index = start
        low = self._parse_class_character(start)
        if len(low) != 1 or low[0][0] != low[0][1]:
            return low
        if self._peek() != "-" or self._pattern[self._index + 1 : self._index + 2] in ("]", ""):
            return low
        self._index += 1
        high = self._parse_class_character(start)
        if high[0][0] < low[0][0] or len(high) != 1:
            raise self._error("invalid character class range", self._pattern[start : self._index])
        return ((low[0][0], high[0][0]),)

    def _parse_class_character(self, start: int) -> Ranges:
        if self._accept("\\"):
            return self._parse_class_escape(start)
        character = self._peek()
        self._index += 1
        return ((ord(character), ord(character)),)
