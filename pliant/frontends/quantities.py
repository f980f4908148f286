"""Amounts of resources as people and masters write them."""

from __future__ import annotations

import math
import re
from typing import Any

_QUANTITY = re.compile(r"\+?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[numkMGTPE]|[KMGTPE]i|[eE][-+]?[0-9]{1,3})?")
LONGEST = 64


def amount_text(amount: Any) -> str | None:
    """An amount as Kubernetes writes it, empty if nothing is said; None for what is no amount."""
    match amount:
        case None | "":
            return ""
        case bool():
            return None
        case int() | float() if 0 <= amount < 2**63:
            whole = int(amount)
            return str(whole) if whole == amount else f"{math.ceil(amount * 1000)}m"
        case str() if len(amount) <= LONGEST and _QUANTITY.fullmatch(amount.strip()):
            return amount.strip()
        case _:
            return None
