"""Validation of the pod failure policy and the success policy of a Job."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from pliant.embedded.apiserver.http.errors import duplicate_value, invalid_field, required_field, unsupported_value
from pliant.embedded.index_ranges import IndexRanges
from pliant.embedded.schema import FieldError, FieldErrorType
from pliant.embedded.schema.metadata import qualified_name_problem
from pliant.embedded.storage.stored_objects import Object

_ACTIONS = ("Count", "FailIndex", "FailJob", "Ignore")
_EXIT_CODE_OPERATORS = ("In", "NotIn")
_CONDITION_STATUSES = ("False", "True", "Unknown")
_MAX_RULES = 20
_MAX_EXIT_CODES = 255


def validate_policies(spec: Object) -> Iterator[FieldError]:
    failure_rules = (spec.get("podFailurePolicy") or {}).get("rules") or ()
    yield from _limit_items("spec.podFailurePolicy.rules", failure_rules, _MAX_RULES)
    for index, rule in enumerate(failure_rules):
        yield from _validate_failure_rule(spec, rule, f"spec.podFailurePolicy.rules[{index}]")
    policy = spec.get("successPolicy")
    if policy is None:
        return
    if spec["completionMode"] != "Indexed":
        yield invalid_field("spec.successPolicy", policy, "requires indexed completion mode")
        return
    rules = policy.get("rules") or ()
    if not rules:
        detail = "at least one rules must be specified when the successPolicy is specified"
        yield required_field("spec.successPolicy.rules", detail)
    yield from _limit_items("spec.successPolicy.rules", rules, _MAX_RULES)
    for index, rule in enumerate(rules):
        yield from _validate_success_rule(spec, rule, f"spec.successPolicy.rules[{index}]")


def _limit_items(path: str, items: Sequence[Any], limit: int) -> Iterator[FieldError]:
    if len(items) > limit:
        yield FieldError.of(path, FieldErrorType.TOO_MANY, len(items), f"must have at most {limit} items")


def _validate_failure_rule(spec: Object, rule: Object, path: str) -> Iterator[FieldError]:
    action = rule.get("action") or ""
    if not action:
        yield required_field(f"{path}.action", "must be one of the actions")
    elif action not in _ACTIONS:
        yield unsupported_value(f"{path}.action", action, _ACTIONS)
    elif action == "FailIndex" and spec.get("backoffLimitPerIndex") is None:
        yield invalid_field(f"{path}.action", action, "requires the backoffLimitPerIndex to be set")
    exit_codes, conditions = rule.get("onExitCodes"), rule.get("onPodConditions") or ()
    if exit_codes is not None and conditions:
        yield invalid_field(path, None, "specifying both OnExitCodes and OnPodConditions is not supported")
    if exit_codes is None and not conditions:
        yield invalid_field(path, None, "specifying one of OnExitCodes and OnPodConditions is required")
    if exit_codes is not None:
        yield from _validate_exit_codes(spec, exit_codes, f"{path}.onExitCodes")
    yield from _limit_items(f"{path}.onPodConditions", conditions, _MAX_RULES)
    for index, pattern in enumerate(conditions):
        pattern_path, status = f"{path}.onPodConditions[{index}]", pattern.get("status")
        if problem := qualified_name_problem(pattern.get("type") or ""):
            yield invalid_field(f"{pattern_path}.type", pattern.get("type"), problem)
        if not status:
            yield required_field(f"{pattern_path}.status", "must be a status of a condition")
        elif status not in _CONDITION_STATUSES:
            yield unsupported_value(f"{pattern_path}.status", status, _CONDITION_STATUSES)


def _validate_exit_codes(spec: Object, requirement: Object, path: str) -> Iterator[FieldError]:
    operator, values = requirement.get("operator") or "", requirement.get("values") or []
    if not operator:
        yield required_field(f"{path}.operator", "must be one of the operators")
    elif operator not in _EXIT_CODE_OPERATORS:
        yield unsupported_value(f"{path}.operator", operator, _EXIT_CODE_OPERATORS)
    name, pod_spec = requirement.get("containerName"), spec["template"]["spec"]
    containers = [*(pod_spec.get("containers") or ()), *(pod_spec.get("initContainers") or ())]
    if name is not None and name not in {each.get("name") for each in containers}:
        detail = "must be one of the container or initContainer names in the pod template"
        yield invalid_field(f"{path}.containerName", name, detail)
    if not values:
        yield invalid_field(f"{path}.values", values, "at least one value is required")
    yield from _limit_items(f"{path}.values", values, _MAX_EXIT_CODES)
    for index, value in enumerate(values):
        if operator == "In" and value == 0:
            yield invalid_field(f"{path}.values[{index}]", value, "must not be 0 for the In operator")
        if value in values[:index]:
            yield duplicate_value(f"{path}.values[{index}]", value)
    if values != sorted(values):
        yield invalid_field(f"{path}.values", values, "must be ordered")


def _validate_success_rule(spec: Object, rule: Object, path: str) -> Iterator[FieldError]:
    count, ranges = rule.get("succeededCount"), rule.get("succeededIndexes")
    completions = spec.get("completions") or 0
    if count is None and ranges is None:
        yield required_field(path, "at least one of succeededCount or succeededIndexes must be specified")
    listed = completions
    if ranges is not None:
        try:
            listed = IndexRanges.parse(ranges, completions).total
        except ValueError as error:
            listed = 0
            detail = f"error parsing succeededIndexes: {error}"
            yield invalid_field(f"{path}.succeededIndexes", ranges, detail)
    if count is None:
        return
    if count < 0:
        yield invalid_field(f"{path}.succeededCount", count, "must be greater than or equal to 0")
    if count > completions:
        detail = f"must be less than or equal to {completions} (the number of specified completions)"
        yield invalid_field(f"{path}.succeededCount", count, detail)
    if ranges is not None and count > listed:
        detail = (
            f"must be less than or equal to {listed} (the number of indexes in the specified succeededIndexes field)"
        )
        yield invalid_field(f"{path}.succeededCount", count, detail)
