"""Defaults and validation of ValidatingAdmissionPolicies and their bindings."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from pliant.embedded.apiserver.admission.validation.label_selectors import validate_label_selector
from pliant.embedded.apiserver.http.errors import (
    duplicate_value,
    forbidden_field,
    invalid_field,
    required_field,
    unsupported_value,
)
from pliant.embedded.apiserver.policies.compiled_policy import INSTANTIATION_PROBLEM, PolicyScope
from pliant.embedded.apiserver.policies.resource_rules import find_resources_errors
from pliant.embedded.cel import types
from pliant.embedded.cel.environment import Program
from pliant.embedded.cel.types import Type
from pliant.embedded.schema import FieldError, FieldErrorType
from pliant.embedded.schema.metadata import (
    DNS_1035_LABEL_RULE,
    DNS_SUBDOMAIN_RULE,
    PATH_SEGMENT_RULE,
    name_problem,
    qualified_name_problem,
)
from pliant.embedded.storage.stored_objects import Object

_RESERVED_WORDS: Final = frozenset(
    {
        *("true", "false", "null", "in", "as", "break", "const", "continue", "else", "for", "function", "if"),
        *("import", "let", "loop", "package", "namespace", "return", "var", "void", "while"),
    }
)
_MAX_CONDITIONS: Final = 64
_MAX_ANNOTATIONS: Final = 20
_MAX_ANNOTATION_BYTES: Final = 5 * 1024
_REASONS: Final = ("Forbidden", "Invalid", "RequestEntityTooLarge")
_LINE_BREAK: Final = re.compile(r"[\n\r]")
_IDENTIFIER: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def set_policy_defaults(policy: Object, old: Object | None) -> None:
    spec = policy.setdefault("spec", {})
    if spec.get("failurePolicy") is None:
        spec["failurePolicy"] = "Fail"
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
    if (param_kind := spec.get("paramKind")) is not None:
        yield from _find_param_kind_errors(param_kind, "spec.paramKind")
    constraints = spec.get("matchConstraints")
    if constraints is None:
        yield required_field("spec.matchConstraints")
    else:
        yield from find_resources_errors(constraints, "spec.matchConstraints")
        if not constraints.get("resourceRules"):
            yield required_field("spec.matchConstraints.resourceRules")
    has_params = param_kind is not None
    yield from _find_condition_errors(spec.get("matchConditions") or (), has_params=has_params)
    scope = PolicyScope(has_params=has_params)
    for index, variable in enumerate(spec.get("variables") or ()):
        yield from _check_variable(scope, variable, f"spec.variables[{index}]")
    if not spec.get("validations") and not spec.get("auditAnnotations"):
        detail = "validations or auditAnnotations must contain at least one item"
        yield required_field("spec.validations", detail)
        yield required_field("spec.auditAnnotations", detail)
    for index, validation in enumerate(spec.get("validations") or ()):
        yield from _check_validation(scope, validation, f"spec.validations[{index}]")
    yield from _find_annotation_errors(spec.get("auditAnnotations") or (), scope, policy_name)


def _find_param_kind_errors(param_kind: Mapping[str, Any], path: str) -> Iterator[FieldError]:
    api_version, kind = param_kind.get("apiVersion") or "", param_kind.get("kind") or ""
    group, _, version = api_version.rpartition("/")
    if not api_version:
        yield required_field(f"{path}.apiVersion")
    elif "/" in group:
        yield invalid_field(f"{path}.apiVersion", api_version, "unexpected GroupVersion string")
    else:
        if group and (problem := name_problem(group, DNS_SUBDOMAIN_RULE)):
            yield invalid_field(f"{path}.apiVersion", group, problem)
        if not version or (problem := name_problem(version, DNS_1035_LABEL_RULE)):
            yield invalid_field(f"{path}.apiVersion", api_version, problem if version else "version must be specified")
    if not kind:
        yield required_field(f"{path}.kind")
    elif problem := name_problem(kind.lower(), DNS_1035_LABEL_RULE):
        yield invalid_field(f"{path}.kind", kind, f"may have mixed case, but should otherwise match: {problem}")


def _find_condition_errors(conditions: Sequence[Mapping[str, Any]], *, has_params: bool) -> Iterator[FieldError]:
    names: set[str] = set()
    scope = PolicyScope(has_params=has_params, has_variables=False)
    if len(conditions) > _MAX_CONDITIONS:
        detail = f"must have at most {_MAX_CONDITIONS} items"
        yield FieldError.of("spec.matchConditions", FieldErrorType.TOO_MANY, len(conditions), detail)
    for index, condition in enumerate(conditions):
        path, name = f"spec.matchConditions[{index}]", condition.get("name") or ""
        yield from _check(scope, condition, f"{path}.expression", types.BOOL)
        if not name:
            yield required_field(f"{path}.name")
        elif problem := qualified_name_problem(name):
            yield invalid_field(f"{path}.name", name, problem)
        if name and name in names:
            yield duplicate_value(f"{path}.name", name)
        names.add(name)


def _find_annotation_errors(
    annotations: Sequence[Mapping[str, Any]], scope: PolicyScope, policy_name: str
) -> Iterator[FieldError]:
    keys: set[str] = set()
    if len(annotations) > _MAX_ANNOTATIONS:
        detail = f"must not have more than {_MAX_ANNOTATIONS} auditAnnotations"
        yield invalid_field("spec.auditAnnotations", list(annotations), detail)
    for index, annotation in enumerate(annotations):
        path, key = f"spec.auditAnnotations[{index}]", annotation.get("key") or ""
        qualified = f"{policy_name}/{key}"
        if problem := qualified_name_problem(qualified):
            yield invalid_field(f"{path}.key", qualified, problem)
        if len((annotation.get("valueExpression") or "").encode()) > _MAX_ANNOTATION_BYTES:
            yield required_field(f"{path}.valueExpression", f"must not exceed {_MAX_ANNOTATION_BYTES} bytes in length")
        else:
            yield from _check(scope, annotation, f"{path}.valueExpression", types.STRING, types.NULL)
        if key in keys:
            yield duplicate_value(f"{path}.key", key)
        keys.add(key)


def _check_variable(scope: PolicyScope, variable: Mapping[str, Any], path: str) -> Iterator[FieldError]:
    name, source = variable.get("name") or "", (variable.get("expression") or "").strip()
    if not name.strip():
        yield required_field(f"{path}.name", "name is not specified")
    elif not _IDENTIFIER.fullmatch(name) or name in _RESERVED_WORDS:
        yield invalid_field(f"{path}.name", name, "must be a valid CEL identifier")
    if not source:
        yield required_field(f"{path}.expression", "expression is not specified")
        return
    program = scope.compile(variable["expression"])
    # As in Kubernetes, expressions that use an invalid variable have no error of their own.
    scope.add_variable(name, program.result_type if isinstance(program, Program) else types.DYN)
    if isinstance(program, str):
        yield _expression_error(f"{path}.expression", variable["expression"], program)


def _check_validation(scope: PolicyScope, validation: Mapping[str, Any], path: str) -> Iterator[FieldError]:
    message, reason = validation.get("message") or "", validation.get("reason")
    yield from _check(scope, validation, f"{path}.expression", types.BOOL)
    if source := validation.get("messageExpression"):
        if source.strip():
            yield from _check(scope, validation, f"{path}.messageExpression", types.STRING, has_authorizer=False)
        else:
            yield invalid_field(f"{path}.messageExpression", source, "must be non-empty if specified")
    if message and not message.strip():
        yield invalid_field(f"{path}.message", message, "must be non-empty if specified")
    elif _LINE_BREAK.search(message.strip()):
        yield invalid_field(f"{path}.message", message, "must not contain line breaks")
    if reason is not None and reason not in _REASONS:
        yield unsupported_value(f"{path}.reason", reason, _REASONS)


def _check(
    scope: PolicyScope, owner: Mapping[str, Any], path: str, *allowed: Type, has_authorizer: bool = True
) -> Iterator[FieldError]:
    field = path.rpartition(".")[2]
    source = owner.get(field) or ""
    if not source.strip():
        yield required_field(path, "" if path.startswith("spec.matchConditions") else f"{field} is not specified")
        return
    program = scope.compile(source, *allowed, has_authorizer=has_authorizer)
    if isinstance(program, str):
        yield _expression_error(path, source, program)


def _expression_error(path: str, source: str, problem: str) -> FieldError:
    if problem.startswith(INSTANTIATION_PROBLEM):
        return FieldError(path, "InternalError", f"Internal error: {problem}")
    return invalid_field(path, source, problem)


def validate_binding(binding: Object, old: Object | None) -> list[FieldError]:
    return list(_find_binding_errors(binding["spec"]))


def _find_binding_errors(spec: Mapping[str, Any]) -> Iterator[FieldError]:
    name = spec.get("policyName") or ""
    if not name:
        yield required_field("spec.policyName")
    elif problem := name_problem(name, DNS_SUBDOMAIN_RULE):
        yield invalid_field("spec.policyName", name, problem)
    if (param_ref := spec.get("paramRef")) is not None:
        yield from _find_param_ref_errors(param_ref)
    if (resources := spec.get("matchResources")) is not None:
        yield from find_resources_errors(resources, "spec.matchResources")
    yield from _find_action_errors(spec.get("validationActions") or [], "spec.validationActions")


def _find_action_errors(actions: list[str], path: str) -> Iterator[FieldError]:
    for index, action in enumerate(actions):
        if action not in ("Audit", "Deny", "Warn"):
            yield unsupported_value(f"{path}[{index}]", action, ("Audit", "Deny", "Warn"))
        if action in actions[:index]:
            yield duplicate_value(f"{path}[{index}]", action)
    if "Deny" in actions and "Warn" in actions:
        detail = "must not contain both Deny and Warn (repeating the same validation failure information in the API "
        yield invalid_field(path, actions, f"{detail}response and headers serves no purpose)")
    if not actions:
        yield required_field(path, "at least one validation action is required")


def _find_param_ref_errors(param_ref: Mapping[str, Any]) -> Iterator[FieldError]:
    name, selector, action = (param_ref.get(each) for each in ("name", "selector", "parameterNotFoundAction"))
    path = "spec.paramRef"
    if name and (problem := name_problem(name, PATH_SEGMENT_RULE)):
        yield invalid_field(f"{path}.name", name, problem)
    if name and selector is not None:
        for field in ("name", "selector"):
            yield forbidden_field(f"{path}.{field}", "name and selector are mutually exclusive")
    if selector is not None:
        yield from validate_label_selector(selector, f"{path}.selector")
    if not name and selector is None:
        yield required_field(path, "one of name or selector must be specified")
    if not action:
        yield required_field(f"{path}.parameterNotFoundAction")
    elif action not in ("Allow", "Deny"):
        yield unsupported_value(f"{path}.parameterNotFoundAction", action, ("Deny", "Allow"))
