"""The smallest merge patch that turns one value into another."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def merge_patch(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    """What to send so that `before` becomes `after`: changed parts, and null for what goes (RFC 7386)."""
    patch: dict[str, Any] = {key: None for key in before if key not in after}
    for key, value in after.items():
        if key not in before:
            patch[key] = value
        elif isinstance(value, Mapping) and isinstance(before[key], Mapping):
            if inner := merge_patch(before[key], value):
                patch[key] = inner
        elif value != before[key]:
            patch[key] = value
    return patch
