"""Defaults and validation of ValidatingAdmissionPolicies and their bindings."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from pliant.embedded.apiserver.admission.validation.label_selectors import validate_label_selector
from pliant.embedded.apiserver.http.errors import (
    duplicate_value,
    forbidden_field,
    invalid_field,
    required_field,
    unsupported_value,
)
from pliant.embedded.apiserver.policies.compiled_policy import PolicyScope
from pliant.embedded.cel import types
from pliant.embedded.cel.environment import Program
from pliant.embedded.cel.types import Type
from pliant.embedded.schema import FieldError
from pliant.embedded.schema.metadata import DNS_SUBDOMAIN_RULE, name_problem, qualified_name_problem
from pliant.embedded.storage.stored_objects import Object

_OPERATIONS: Final = ("*", "CONNECT", "CREATE", "DELETE", "UPDATE")
_REASONS: Final = ("Forbidden", "Invalid", "RequestEntityTooLarge")
_IDENTIFIER: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def set_policy_defaults(policy: Object, old: Object | None) -> None:
    spec = policy.setdefault("spec", {})
    spec.setdefault("failurePolicy", "Fail")
    _set_resources_defaults(spec.get("matchConstraints"))


def set_binding_defaults(binding: Object, old: Object | None) -> None:
    _set_resources_defaults((binding.get("spec") or {}).get("matchResources"))


def _set_resources_defaults(resources: Object | None) -> None:
    if resources is None:
        return
    resources.setdefault("matchPolicy", "Equivalent")
    resources.setdefault("namespaceSelector", {})
    resources.setdefault("objectSelector", {})
    for rule in (*(resources.get("resourceRules") or ()), *(resources.get("excludeResourceRules") or ())):
        rule.setdefault("scope", "*")


def validate_policy(policy: Object, old: Object | None) -> list[FieldError]:
    spec = policy["spec"]
    if old is not None and old.get("spec") == spec:
        return []
    return list(_find_policy_errors(spec, policy["metadata"].get("name") or ""))


def _find_policy_errors(spec: Mapping[str, Any], policy_name: str) -> Iterator[FieldError]:
    if spec["failurePolicy"] not in ("Fail", "Ignore"):
        yield unsupported_value("spec.failurePolicy", spec["failurePolicy"], ("Fail", "Ignore"))
    for field in ("apiVersion", "kind"):
        if spec.get("paramKind") is not None and not spec["paramKind"].get(field):
            yield required_field(f"spec.paramKind.{field}")
    constraints = spec.get("matchConstraints")
    if constraints is None:
        yield required_field("spec.matchConstraints")
    else:
        yield from _find_resources_errors(constraints, "spec.matchConstraints")
        if not constraints.get("resourceRules"):
            yield required_field("spec.matchConstraints.resourceRules")
    yield from _find_expression_errors(spec)
    yield from _find_annotation_errors(spec, policy_name)
    if not spec.get("validations") and not spec.get("auditAnnotations"):
        detail = "validations or auditAnnotations must contain at least one item"
        yield required_field("spec.validations", detail)
        yield required_field("spec.auditAnnotations", detail)


def _find_expression_errors(spec: Mapping[str, Any]) -> Iterator[FieldError]:
    has_params = bool(spec.get("paramKind"))
    scope, names = PolicyScope(has_params=has_params), set()
    for index, condition in enumerate(spec.get("matchConditions") or ()):
        path, name = f"spec.matchConditions[{index}]", condition.get("name") or ""
        yield from _check(
            PolicyScope(has_params=has_params, has_variables=False), condition, f"{path}.expression", types.BOOL
        )
        if name and (problem := qualified_name_problem(name)):
            yield invalid_field(f"{path}.name", name, problem)
        elif name and name in names:
            yield duplicate_value(f"{path}.name", name)
        names.add(name)
    for index, variable in enumerate(spec.get("variables") or ()):
        yield from _check_variable(scope, variable, f"spec.variables[{index}]")
    for index, validation in enumerate(spec.get("validations") or ()):
        yield from _check_validation(scope, validation, f"spec.validations[{index}]")


def _find_annotation_errors(spec: Mapping[str, Any], policy_name: str) -> Iterator[FieldError]:
    scope = PolicyScope(has_params=bool(spec.get("paramKind")))
    for variable in spec.get("variables") or ():
        scope.add_variable(variable.get("name") or "", types.DYN)
    for index, annotation in enumerate(spec.get("auditAnnotations") or ()):
        path, key = f"spec.auditAnnotations[{index}]", f"{policy_name}/{annotation.get('key') or ''}"
        if problem := qualified_name_problem(key):
            yield invalid_field(f"{path}.key", key, problem)
        allowed = (types.STRING, types.NULL, types.DYN)
        yield from _check(scope, annotation, f"{path}.valueExpression", *allowed)


def _check_variable(scope: PolicyScope, variable: Mapping[str, Any], path: str) -> Iterator[FieldError]:
    name, source = variable.get("name") or "", (variable.get("expression") or "").strip()
    if name and not _IDENTIFIER.fullmatch(name):
        yield invalid_field(f"{path}.name", name, "must be a valid CEL identifier")
    if not source:
        if variable.get("expression"):  # the schema reports an empty one
            yield required_field(f"{path}.expression", "expression is not specified")
        return
    program = scope.compile(source)
    # As in Kubernetes, expressions that use an invalid variable have no error of their own.
    scope.add_variable(name, program.result_type if isinstance(program, Program) else types.DYN)
    if isinstance(program, str):
        yield invalid_field(f"{path}.expression", variable["expression"], program)


def _check_validation(scope: PolicyScope, validation: Mapping[str, Any], path: str) -> Iterator[FieldError]:
    message, reason = validation.get("message") or "", validation.get("reason")
    if not (validation.get("expression") or "").strip():
        if validation.get("expression"):  # the schema reports an empty one
            yield required_field(f"{path}.expression", "expression is not specified")
    else:
        yield from _check(scope, validation, f"{path}.expression", types.BOOL)
    if validation.get("messageExpression"):
        yield from _check(scope, validation, f"{path}.messageExpression", types.STRING, has_authorizer=False)
    if message and not message.strip():
        yield invalid_field(f"{path}.message", message, "must be non-empty if specified")
    elif "\n" in message.strip():
        yield invalid_field(f"{path}.message", message, "must not contain line breaks")
    elif "\n" in (validation.get("expression") or "").strip() and not message.strip():
        yield required_field(f"{path}.message", "message must be specified if expression contains line breaks")
    if reason is not None and reason not in _REASONS:
        yield unsupported_value(f"{path}.reason", reason, _REASONS)


def _check(
    scope: PolicyScope, owner: Mapping[str, Any], path: str, *allowed: Type, has_authorizer: bool = True
) -> Iterator[FieldError]:
    source = owner.get(path.rpartition(".")[2]) or ""
    if not source.strip():
        if source:  # the schema reports an empty one
            yield required_field(path)
        return
    program = scope.compile(source, *allowed, has_authorizer=has_authorizer)
    if isinstance(program, str):
        yield invalid_field(path, source, program)


def _find_resources_errors(resources: Mapping[str, Any], path: str) -> Iterator[FieldError]:
    if resources["matchPolicy"] not in ("Equivalent", "Exact"):
        yield unsupported_value(f"{path}.matchPolicy", resources["matchPolicy"], ("Equivalent", "Exact"))
    for selector in ("namespaceSelector", "objectSelector"):
        yield from validate_label_selector(resources[selector], f"{path}.{selector}")
    for field in ("resourceRules", "excludeResourceRules"):
        for index, rule in enumerate(resources.get(field) or ()):
            rule_path = f"{path}.{field}[{index}]"
            for required in ("operations", "apiGroups", "apiVersions", "resources"):
                if not rule.get(required):
                    yield required_field(f"{rule_path}.{required}")
            for place, operation in enumerate(rule.get("operations") or ()):
                if operation not in _OPERATIONS:
                    yield unsupported_value(f"{rule_path}.operations[{place}]", operation, _OPERATIONS)


def validate_binding(binding: Object, old: Object | None) -> list[FieldError]:
    return list(_find_binding_errors(binding["spec"]))


def _find_binding_errors(spec: Mapping[str, Any]) -> Iterator[FieldError]:
    name = spec.get("policyName") or ""
    if name and (problem := name_problem(name, DNS_SUBDOMAIN_RULE)):
        yield invalid_field("spec.policyName", name, problem)
    if (param_ref := spec.get("paramRef")) is not None:
        yield from _find_param_ref_errors(param_ref)
    if (resources := spec.get("matchResources")) is not None:
        yield from _find_resources_errors(resources, "spec.matchResources")
    actions = spec.get("validationActions") or ()
    for index, action in enumerate(actions):
        if action not in ("Audit", "Deny", "Warn"):
            yield unsupported_value(f"spec.validationActions[{index}]", action, ("Audit", "Deny", "Warn"))
    if "Deny" in actions and "Warn" in actions:
        detail = "must not contain both Deny and Warn (repeating the same validation failure information in the API "
        yield invalid_field("spec.validationActions", list(actions), f"{detail}response and headers serves no purpose)")


def _find_param_ref_errors(param_ref: Mapping[str, Any]) -> Iterator[FieldError]:
    name, selector, action = (param_ref.get(each) for each in ("name", "selector", "parameterNotFoundAction"))
    if name and selector is not None:
        for field in ("name", "selector"):
            yield forbidden_field(f"spec.paramRef.{field}", "name and selector are mutually exclusive")
    if selector is not None:
        yield from validate_label_selector(selector, "spec.paramRef.selector")
    if not name and selector is None:
        yield required_field("spec.paramRef", "one of name or selector must be specified")
    if not action:
        yield required_field("spec.paramRef.parameterNotFoundAction")
    elif action not in ("Allow", "Deny"):
        yield unsupported_value("spec.paramRef.parameterNotFoundAction", action, ("Deny", "Allow"))
