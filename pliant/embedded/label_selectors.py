"""Label selectors of objects (metav1.LabelSelector) as text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

LabelSelectorObject = Mapping[str, Any]


def format_label_selector(selector: LabelSelectorObject | None) -> str:
    """Return a selector as in queries, `a=b,c in (d,e),!f`; empty if it has no requirements."""
    selector = selector or {}
    requirements = [(key, f"{key}={value}") for key, value in (selector.get("matchLabels") or {}).items()]
    expressions = selector.get("matchExpressions") or ()
    requirements += [(expression.get("key", ""), _format_expression(expression)) for expression in expressions]
    return ",".join(text for _, text in sorted(requirements, key=lambda requirement: requirement[0]))


def _format_expression(expression: Mapping[str, Any]) -> str:
    key, values = expression.get("key", ""), ",".join(sorted(expression.get("values") or ()))
    match expression.get("operator"):
        case "In":
            return f"{key} in ({values})"
        case "NotIn":
            return f"{key} notin ({values})"
        case "DoesNotExist":
            return f"!{key}"
        case _:
            return f"{key}"
