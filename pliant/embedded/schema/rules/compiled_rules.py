"""Compiles the rules of one node of a schema."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pliant.embedded.cel import types
from pliant.embedded.cel.environment import Environment, Program, compile_expression
from pliant.embedded.cel.literals import find_conversion_error
from pliant.embedded.cel.source_errors import CompileError
from pliant.embedded.cel.types import Type
from pliant.embedded.schema.rules.declared_types import DeclaredType, Structs


class RuleScope:
    """What the rules of one node may refer to: self and oldSelf."""

    def __init__(self, declared: DeclaredType, structs: Structs) -> None:
        self.declared = declared
        self._structs = structs

    def compile(self, source: str, *, has_optional_old: bool) -> Program:
        self_type = self.declared.type
        old_type = types.optional_of(self_type) if has_optional_old else self_type
        return compile_expression(source, Environment({"self": self_type, "oldSelf": old_type}, self._find_field_type))

    def _find_field_type(self, struct: str, field: str) -> Type | None:
        fields = self._structs.get(struct)
        declared = fields.find(field) if fields is not None else None
        return declared.type if declared is not None else None


@dataclass(frozen=True, slots=True)
class CompiledRule:
    """A rule, or the reason why it is none."""

    program: Program | None
    message_program: Program | None = None
    error: str = ""
    message_error: str = ""
    uses_old: bool = False


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
    uses_old = program.uses("oldSelf")
    if not rule.get("messageExpression"):
        return CompiledRule(program, uses_old=uses_old)
    message_program, message_error = _compile_message(scope, rule["messageExpression"], has_optional_old)
    return CompiledRule(program, message_program, "", message_error, uses_old)


def _compile_message(scope: RuleScope, source: str, has_optional_old: bool) -> tuple[Program | None, str]:
    try:
        program = scope.compile(source, has_optional_old=has_optional_old)
    except CompileError as error:
        return None, f"messageExpression compilation failed: {error}"
    if program.result_type != types.STRING:
        return None, "messageExpression must evaluate to a string"
    return program, ""
