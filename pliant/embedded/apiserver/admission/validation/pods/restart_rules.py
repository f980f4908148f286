"""Validation of the restart policies and restart rules of containers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from pliant.embedded.apiserver.http.errors import required_field, unsupported_value
from pliant.embedded.schema import FieldError, FieldErrorType
from pliant.embedded.storage.stored_objects import Object

_POLICIES: Final = ("Always", "Never", "OnFailure")
_ACTIONS: Final = ("Restart", "RestartAllContainers")
_OPERATORS: Final = ("In", "NotIn")
_MAX_RULES: Final = 20
_MAX_EXIT_CODES: Final = 255


def validate_restart_rules(container: Object, path: str) -> Iterator[FieldError]:
    policy, rules = container.get("restartPolicy"), container.get("restartPolicyRules") or []
    if policy is None and rules:
        yield required_field(f"{path}.restartPolicy", "must specify restartPolicy when restart rules are used")
    elif policy is not None and policy not in _POLICIES:
        yield unsupported_value(f"{path}.restartPolicy", policy, _POLICIES)
    if len(rules) > _MAX_RULES:
        yield _too_many(f"{path}.restartPolicyRules", len(rules), _MAX_RULES)
    for index, rule in enumerate(rules):
        rule_path, codes = f"{path}.restartPolicyRules[{index}]", rule.get("exitCodes")
        if rule.get("action") not in _ACTIONS:
            yield unsupported_value(f"{rule_path}.action", rule.get("action") or "", _ACTIONS)
        if codes is None:
            yield required_field(f"{rule_path}.exitCodes", "must be specified")
            continue
        if codes.get("operator") not in _OPERATORS:
            yield unsupported_value(f"{rule_path}.exitCodes.operator", codes.get("operator") or "", _OPERATORS)
        if len(codes.get("values") or ()) > _MAX_EXIT_CODES:
            yield _too_many(f"{rule_path}.exitCodes.values", len(codes["values"]), _MAX_EXIT_CODES)


def _too_many(path: str, count: int, limit: int) -> FieldError:
    return FieldError.of(path, FieldErrorType.TOO_MANY, count, f"must have at most {limit} items")
