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


def order_in(annotations: Mapping[str, str]) -> Order | None:
    """The end that annotations order, if one does; its value is the message."""
    for key in sorted(annotations):
        phase = ORDERS.get(key.rpartition("/")[2].casefold())
        if phase is not None:
            return Order(phase=phase, message=annotations[key].strip() or f"ordered by annotation {key}")
    return None
