"""How many pods a PodDisruptionBudget lets go at a moment."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pliant.embedded.schema import FieldError, FieldErrorType
from pliant.embedded.storage.stored_objects import Object

DISRUPTION_BUDGETS = "policy/poddisruptionbudgets"
ALWAYS_ALLOW = "AlwaysAllow"
_PERCENT_SIGN = "%"


@dataclass(frozen=True, slots=True, kw_only=True)
class DisruptionBudgetStatus:
    """What a budget asks for, and what there is: healthy pods are ready and do not leave."""

    expected_pods: int
    current_healthy: int
    desired_healthy: int

    @classmethod
    def compute(cls, spec: Mapping[str, Any], *, expected_pods: int, current_healthy: int) -> DisruptionBudgetStatus:
        """How a budget stands with so many pods, of which so many are healthy."""
        least, most = spec.get("minAvailable"), spec.get("maxUnavailable")
        if most is not None:
            desired = max(0, expected_pods - _resolve_int_or_percent(most, expected_pods))
        else:
            desired = 0 if least is None else _resolve_int_or_percent(least, expected_pods)
        return cls(expected_pods=expected_pods, current_healthy=current_healthy, desired_healthy=desired)

    @property
    def disruptions_allowed(self) -> int:
        """How many more may go now."""
        return max(0, self.current_healthy - self.desired_healthy) if self.expected_pods else 0


def label_selector_matches(selector: Mapping[str, Any] | None, labels: Mapping[str, str]) -> bool:
    """Whether a selector, as objects hold it, means these labels; one that is absent means nothing."""
    if selector is None:
        return False
    wanted = selector.get("matchLabels") or {}
    return wanted.items() <= labels.items() and all(
        _match_expression_matches(each, labels) for each in selector.get("matchExpressions") or ()
    )


def validate_disruption_budget(budget: Object, old: Object | None) -> list[FieldError]:
    """Two bounds at once, and bounds that are none."""
    spec = budget.get("spec") or {}
    problems = []
    if spec.get("minAvailable") is not None and spec.get("maxUnavailable") is not None:
        words = "minAvailable and maxUnavailable cannot be both set"
        problems.append(FieldError.of("spec", FieldErrorType.INVALID, None, words))
    for field in ("minAvailable", "maxUnavailable"):
        value = spec.get(field)
        if isinstance(value, int) and value < 0:
            words = "must be greater than or equal to 0"
            problems.append(FieldError.of(f"spec.{field}", FieldErrorType.INVALID, value, words))
        elif isinstance(value, str) and not (
            value.endswith(_PERCENT_SIGN) and value.removesuffix(_PERCENT_SIGN).isdigit()
        ):
            words = 'must be a number, or a percentage such as "50%"'
            problems.append(FieldError.of(f"spec.{field}", FieldErrorType.INVALID, value, words))
    return problems


def _resolve_int_or_percent(int_or_percent: int | str, total: int) -> int:
    if isinstance(int_or_percent, int):
        return int_or_percent
    return math.ceil(int(int_or_percent.removesuffix(_PERCENT_SIGN)) * total / 100)


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
