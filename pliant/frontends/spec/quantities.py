"""Resource quantities and durations in specs."""

from __future__ import annotations

import math
import re
from datetime import timedelta
from typing import Any

_QUANTITY_PATTERN = re.compile(r"\+?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[numkMGTPE]|[KMGTPE]i|[eE][-+]?[0-9]{1,3})?")
MAX_QUANTITY_CHARS = 64
MAX_DURATION_SECONDS = 100 * 365 * 24 * 3600
"""The longest duration; adding it to any current date does not overflow."""


def normalize_quantity(quantity: Any) -> str | None:
    """Return a Kubernetes quantity, an empty string for an absent one, or None for an invalid one."""
    match quantity:
        case None | "":
            return ""
        case bool():
            return None
        case int() | float() if 0 <= quantity < 2**63:
            return str(int(quantity)) if int(quantity) == quantity else f"{math.ceil(quantity * 1000)}m"
        case str() if len(quantity) <= MAX_QUANTITY_CHARS and _QUANTITY_PATTERN.fullmatch(quantity.strip()):
            return quantity.strip()
        case _:
            return None


def seconds_to_timedelta(seconds: int | None) -> timedelta | None:
    """Return a duration, limited to MAX_DURATION_SECONDS."""
    return None if seconds is None else timedelta(seconds=min(seconds, MAX_DURATION_SECONDS))
