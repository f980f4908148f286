"""Validation of PodDisruptionBudgets, and the number of disruptions that they allow."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pliant.embedded.apiserver.admission.validation.conditions import validate_conditions
from pliant.embedded.apiserver.admission.validation.label_selectors import validate_label_selector
from pliant.embedded.apiserver.http.errors import invalid_field, unsupported_value
from pliant.embedded.schema import FieldError
from pliant.embedded.storage.stored_objects import Object

DISRUPTION_BUDGETS_RESOURCE_KEY = "policy/poddisruptionbudgets"
INVALID_PERCENT_MESSAGE = (
    "a valid percent string must be a numeric string followed by an ending '%' "
    "(e.g. '1%',  or '93%', regex used for validation is '[0-9]+%')"
)

_UNHEALTHY_POLICIES = ("AlwaysAllow", "IfHealthyBudget")


@dataclass(frozen=True, slots=True, kw_only=True)
class DisruptionBudgetStatus:
    """The pod counts of a budget; healthy pods are ready and not terminating."""

    expected_pods: int
    current_healthy: int
    desired_healthy: int

    @classmethod
    def compute(cls, spec: Mapping[str, Any], *, expected_pods: int, current_healthy: int) -> DisruptionBudgetStatus:
        min_available, max_unavailable = spec.get("minAvailable"), spec.get("maxUnavailable")
        if max_unavailable is not None:
            desired = max(0, expected_pods - _resolve_int_or_percent(max_unavailable, expected_pods))
        else:
            desired = 0 if min_available is None else _resolve_int_or_percent(min_available, expected_pods)
        return cls(expected_pods=expected_pods, current_healthy=current_healthy, desired_healthy=desired)

    @property
    def disruptions_allowed(self) -> int:
        return max(0, self.current_healthy - self.desired_healthy) if self.expected_pods else 0


def label_selector_matches(selector: Mapping[str, Any] | None, labels: Mapping[str, str]) -> bool:
    """Return whether a metav1.LabelSelector matches labels; an absent selector matches nothing."""
    if selector is None:
        return False
    match_labels = selector.get("matchLabels") or {}
    return match_labels.items() <= labels.items() and all(
        _match_expression_matches(each, labels) for each in selector.get("matchExpressions") or ()
    )


def validate_disruption_budget(budget: Object, old: Object | None) -> list[FieldError]:
    spec, status = budget.get("spec") or {}, budget.get("status") or {}
    errors = list(validate_conditions(status.get("conditions") or (), "status.conditions"))
    errors += [
        invalid_field(f"status.{field}", status[field], "must be greater than or equal to 0")
        for field in ("disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods")
        if (status.get(field) or 0) < 0
    ]
    if spec.get("minAvailable") is not None and spec.get("maxUnavailable") is not None:
        errors.append(invalid_field("spec", None, "minAvailable and maxUnavailable cannot be both set"))
    for field in ("minAvailable", "maxUnavailable"):
        value = spec.get(field)
        if isinstance(value, int) and value < 0:
            errors.append(invalid_field(f"spec.{field}", value, "must be greater than or equal to 0"))
        elif isinstance(value, str) and not (value.endswith("%") and value.removesuffix("%").isdigit()):
            errors.append(invalid_field(f"spec.{field}", value, INVALID_PERCENT_MESSAGE))
    errors += validate_label_selector(spec.get("selector") or {}, "spec.selector")
    policy = spec.get("unhealthyPodEvictionPolicy")
    if policy is not None and policy not in _UNHEALTHY_POLICIES:
        errors.append(unsupported_value("spec.unhealthyPodEvictionPolicy", policy, _UNHEALTHY_POLICIES))
    return errors


def _resolve_int_or_percent(int_or_percent: int | str, total: int) -> int:
    if isinstance(int_or_percent, int):
        return int_or_percent
    return math.ceil(int(int_or_percent.removesuffix("%")) * total / 100)


def _match_expression_matches(expression: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    key, values = expression.get("key", ""), expression.get("values") or ()
    match expression.get("operator"):
        case "In":
            return labels.get(key) in values
        case "NotIn":
            return labels.get(key) not in values
        case "Exists":
            return key in labels
        case "DoesNotExist":
            return key not in labels
        case _:
            return False
