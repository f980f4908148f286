"""Tokens of CEL expressions, and the values of its literals."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from pliant.embedded.cel.source_errors import CompileError, SourceError

_TOKEN: Final = re.compile(
    r"""
    (?P<space>[\t\ \r\n\f]+|//[^\n]*)
  | (?P<bytes>[bB](?:[rR])?(?=["'])|[rR][bB](?=["']))
  | (?P<raw>[rR](?=["']))
  | (?P<quote>\"\"\"|'''|\"|')
  | (?P<float>(?:[0-9]+\.[0-9]+(?:[eE][+-]?[0-9]+)?|[0-9]+[eE][+-]?[0-9]+|\.[0-9]+(?:[eE][+-]?[0-9]+)?))
  | (?P<uint>(?:0x[0-9A-Fa-f]{1,400}|[0-9]{1,400})[uU])
  | (?P<int>0x[0-9A-Fa-f]{1,400}|[0-9]{1,400})
  | (?P<escaped>`[A-Za-z0-9_.\-/ ]+`)
  | (?P<name>[A-Za-z_][A-Za-z0-9_]*)
  | (?P<operator>==|!=|<=|>=|&&|\|\||[\[\]{}()<>.,\-!?:+*/%])
    """,
    re.VERBOSE,
)
_ESCAPE: Final = re.compile(
    r"\\(?:([abfnrtv\\?\"'`])|[xX]([0-9A-Fa-f]{2})|u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8})|([0-3][0-7]{2})|(.?))", re.DOTALL
)
_SIMPLE_ESCAPES: Final = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
MAX_SOURCE_LENGTH = 100_000
RESERVED_NAMES: Final = frozenset(
    (
        *("as", "break", "const", "continue", "else", "for", "function", "if", "import", "let", "loop", "package"),
        *("namespace", "return", "var", "void", "while"),
    )
)
"""Names that variables and functions must not have."""


@dataclass(frozen=True, slots=True)
class Token:
    kind: str
    """`operator`, `name`, `escaped`, `int`, `uint`, `float`, `string`, `bytes` or `end`."""
    text: str
    position: int
    value: str | bytes = ""


def tokenize(source: str) -> tuple[list[Token], list[SourceError]]:
    """Return the tokens of an expression, with `end` as the last one, and an error for each text that is no token."""
    if len(source) > MAX_SOURCE_LENGTH:
        message = f"expression code point size exceeds limit: size: {len(source)}, limit {MAX_SOURCE_LENGTH}"
        raise CompileError(source, [SourceError(0, message)])
    tokens: list[Token] = []
    errors: list[SourceError] = []
    position = 0
    while position < len(source):
        match = _TOKEN.match(source, position)
        kind = match.lastgroup if match is not None else None
        if match is None:
            # The first character of a longer operator is skipped with the character behind it.
            skipped = source[position : position + (2 if source[position] in "=&|" else 1)]
            errors.append(_not_a_token(position, skipped))
            position += len(skipped)
        elif kind in ("bytes", "raw", "quote"):
            end, token = _read_string(source, position, match)
            if token is None and kind != "quote":
                end = position + len(match.group())  # without the literal, its prefix is a name
                tokens.append(Token("name", match.group(), position))
            elif token is None:
                errors.append(_not_a_token(position, source[position:end]))
            else:
                tokens.append(token)
            position = end
        else:
            if kind is not None and kind != "space":
                tokens.append(Token(kind, match.group(), position))
            position = match.end()
    return [*tokens, Token("end", "<EOF>", len(source))], errors


def _not_a_token(position: int, text: str) -> SourceError:
    return SourceError(position, f"Syntax error: token recognition error at: '{text}'")


def _read_string(source: str, position: int, match: re.Match[str]) -> tuple[int, Token | None]:
    """Return the end of a literal and its token; no token if it does not end, or has an invalid escape."""
    prefix = "" if match.lastgroup == "quote" else match.group().lower()
    start = position + len(prefix)
    quote = source[start : start + 3] if source[start : start + 3] in ('"""', "'''") else source[start]
    end, is_raw = start + len(quote), "r" in prefix
    while not source.startswith(quote, end):
        if end >= len(source) or (len(quote) == 1 and source[end] in "\r\n"):
            return min(end + 1, len(source)), None
        if source[end] == "\\" and not is_raw:
            escape = _ESCAPE.match(source, end)
            if escape is None or escape[6] is not None:
                return min(end + 2, len(source)), None
            end = escape.end()
        else:
            end += 1
    text, body = source[position : end + len(quote)], source[start + len(quote) : end]
    if "b" in prefix:
        value: str | bytes = body.encode() if is_raw else _unescape_bytes(source, body, position)
    else:
        value = body if is_raw else _unescape(source, body, position)
    return end + len(quote), Token("bytes" if "b" in prefix else "string", text, position, value)


def _unescape(source: str, body: str, position: int) -> str:
    def replace(match: re.Match[str]) -> str:
        simple, x, u, long, octal, _ = match.groups()
        if simple is not None:
            return _SIMPLE_ESCAPES.get(simple, simple)
        digits, base = (octal, 8) if octal else (x or u or long or "", 16)
        code = int(digits, base) if digits else -1
        if not 0 <= code <= 0x10FFFF or 0xD800 <= code < 0xE000:
            raise CompileError(source, [SourceError(position, "Syntax error: invalid escape sequence in string")])
        return chr(code)

    return _ESCAPE.sub(replace, body) if "\\" in body else body


def _unescape_bytes(source: str, body: str, position: int) -> bytes:
    """Return bytes, in which `\\x` and octal escapes are single bytes and everything else is UTF-8."""
    encoded, end = b"", 0
    for match in _ESCAPE.finditer(body):
        _, x, _, _, octal, _ = match.groups()
        encoded += body[end : match.start()].encode()
        if x or octal:
            encoded += bytes([int(x, 16) if x else int(octal, 8)])
        else:
            encoded += _unescape(source, match.group(), position).encode()
        end = match.end()
    return encoded + body[end:].encode()
