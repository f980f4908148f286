"""How many pods a PodDisruptionBudget lets go at a moment."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pliant.embedded.schema import Problem, Reason
from pliant.embedded.storage.records import Object

BUDGETS = "policy/poddisruptionbudgets"
ALWAYS = "AlwaysAllow"
_PERCENT = "%"


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """What a budget asks for, and what there is: healthy pods are ready and do not leave."""

    expected: int
    healthy: int
    desired: int

    @classmethod
    def of(cls, spec: Mapping[str, Any], *, expected: int, healthy: int) -> Standing:
        """How a budget stands with so many pods, of which so many are healthy."""
        least, most = spec.get("minAvailable"), spec.get("maxUnavailable")
        if most is not None:
            desired = max(0, expected - _share(most, expected))
        else:
            desired = 0 if least is None else _share(least, expected)
        return cls(expected=expected, healthy=healthy, desired=desired)

    @property
    def allowed(self) -> int:
        """How many more may go now."""
        return max(0, self.healthy - self.desired) if self.expected else 0


def selects(selector: Mapping[str, Any] | None, labels: Mapping[str, str]) -> bool:
    """Whether a selector, as objects hold it, means these labels; one that is absent means nothing."""
    if selector is None:
        return False
    wanted = selector.get("matchLabels") or {}
    return wanted.items() <= labels.items() and all(
        _holds(each, labels) for each in selector.get("matchExpressions") or ()
    )


def budget_problems(budget: Object, old: Object | None) -> list[Problem]:
    """Two bounds at once, and bounds that are none."""
    spec = budget.get("spec") or {}
    problems = []
    if spec.get("minAvailable") is not None and spec.get("maxUnavailable") is not None:
        words = "minAvailable and maxUnavailable cannot be both set"
        problems.append(Problem.of("spec", Reason.INVALID, None, words))
    for field in ("minAvailable", "maxUnavailable"):
        value = spec.get(field)
        if isinstance(value, int) and value < 0:
            words = "must be greater than or equal to 0"
            problems.append(Problem.of(f"spec.{field}", Reason.INVALID, value, words))
        elif isinstance(value, str) and not (value.endswith(_PERCENT) and value.removesuffix(_PERCENT).isdigit()):
            words = 'must be a number, or a percentage such as "50%"'
            problems.append(Problem.of(f"spec.{field}", Reason.INVALID, value, words))
    return problems


def _share(bound: int | str, of: int) -> int:
    if isinstance(bound, int):
        return bound
    return math.ceil(int(bound.removesuffix(_PERCENT)) * of / 100)


def _holds(term: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    key, values = term.get("key", ""), term.get("values") or ()
    match term.get("operator"):
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
