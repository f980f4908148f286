"""Evaluates the rules of a schema for an object."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from functools import cached_property
from typing import Any, Final

from pliant.embedded.cel.environment import Program, Result
from pliant.embedded.cel.values import NO_VALUE, CostLimitError, EvaluationError, OptionalValue
from pliant.embedded.schema.field_errors import FieldError, FieldErrorType
from pliant.embedded.schema.rules.compiled_rules import CompiledRule, RuleScope, compile_rule
from pliant.embedded.schema.rules.correlation import Correlation, JsonSchema, Ratchet, find_by_keys
from pliant.embedded.schema.rules.declared_types import DeclaredType, Structs, declare_type
from pliant.embedded.schema.rules.field_paths import normalize_field_path
from pliant.embedded.schema.rules.pending import has_rules, is_transition
from pliant.embedded.schema.rules.property_names import escape_property

OBJECT_COST_LIMIT: Final = 10_000_000
"""The cost of all rules for one object, as in Kubernetes."""
_ROOT: Final = "<nil>"
"""The path of the whole object in errors of kube-apiserver."""
_MAX_MESSAGE_BYTES: Final = 5 * 1024
_NO_BUDGET: Final = "validation failed due to running out of cost budget, no further validation rules will be run"
_REASONS: Final = {
    "FieldValueForbidden": FieldErrorType.FORBIDDEN,
    "FieldValueRequired": FieldErrorType.REQUIRED,
    "FieldValueDuplicate": FieldErrorType.DUPLICATE,
}


class _OutOfBudget(Exception):
    """No further rules are evaluated."""


class RuleValidator:
    """Evaluates all rules of a schema."""

    def __init__(self, schema: JsonSchema, *, is_resource: bool = True) -> None:
        structs: Structs = {}
        self._root = _build_node(schema, declare_type(schema, "selfType", structs, is_resource=is_resource), structs)

    def validate(self, obj: Any, old: Any = None) -> list[FieldError]:
        """Return the errors of an object, which its schema has found valid; `old` is the object that it replaces."""
        if self._root is None:
            return []
        run = _Run()
        ratchet = Ratchet(Correlation(obj, old)) if old is not None else Ratchet()
        with suppress(_OutOfBudget):
            self._root.validate(run, "", obj, old, ratchet)
        return run.errors


class _Run:
    """The errors and the remaining budget of one validation."""

    def __init__(self) -> None:
        self.errors: list[FieldError] = []
        self.budget = OBJECT_COST_LIMIT

    def stop(self, path: str, schema_type: str, detail: str) -> None:
        self.errors.append(FieldError.of(path or _ROOT, FieldErrorType.INVALID, schema_type, detail))
        raise _OutOfBudget

    def charge(self, path: str, schema_type: str, result: Result, detail: str = _NO_BUDGET) -> None:
        if result.cost > self.budget:
            self.stop(path, schema_type, detail)
        self.budget -= result.cost


class _Rule:
    """A rule that is compiled when it is first evaluated."""

    def __init__(self, scope: RuleScope, rule: Mapping[str, Any], schema: JsonSchema) -> None:
        self._scope = scope
        self.definition = rule
        field_path = normalize_field_path(rule["fieldPath"], schema) if rule.get("fieldPath") else None
        self.field_path = field_path or ""

    @cached_property
    def compiled(self) -> CompiledRule:
        return compile_rule(self._scope, self.definition)

    @property
    def text(self) -> str:
        return str(self.definition.get("message") or self.definition["rule"]).strip()

    @property
    def default_message(self) -> str:
        message = str(self.definition.get("message") or "").strip()
        return message or f"failed rule: {self.text}"


def _build_node(schema: JsonSchema, declared: DeclaredType | None, structs: Structs) -> _Node | None:
    """Return the node of a schema with rules at or below it."""
    if declared is None or not has_rules(schema):
        return None
    node = _Node(schema, declared, structs)
    if isinstance(schema.get("items"), Mapping):
        node.items = _build_node(schema["items"], declared.element, structs)
    if isinstance(schema.get("additionalProperties"), Mapping):
        node.additional = _build_node(schema["additionalProperties"], declared.element, structs)
    for name, child in schema.get("properties", {}).items():
        if not has_rules(child):
            continue
        # Expressions cannot name every property, but the rules of all are evaluated.
        escaped = escape_property(name)
        child_type = (
            declared.field(escaped) if escaped is not None else declare_type(child, f"selfType.{name}", structs)
        )
        child_node = _build_node(child, child_type, structs)
        if child_node is not None:
            node.properties[name] = child_node
    return node


class _Node:
    """The rules of one node of a schema, and the nodes below it."""

    def __init__(self, schema: JsonSchema, declared: DeclaredType, structs: Structs) -> None:
        self._schema = schema
        self._declared = declared
        scope = RuleScope(declared, structs)
        rules = schema.get("x-kubernetes-validations") or ()
        self._rules = [_Rule(scope, rule, schema) for rule in rules if str(rule.get("rule") or "").strip()]
        self.items: _Node | None = None
        self.additional: _Node | None = None
        self.properties: dict[str, _Node] = {}

    @property
    def _type_name(self) -> str:
        return str(self._schema.get("type", ""))

    def validate(self, run: _Run, path: str, value: Any, old: Any, ratchet: Ratchet) -> None:
        if value is None:
            return
        if self._rules:
            self._evaluate_rules(run, path, value, old, ratchet)
        if isinstance(value, list) and self.items is not None:
            self._validate_items(self.items, run, path, value, old, ratchet)
        elif isinstance(value, dict):
            self._validate_members(run, path, value, old if isinstance(old, dict) else {}, ratchet)

    def _validate_items(self, node: _Node, run: _Run, path: str, value: list[Any], old: Any, ratchet: Ratchet) -> None:
        is_map = self._schema.get("x-kubernetes-list-type") == "map" and isinstance(old, list)
        keys = self._schema.get("x-kubernetes-list-map-keys", ())
        for index, element in enumerate(value):
            old_element = find_by_keys(old, keys, element) if is_map else None
            node.validate(run, f"{path}[{index}]", element, old_element, ratchet.element(self._schema, index))

    def _validate_members(
        self, run: _Run, path: str, value: dict[str, Any], old: dict[str, Any], ratchet: Ratchet
    ) -> None:
        if self.additional is not None:
            for name, member in value.items():
                self.additional.validate(run, f"{path}[{name}]", member, old.get(name), ratchet.member(name))
        for name, node in self.properties.items():
            if name in value:
                child_path = f"{path}.{name}" if path else name
                node.validate(run, child_path, value[name], old.get(name), ratchet.member(name))

    def _evaluate_rules(self, run: _Run, path: str, value: Any, old: Any, ratchet: Ratchet) -> None:
        if run.budget <= 0:
            run.stop(path, self._type_name, _NO_BUDGET)
        try:
            new_value = self._declared.convert(value)
            old_value = self._declared.convert(old) if old is not None else None
        except EvaluationError as error:
            run.errors.append(FieldError.of(path or _ROOT, FieldErrorType.INVALID, self._type_name, str(error)))
            return
        for rule in self._rules:
            is_optional = bool(rule.definition.get("optionalOldSelf"))
            if old is None and not is_optional and is_transition(rule.definition["rule"]):
                continue
            variables = {"self": new_value}
            if is_optional:
                variables["oldSelf"] = OptionalValue(True, old_value) if old is not None else NO_VALUE
            elif old is not None:
                variables["oldSelf"] = old_value
            if rule.compiled.uses_old and old is None and not is_optional:
                continue
            self._evaluate_rule(run, rule, path, value, variables, ratchet)

    def _evaluate_rule(
        self, run: _Run, rule: _Rule, path: str, value: Any, variables: Mapping[str, Any], ratchet: Ratchet
    ) -> None:
        type_name, compiled = self._type_name, rule.compiled
        if compiled.program is None:
            detail = f"rule compile error: {compiled.error}"
            run.errors.append(FieldError.of(path or _ROOT, FieldErrorType.INVALID, type_name, detail))
            return
        result = compiled.program.evaluate(variables)
        run.charge(path, type_name, result)
        if result.error is not None:
            self._report_failure(run, rule, path, result.error)
        elif result.value is not True:
            if not compiled.uses_old and ratchet.is_unchanged:
                return
            detail = self._message(run, rule, path, variables)
            field = ".".join(filter(None, (path, rule.field_path))) or _ROOT
            run.errors.append(_field_error(field, type_name, value, detail, rule.definition.get("reason")))

    def _report_failure(self, run: _Run, rule: _Rule, path: str, error: EvaluationError | CostLimitError) -> None:
        if isinstance(error, CostLimitError):
            problem = f"'{error}': no further validation rules will be run due to call cost exceeds limit for rule: "
            run.stop(path, self._type_name, problem + rule.text)
        elif str(error).startswith("no such overload"):
            problem = f"'{error}': call arguments did not match a supported operator, function or macro signature "
            detail = f"{problem}for rule: {rule.text}"
        else:
            detail = f"{error} evaluating rule: {rule.text}"
        run.errors.append(FieldError.of(path or _ROOT, FieldErrorType.INVALID, self._type_name, detail))

    def _message(self, run: _Run, rule: _Rule, path: str, variables: Mapping[str, Any]) -> str:
        """Return the result of messageExpression, or the message if that expression fails."""
        program: Program | None = rule.compiled.message_program
        if program is None:
            return rule.default_message
        result = program.evaluate(variables)
        out_of_budget = "messageExpression evaluation failed due to running out of cost budget, no further validation "
        run.charge(path, self._type_name, result, f"{out_of_budget}rules will be run")
        if isinstance(result.error, CostLimitError):
            source = f'"{rule.definition["messageExpression"]}"'
            detail = "no further validation rules will be run due to call cost exceeds limit for messageExpression: "
            run.stop(path, self._type_name, detail + source)
        text = result.value.strip() if isinstance(result.value, str) else ""
        is_usable = text and "\n" not in text and len(text.encode()) <= _MAX_MESSAGE_BYTES
        return text if is_usable else rule.default_message


def _field_error(field: str, type_name: str, value: Any, detail: str, reason: str | None) -> FieldError:
    error_type = _REASONS.get(reason or "", FieldErrorType.INVALID)
    has_value = error_type not in (FieldErrorType.FORBIDDEN, FieldErrorType.REQUIRED)
    if type_name in ("object", "array") and has_value:
        # kube-apiserver leaves out values that are objects and lists; Duplicate has no detail.
        text = f"{error_type.message_prefix}: {detail}" if error_type is FieldErrorType.INVALID else "Duplicate value"
        return FieldError(field, error_type.cause, text)
    return FieldError.of(field, error_type, value, "" if error_type is FieldErrorType.DUPLICATE else detail)
