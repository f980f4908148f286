"""Checks the rules of a CRD when it is created: their fields, their types, and what they cost at most."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from pliant.embedded.cel.costs.estimates import MAX, Range
from pliant.embedded.cel.costs.estimator import Path, estimate_cost
from pliant.embedded.cel.environment import Program
from pliant.embedded.schema.field_errors import FieldError, FieldErrorType, to_json_text
from pliant.embedded.schema.rules.compiled_rules import CompiledRule, RuleScope, compile_rule
from pliant.embedded.schema.rules.declared_types import (
    MAX_REQUEST_BYTES,
    DeclaredType,
    JsonSchema,
    Structs,
    declare_type,
)
from pliant.embedded.schema.rules.field_paths import normalize_field_path
from pliant.embedded.schema.rules.pending import has_rules
from pliant.embedded.schema.rules.property_names import escape_property

_RULE_COST_LIMIT: Final = 10_000_000
_TOTAL_COST_LIMIT: Final = 100_000_000
_REASONS: Final = ("FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired")
_TEXT_FIELDS: Final = ("rule", "message", "messageExpression", "reason", "fieldPath")
_RULE_FIELDS: Final = (
    ("Rule", "rule", ""),
    ("Message", "message", ""),
    ("MessageExpression", "messageExpression", ""),
    ("Reason", "reason", None),
    ("FieldPath", "fieldPath", ""),
    ("OptionalOldSelf", "optionalOldSelf", None),
)
_GO_ESCAPES: Final = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026"}
_LINE_BREAK: Final = re.compile(r"[\n\r]")
_ADVICE: Final = (
    "(try simplifying the rule, or adding maxItems, maxProperties, and maxLength where arrays, maps, and strings are "
    "declared)"
)


@dataclass(frozen=True, slots=True)
class _Place:
    """A node of the schema, and how often its values can be in one object."""

    schema: JsonSchema
    path: str
    cardinality: int | None = 1
    """None if a list or map above it has no limit."""
    uncorrelatable: str = ""
    """The path of the list or map above it whose elements cannot be compared with old ones."""
    is_root: bool = False

    def child(self, schema: Any, suffix: str) -> _Place:
        limit = _max_elements(self.schema)
        cardinality = None if self.cardinality is None or limit is None else min(self.cardinality * limit, MAX)
        return replace(self, schema=schema, path=f"{self.path}.{suffix}", cardinality=cardinality, is_root=False)

    def children(self) -> Iterator[tuple[_Place, str | None]]:
        """Yield the nodes below this one, with the name of the property in expressions."""
        additional = self.schema.get("additionalProperties")
        if isinstance(additional, Mapping):
            yield self.child(additional, "additionalProperties"), "@element"
        is_correlatable = self.schema.get("x-kubernetes-map-type") in (None, "granular", "atomic")
        for name, child in (self.schema.get("properties") or {}).items():
            place = self.child(child, f"properties[{name}]")
            if not is_correlatable and not place.uncorrelatable:
                place = replace(place, uncorrelatable=self.path)
            yield place, escape_property(name)
        if isinstance(self.schema.get("items"), Mapping):
            place = self.child(self.schema["items"], "items")
            if self.schema.get("x-kubernetes-list-type") != "map" and not place.uncorrelatable:
                place = replace(place, uncorrelatable=self.path)
            yield place, "@element"


def _max_elements(schema: JsonSchema) -> int | None:
    if schema.get("type") == "object" and isinstance(schema.get("additionalProperties"), Mapping):
        return schema.get("maxProperties")
    return schema.get("maxItems") if schema.get("type") == "array" else 1


def find_definition_errors(schema: JsonSchema, path: str, *, has_paths: bool = True) -> list[FieldError]:
    """Return the errors of all rules of a schema that need no compilation.

    A schema that cannot be structural has no paths to which those of rules are compared.
    """
    return list(_find_definition_errors(_Place(schema, path, is_root=True), has_paths=has_paths))


def find_rule_errors(schema: JsonSchema, path: str, broken: Sequence[str] = ()) -> list[FieldError]:
    """Return the errors of the expressions of a structural schema, except where paths below are `broken`."""
    check = _Check(broken)
    check.visit(_Place(schema, path, is_root=True), None)
    return [*check.errors, *check.total_errors(path)]


def _find_definition_errors(place: _Place, *, has_paths: bool) -> Iterator[FieldError]:
    schema = place.schema if has_paths else None
    rules = place.schema.get("x-kubernetes-validations") or ()
    for index, rule in enumerate(rules):
        yield from _find_field_errors(rule, f"{place.path}.x-kubernetes-validations[{index}]", schema)
    for child, _ in place.children():
        yield from _find_definition_errors(child, has_paths=has_paths)


def _find_field_errors(rule: Any, path: str, schema: JsonSchema | None) -> Iterator[FieldError]:
    if not isinstance(rule, Mapping):
        yield FieldError.of(path, FieldErrorType.INVALID, rule, "must be an object")
        return
    for field in _TEXT_FIELDS:
        if field in rule and not isinstance(rule[field], str):
            yield _invalid(rule, path, field, "must be of type string")
            return
    yield from _find_rule_text_errors(rule, path)
    if rule.get("messageExpression") and not rule["messageExpression"].strip():
        yield _required(path, "messageExpression", "messageExpression must be non-empty if specified")
    if "reason" in rule and rule["reason"] not in _REASONS:
        supported = ", ".join(f'"{reason}"' for reason in _REASONS)
        detail = f"supported values: {supported}"
        yield FieldError.of(f"{path}.reason", FieldErrorType.UNSUPPORTED, rule["reason"], detail)
    if field_path := rule.get("fieldPath"):
        if not field_path.strip():
            yield _invalid(rule, path, "fieldPath", "must be non-empty if specified")
        if _LINE_BREAK.search(field_path):
            yield _invalid(rule, path, "fieldPath", "must not contain line breaks")
        if schema is not None and normalize_field_path(field_path, schema) is None:
            yield _invalid(rule, path, "fieldPath", "must be a valid path")


def _find_rule_text_errors(rule: Mapping[str, Any], path: str) -> Iterator[FieldError]:
    text, message = rule.get("rule", "").strip(), rule.get("message", "").strip()
    if not text:
        yield _required(path, "rule", "rule is not specified")
    elif rule.get("message") and not message:
        yield _invalid(rule, path, "message", "must be non-empty if specified")
    elif _LINE_BREAK.search(message):
        yield _invalid(rule, path, "message", "must not contain line breaks")
    elif _LINE_BREAK.search(text) and not message:
        yield _required(path, "message", "message must be specified if rule contains line breaks")


def _invalid(rule: Mapping[str, Any], path: str, field: str, detail: str) -> FieldError:
    return FieldError.of(f"{path}.{field}", FieldErrorType.INVALID, rule[field], detail)


def _required(path: str, field: str, detail: str) -> FieldError:
    return FieldError.of(f"{path}.{field}", FieldErrorType.REQUIRED, "", detail)


class _Check:
    """Compiles all rules of a schema and adds up their costs."""

    def __init__(self, broken: Sequence[str]) -> None:
        self.errors: list[FieldError] = []
        self._broken = broken
        self._structs: Structs = {}
        self._total = 0
        self._expensive: list[tuple[int, str]] = []

    def visit(self, place: _Place, declared: DeclaredType | None) -> None:
        """Check the rules at and below a node; `declared` is its type if a node above it needed one."""
        if not has_rules(place.schema):
            return
        rules = place.schema.get("x-kubernetes-validations") or ()
        if declared is None and rules:
            declared = declare_type(
                place.schema, f"selfType{len(self._structs)}", self._structs, is_resource=place.is_root
            )
        for child, name in place.children():
            self.visit(child, _type_of_child(declared, name))
        if any(each.startswith(place.path) for each in self._broken):
            return
        if rules and declared is None:
            message = "Internal error: failed to retrieve type information for x-kubernetes-validations"
            self.errors.append(FieldError(f"{place.path}.x-kubernetes-validations", "InternalError", message))
        elif declared is not None:
            scope = RuleScope(declared, self._structs)
            for index, rule in enumerate(rules):
                self._check_rule(place, scope, rule, f"{place.path}.x-kubernetes-validations[{index}]")

    def _check_rule(self, place: _Place, scope: RuleScope, rule: Mapping[str, Any], path: str) -> None:
        compiled = compile_rule(scope, rule)
        cardinality = place.cardinality
        if cardinality is None:
            # Without limits above it, a node can be in one request as often as its least size allows.
            cardinality = MAX_REQUEST_BYTES // (scope.declared.min_size + 1)
        self._charge(f"{path}.rule", _estimate(compiled.program, scope.declared) * cardinality, "estimated rule cost")
        if compiled.error:
            self._add_rule_error(f"{path}.rule", rule, compiled.error)
        if compiled.message_error:
            self._add_rule_error(f"{path}.messageExpression", rule, compiled.message_error)
        elif compiled.message_program is not None:
            message_cost = _estimate(compiled.message_program, scope.declared)
            self._charge(f"{path}.messageExpression", message_cost, "estimated messageExpression cost")
        self._check_old_self(place, compiled, rule, path)

    def _check_old_self(self, place: _Place, compiled: CompiledRule, rule: Mapping[str, Any], path: str) -> None:
        if compiled.uses_old and place.uncorrelatable:
            problem = "oldSelf cannot be used on the uncorrelatable portion of the schema within"
            self._add(f"{path}.rule", rule["rule"], f"{problem} {place.uncorrelatable}")
        elif not compiled.uses_old and "optionalOldSelf" in rule:
            detail = "may not be set if oldSelf is not used in rule"
            self._add(f"{path}.optionalOldSelf", rule["optionalOldSelf"], detail)

    def _add(self, path: str, value: Any, detail: str) -> None:
        self.errors.append(FieldError.of(path, FieldErrorType.INVALID, value, detail))

    def _add_rule_error(self, path: str, rule: Mapping[str, Any], detail: str) -> None:
        """Add an error whose value is the rule as kube-apiserver writes it: with the field names of Go."""
        text = to_json_text({name: rule.get(field, default) for name, field, default in _RULE_FIELDS})
        for character, escape in _GO_ESCAPES.items():
            text = text.replace(character, escape)
        self.errors.append(FieldError(path, FieldErrorType.INVALID.cause, f"Invalid value: {text}: {detail}"))

    def _charge(self, path: str, cost: int, name: str) -> None:
        cost = min(cost, MAX)
        self._total = min(self._total + cost, MAX)
        if cost > _RULE_COST_LIMIT:
            self._forbid(path, _over_limit(name, cost, _RULE_COST_LIMIT))
        if cost >= _TOTAL_COST_LIMIT // 100:
            self._expensive.append((cost, path))

    def _forbid(self, path: str, detail: str) -> None:
        self.errors.append(FieldError.of(path, FieldErrorType.FORBIDDEN, "", detail))

    def total_errors(self, path: str) -> list[FieldError]:
        """Return an error for each of the most expensive rules, if all rules together cost too much."""
        if self._total <= _TOTAL_COST_LIMIT:
            return []
        detail = "contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema"
        most = sorted(self._expensive, key=lambda entry: -entry[0])[:4]
        errors = [FieldError.of(rule_path, FieldErrorType.FORBIDDEN, "", detail) for _, rule_path in most]
        name = "x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema"
        total = _over_limit(name, self._total, _TOTAL_COST_LIMIT)
        return [*errors, FieldError.of(path, FieldErrorType.FORBIDDEN, "", total)]


def _type_of_child(declared: DeclaredType | None, name: str | None) -> DeclaredType | None:
    if declared is None or name is None:
        return None
    return declared.element if name == "@element" else declared.field(name)


def _estimate(program: Program | None, declared: DeclaredType) -> int:
    """Return what an expression costs at most, for a value of this type."""

    def size_of_path(path: Path) -> Range | None:
        node: DeclaredType | None = declared
        for name in path[1:]:
            if node is None:
                return None
            if name == "@keys":
                return Range(0, 0) if node.type.kind == "map" else None  # kube-apiserver charges keys nothing
            node = node.element if name in ("@items", "@values") else node.field(name)
        return Range(0, node.max_elements) if node is not None else None

    return estimate_cost(program.expression, size_of_path) if program is not None else 0


def _over_limit(name: str, cost: int, limit: int) -> str:
    factor = cost / limit
    text = f"{factor:f}x" if factor < 1.5 else f"{factor:.1f}x"
    if factor > 100:
        text = "more than 100x"
    return f"{name} exceeds budget by factor of {text} {_ADVICE}"
