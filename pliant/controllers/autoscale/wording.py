"""Verdicts to wishes: what is said once is not said again, and what was overtaken is said anew."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from msgspec.structs import replace

from pliant.autoscale.model import Verdict
from pliant.engine.sizing import is_overtaken
from pliant.model.observed import Wish
from pliant.model.state import Advice, GroupState


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """Under which something is wanted."""

    at: datetime
    known_at: datetime | None
    """Until when the job's story is known."""
    is_order: bool
    speeds: Mapping[int, float]
    """Those measured anew, if any were."""


LONGEST = 240


def wish_for(verdict: Verdict, memory: GroupState, before: Wish | None, now: Terms) -> Wish:
    """What is wanted of a group; the very same as before if nothing is new in it."""
    advice = _advice(verdict, before, now)
    # Whoever set another size meanwhile came later; what is wanted in spite of it has to be said anew.
    if advice.size != memory.size and before is not None and before.is_order and ordered(before, memory) is None:
        advice = replace(advice, at=now.at)
    is_known = before is not None and advice is before.advice
    wish = Wish(
        advice=advice,
        is_order=now.is_order,
        known_at=before.known_at if before and is_known else now.known_at,
        speeds=now.speeds or (before.speeds if before else {}),
    )
    return before if before == wish else wish


def _advice(verdict: Verdict, before: Wish | None, now: Terms) -> Advice:
    if (
        before is not None
        and before.is_order == now.is_order
        and (before.advice.size, before.advice.code) == (verdict.size, str(verdict.code))
    ):
        return before.advice
    return Advice(size=verdict.size, code=str(verdict.code), why=_short(verdict.why), at=now.at)


def ordered(wish: Wish | None, memory: GroupState) -> int | None:
    """The size that a group has been told to have and has not taken on yet."""
    if wish is None or not wish.is_order or wish.advice.size == memory.size:
        return None
    latest = memory.latest
    is_late = latest is not None and wish.advice.at <= memory.requests[latest].at
    return None if is_late or is_overtaken(wish, memory.requests) else wish.advice.size


def _short(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"
