"""Amounts of resources as people and masters write them."""

from __future__ import annotations

import math
import re
from datetime import timedelta
from typing import Any

_QUANTITY_PATTERN = re.compile(r"\+?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[numkMGTPE]|[KMGTPE]i|[eE][-+]?[0-9]{1,3})?")
MAX_QUANTITY_CHARS = 64


def normalize_quantity(quantity: Any) -> str | None:
    """An amount as Kubernetes writes it, empty if nothing is said; None for what is no amount."""
    match quantity:
        case None | "":
            return ""
        case bool():
            return None
        case int() | float() if 0 <= quantity < 2**63:
            whole = int(quantity)
            return str(whole) if whole == quantity else f"{math.ceil(quantity * 1000)}m"
        case str() if len(quantity) <= MAX_QUANTITY_CHARS and _QUANTITY_PATTERN.fullmatch(quantity.strip()):
            return quantity.strip()
        case _:
            return None


MAX_DURATION_SECONDS = 100 * 365 * 24 * 3600
"""Seconds that nobody will ever wait, and that calendars still can add."""


def seconds_to_timedelta(seconds: int | None) -> timedelta | None:
    """A span of time; whoever writes the largest number there is means that there is no end."""
    return None if seconds is None else timedelta(seconds=min(seconds, MAX_DURATION_SECONDS))
