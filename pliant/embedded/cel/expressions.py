"""The syntax tree of an expression; the checker adds a type and overloads to its nodes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from pliant.embedded.cel.types import DYN, Type


@dataclass(eq=False, repr=False, match_args=False)
class Expression:
    position: int
    """The offset in the source that messages point to."""
    type: Type = field(default=DYN, init=False)

    def parts(self) -> Iterable[Expression]:
        """Return the expressions directly below this one."""
        return ()

    def walk(self) -> Iterator[Expression]:
        """Yield this expression and all below it."""
        yield self
        for part in self.parts():
            yield from part.walk()


@dataclass(eq=False, repr=False, match_args=False)
class Literal(Expression):
    value: Any


@dataclass(eq=False, repr=False, match_args=False)
class Ident(Expression):
    name: str
    type_value: Type | None = field(default=None, init=False)
    """Set by the checker if the name is a type."""


@dataclass(eq=False, repr=False, match_args=False)
class Select(Expression):
    operand: Expression
    field: str
    is_test: bool = False
    """has(operand.field)"""
    resolved: Ident | None = None
    """Set by the checker if the whole path is the name of a variable or type."""

    def parts(self) -> Iterable[Expression]:
        return (self.resolved or self.operand,)


@dataclass(eq=False, repr=False, match_args=False)
class Call(Expression):
    function: str
    args: list[Expression]
    target: Expression | None = None
    overloads: list[str] = field(default_factory=list, init=False)

    @property
    def operands(self) -> list[Expression]:
        return [self.target, *self.args] if self.target is not None else self.args

    def parts(self) -> Iterable[Expression]:
        return self.operands


@dataclass(eq=False, repr=False, match_args=False)
class CreateList(Expression):
    elements: list[Expression]
    optional_indices: frozenset[int] = frozenset()

    def parts(self) -> Iterable[Expression]:
        return self.elements


@dataclass(eq=False, repr=False, match_args=False)
class CreateMap(Expression):
    entries: list[tuple[Expression, Expression, bool]]
    """Key, value, and whether the value is an optional."""

    def parts(self) -> Iterable[Expression]:
        return [part for key, value, _ in self.entries for part in (key, value)]


@dataclass(eq=False, repr=False, match_args=False)
class CreateStruct(Expression):
    name: str
    fields: list[tuple[str, Expression, bool]]


@dataclass(eq=False, repr=False, match_args=False)
class Comprehension(Expression):
    """A fold: `accumulator` starts as `initial` and becomes `step` for each element while `condition` is not false."""

    range: Expression
    variable: str
    second_variable: str
    """The value or element, if the comprehension has two variables; otherwise empty."""
    accumulator: str
    initial: Expression
    condition: Expression
    step: Expression
    result: Expression

    def parts(self) -> Iterable[Expression]:
        return (self.range, self.initial, self.condition, self.step, self.result)

    @property
    def is_bind(self) -> bool:
        """Return whether this only names a value, as optMap does."""
        return isinstance(self.range, CreateList) and not self.range.elements and self.accumulator != ACCUMULATOR


ACCUMULATOR = "@result"


def qualified_name(expression: Expression) -> str | None:
    """Return `a.b.c` for selections of identifiers only."""
    if isinstance(expression, Ident):
        return expression.name
    if isinstance(expression, Select) and not expression.is_test:
        prefix = qualified_name(expression.operand)
        return f"{prefix}.{expression.field}" if prefix is not None else None
    return None
