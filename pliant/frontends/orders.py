"""Ends ordered by an annotation: how schedulers and people tell a job to stop."""

from __future__ import annotations

from collections.abc import Mapping

from pliant.model.job import Order
from pliant.model.state import Phase

ORDERS = {
    "failed": Phase.FAILED,
    "nodefail": Phase.NODE_FAIL,
    "nodefailed": Phase.NODE_FAIL,
    "preempted": Phase.PREEMPTED,
}
"""Names of annotations, in any case and with or without a domain in front."""


LONGEST_MESSAGE = 300
"""Characters of a message that are kept: it is told in many places, and an annotation may hold 256 KiB."""


def order_in(annotations: Mapping[str, str]) -> Order | None:
    """The end that annotations order, if one does; its value is the message."""
    for key in sorted(annotations):
        phase = ORDERS.get(key.rpartition("/")[2].casefold())
        if phase is not None:
            return Order(phase=phase, message=_line(annotations[key]) or f"ordered by annotation {key}")
    return None


def _line(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= LONGEST_MESSAGE else f"{line[: LONGEST_MESSAGE - 1]}…"
