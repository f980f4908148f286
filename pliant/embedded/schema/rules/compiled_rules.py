"""Compiles the rules of one node of a schema, and estimates what they cost."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from pliant.embedded.cel import types
from pliant.embedded.cel.costs.estimates import Range
from pliant.embedded.cel.costs.estimator import Path, estimate_cost
from pliant.embedded.cel.environment import Environment, Program, compile_expression
from pliant.embedded.cel.literals import find_conversion_error
from pliant.embedded.cel.source_errors import CompileError
from pliant.embedded.cel.types import Type
from pliant.embedded.schema.rules.declared_types import MAX_REQUEST_BYTES, DeclaredType, collect_fields


class RuleScope:
    """What the rules of one node may refer to: self and oldSelf."""

    def __init__(self, declared: DeclaredType) -> None:
        self.declared = declared

    @cached_property
    def _fields(self) -> Mapping[str, Mapping[str, Type]]:
        return collect_fields(self.declared, {})

    def compile(self, source: str, *, has_optional_old: bool) -> Program:
        self_type = self.declared.type
        old_type = types.optional_of(self_type) if has_optional_old else self_type
        return compile_expression(source, Environment({"self": self_type, "oldSelf": old_type}, self._fields))

    def size_of_path(self, path: Path) -> Range | None:
        """Return the size of a field below self, from the schema."""
        declared: DeclaredType | None = self.declared
        for name in path[1:]:
            if declared is None:
                return None
            if name in ("@items", "@values"):
                declared = declared.element
            elif name == "@keys":
                return Range(0, 0) if declared.type.kind == "map" else None  # kube-apiserver charges keys nothing
            else:
                declared = declared.fields.get(name)
        return Range(0, declared.max_elements) if declared is not None else None

    @property
    def max_cardinality(self) -> int:
        """Return how often the node can be in one request, if no list above it is bounded."""
        return MAX_REQUEST_BYTES // (self.declared.min_size + 1)


@dataclass(frozen=True, slots=True)
class CompiledRule:
    """A rule, or the reason why it is none."""

    program: Program | None
    message_program: Program | None = None
    error: str = ""
    message_error: str = ""
    uses_old: bool = False
    cost: int = 0
    message_cost: int = 0


def compile_rule(scope: RuleScope, rule: Mapping[str, Any]) -> CompiledRule:
    """Return a rule that can be evaluated, with the errors of its expressions."""
    has_optional_old = bool(rule.get("optionalOldSelf"))
    try:
        program = scope.compile(rule["rule"], has_optional_old=has_optional_old)
    except CompileError as error:
        return CompiledRule(None, error=f"compilation failed: {error}")
    if program.result_type != types.BOOL:
        return CompiledRule(None, error="cel expression must evaluate to a bool")
    if problem := find_conversion_error(program.expression):
        return CompiledRule(None, error=f"program instantiation failed: {problem}")
    cost, uses_old = estimate_cost(program.expression, scope.size_of_path), program.uses("oldSelf")
    if not rule.get("messageExpression"):
        return CompiledRule(program, uses_old=uses_old, cost=cost)
    message_program, message_error = _compile_message(scope, rule["messageExpression"], has_optional_old)
    message_cost = estimate_cost(message_program.expression, scope.size_of_path) if message_program is not None else 0
    return CompiledRule(program, message_program, "", message_error, uses_old, cost, message_cost)


def _compile_message(scope: RuleScope, source: str, has_optional_old: bool) -> tuple[Program | None, str]:
    try:
        program = scope.compile(source, has_optional_old=has_optional_old)
    except CompileError as error:
        return None, f"messageExpression compilation failed: {error}"
    if program.result_type != types.STRING:
        return None, "messageExpression must evaluate to a string"
    return program, ""
