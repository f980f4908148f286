"""Parses CEL expressions; macros are expanded on the way."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from pliant.embedded.cel import expressions as ast
from pliant.embedded.cel.lexer import RESERVED_NAMES, Token, tokenize
from pliant.embedded.cel.macros import expand_macro
from pliant.embedded.cel.source_errors import CompileError, SourceError
from pliant.embedded.cel.values import UInt

_MAX_DEPTH: Final = 100
_RELATIONS: Final = frozenset(("<", "<=", ">=", ">", "==", "!=", "in"))
_EXPRESSION_START: Final = (
    "{'[', '{', '(', '.', '-', '!', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, IDENTIFIER}"
)
_KEYWORDS: Final = {"true": True, "false": False, "null": None}


def parse(source: str) -> ast.Expression:
    """Return the syntax tree of an expression; raise CompileError."""
    tokens, errors = tokenize(source)
    parser = _Parser(source, tokens, errors)
    expression = parser.parse_expression()
    if parser.token.kind != "end":
        problem = "extraneous input" if parser.is_last_token else "mismatched input"
        raise parser.error(f"Syntax error: {problem} '{parser.token.text}' expecting <EOF>")
    if errors:
        raise CompileError(source, errors)
    return expression


class _Parser:
    def __init__(self, source: str, tokens: list[Token], errors: list[SourceError]) -> None:
        self._source = source
        self._errors = errors
        self._tokens = tokens
        self._index = 0
        self._depth = 0

    @property
    def token(self) -> Token:
        return self._tokens[self._index]

    @property
    def is_last_token(self) -> bool:
        return self._index == len(self._tokens) - 2

    def error(self, message: str, position: int | None = None) -> CompileError:
        """Return the errors of the tokens so far, and this one."""
        error = SourceError(self.token.position if position is None else position, message)
        return CompileError(self._source, [*self._errors, error])

    def _next(self) -> Token:
        token = self.token
        self._index += token.kind != "end"
        return token

    def _at(self, *texts: str) -> bool:
        return self.token.kind in ("operator", "name") and self.token.text in texts

    def _accept(self, *texts: str) -> Token | None:
        return self._next() if self._at(*texts) else None

    def _require(self, text: str) -> Token:
        token = self._accept(text)
        if token is None:
            if self.token.kind == "end":
                raise self.error(f"Syntax error: missing '{text}' at '<EOF>'")
            raise self.error(f"Syntax error: mismatched input '{self.token.text}' expecting '{text}'")
        return token

    def parse_expression(self) -> ast.Expression:
        self._depth += 1
        if self._depth > _MAX_DEPTH:
            raise self.error(f"expression recursion limit exceeded: {_MAX_DEPTH}", 0)
        condition = self._parse_logical("||", "_||_", lambda: self._parse_logical("&&", "_&&_", self._parse_relation))
        if (token := self._accept("?")) is not None:
            positive = self._parse_logical(
                "||", "_||_", lambda: self._parse_logical("&&", "_&&_", self._parse_relation)
            )
            self._require(":")
            negative = self.parse_expression()
            condition = ast.Call(token.position, "_?_:_", [condition, positive, negative])
        self._depth -= 1
        return condition

    def _parse_logical(self, operator: str, function: str, parse_term: Callable[[], ast.Expression]) -> ast.Expression:
        terms, positions = [parse_term()], []
        while (token := self._accept(operator)) is not None:
            positions.append(token.position)
            terms.append(parse_term())
        return _balance(function, terms, positions)

    def _parse_relation(self) -> ast.Expression:
        left = self._parse_sum()
        while self._at(*_RELATIONS):
            token = self._next()
            function = "@in" if token.text == "in" else f"_{token.text}_"
            left = ast.Call(token.position, function, [left, self._parse_sum()])
        return left

    def _parse_sum(self) -> ast.Expression:
        left = self._parse_product()
        while (token := self._accept("+", "-")) is not None:
            left = ast.Call(token.position, f"_{token.text}_", [left, self._parse_product()])
        return left

    def _parse_product(self) -> ast.Expression:
        left = self._parse_unary()
        while (token := self._accept("*", "/", "%")) is not None:
            left = ast.Call(token.position, f"_{token.text}_", [left, self._parse_unary()])
        return left

    def _parse_unary(self) -> ast.Expression:
        operators: list[Token] = []
        while self._at("!", "-"):
            if operators and operators[-1].text != self.token.text:
                break
            operators.append(self._next())
        if not operators:
            return self._parse_member()
        token = operators[0]
        if token.text == "-" and self.token.kind in ("int", "float"):
            return self._parse_member(is_negative=len(operators) % 2 == 1)
        operand = self._parse_member()
        if len(operators) % 2 == 0:
            return operand
        return ast.Call(token.position, "!_" if token.text == "!" else "-_", [operand])

    def _parse_member(self, *, is_negative: bool = False) -> ast.Expression:
        operand = self._parse_primary(is_negative=is_negative)
        while True:
            if (token := self._accept(".")) is not None:
                operand = self._parse_selection(operand, token)
            elif (token := self._accept("[")) is not None:
                function = "_[?_]" if self._accept("?") is not None else "_[_]"
                index = self.parse_expression()
                self._require("]")
                operand = ast.Call(token.position, function, [operand, index])
            else:
                return operand

    def _parse_selection(self, operand: ast.Expression, dot: Token) -> ast.Expression:
        is_optional = self._accept("?") is not None
        name = self._next()
        if name.kind not in ("name", "escaped") or name.text in ("in", "true", "false", "null"):
            self._index -= name.kind != "end"
            raise self.error(f"Syntax error: no viable alternative at input '.{name.text}'")
        field = name.text.strip("`")
        if is_optional:
            return ast.Call(dot.position, "_?._", [operand, ast.Literal(name.position, field)])
        if (parenthesis := self._accept("(")) is None:
            return ast.Select(dot.position, operand, field)
        call = ast.Call(parenthesis.position, field, self._parse_arguments(")"), operand)
        return expand_macro(self._source, call)

    def _parse_arguments(self, closing: str) -> list[ast.Expression]:
        arguments: list[ast.Expression] = []
        while not self._at(closing):
            arguments.append(self.parse_expression())
            if self._accept(",") is None:
                break
            if self._at(closing) and closing == ")":
                raise self._unexpected()
        self._require(closing)
        return arguments

    def _unexpected(self) -> CompileError:
        return self.error(f"Syntax error: mismatched input '{self.token.text}' expecting {_EXPRESSION_START}")

    def _parse_primary(self, *, is_negative: bool) -> ast.Expression:
        token = self.token
        match token.kind:
            case "int" | "uint" | "float":
                return self._parse_number(self._next(), is_negative=is_negative)
            case "string" | "bytes":
                return ast.Literal(token.position, self._next().value)
            case "name" if token.text in _KEYWORDS:
                return ast.Literal(token.position, _KEYWORDS[self._next().text])
            case "name" if token.text != "in":
                return self._parse_name("")
        if self._accept("(") is not None:
            inner = self.parse_expression()
            self._require(")")
            return inner
        if self._accept("[") is not None:
            return self._parse_list(token)
        if self._accept("{") is not None:
            return self._parse_map(token)
        if self._at(".") and self._tokens[self._index + 1].kind == "name":
            self._next()
            return self._parse_name("")
        raise self._unexpected()

    def _parse_number(self, token: Token, *, is_negative: bool) -> ast.Expression:
        sign = -1 if is_negative else 1
        position = token.position - is_negative
        if token.kind == "float":
            return ast.Literal(position, sign * float(token.text))
        number = int(token.text.rstrip("uU"), 16 if token.text.startswith("0x") else 10) * sign
        if token.kind == "uint" and number >= 2**64:
            raise self.error("invalid uint literal", token.position)
        if token.kind == "int" and not -(2**63) <= number < 2**63:
            raise self.error("invalid int literal", token.position)
        return ast.Literal(position, UInt(number) if token.kind == "uint" else number)

    def _parse_name(self, prefix: str) -> ast.Expression:
        token = self._next()
        if token.text in RESERVED_NAMES:
            raise self.error(f"reserved identifier: {token.text}", token.position)
        if (parenthesis := self._accept("(")) is not None:
            call = ast.Call(parenthesis.position, prefix + token.text, self._parse_arguments(")"))
            return expand_macro(self._source, call)
        if self._at("{"):
            return self._parse_struct(token.text, self._next())
        return ast.Ident(token.position, prefix + token.text)

    def _parse_list(self, bracket: Token) -> ast.Expression:
        elements: list[ast.Expression] = []
        optional: set[int] = set()
        while not self._at("]"):
            if self._accept("?") is not None:
                optional.add(len(elements))
            elements.append(self.parse_expression())
            if self._accept(",") is None:
                break
        self._require("]")
        return ast.CreateList(bracket.position, elements, frozenset(optional))

    def _parse_map(self, brace: Token) -> ast.Expression:
        entries = []
        while not self._at("}"):
            is_optional = self._accept("?") is not None
            key = self.parse_expression()
            self._require(":")
            entries.append((key, self.parse_expression(), is_optional))
            if self._accept(",") is None:
                break
        self._require("}")
        return ast.CreateMap(brace.position, entries)

    def _parse_struct(self, name: str, brace: Token) -> ast.Expression:
        fields = []
        while not self._at("}"):
            is_optional = self._accept("?") is not None
            field = self._next().text
            self._require(":")
            fields.append((field, self.parse_expression(), is_optional))
            if self._accept(",") is None:
                break
        self._require("}")
        return ast.CreateStruct(brace.position, name, fields)


def _balance(function: str, terms: list[ast.Expression], positions: list[int]) -> ast.Expression:
    """Return a tree of logarithmic depth, so that long chains of conditions need no deep recursion."""
    if len(terms) == 1:
        return terms[0]
    middle = (len(terms) + 1) // 2
    left = _balance(function, terms[:middle], positions[: middle - 1])
    right = _balance(function, terms[middle:], positions[middle:])
    return ast.Call(positions[middle - 1], function, [left, right])
