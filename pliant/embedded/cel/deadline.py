"""The CPU time that one evaluation may take, for functions that run longer than their cost says."""

from __future__ import annotations

import threading
import time

from pliant.embedded.cel.values import CostLimitError


class _Current(threading.local):
    deadline = float("inf")


_current = _Current()


def set_deadline(deadline: float) -> float:
    """Set the deadline of the evaluations of this thread, in its CPU time; return the one before."""
    before, _current.deadline = _current.deadline, deadline
    return before


def require_time() -> None:
    """Raise CostLimitError if the evaluation has taken too long."""
    if time.thread_time() > _current.deadline:
        raise CostLimitError
