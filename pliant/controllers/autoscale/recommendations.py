"""Where the autoscaler leaves what it wants, for the jobs' own passes to find."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from types import MappingProxyType
from typing import Any, Protocol

from msgspec.structs import replace

from pliant.autoscale.model import SizeDecision
from pliant.engine.sizing import is_superseded
from pliant.model.job import Job, JobKey
from pliant.model.observed import ScaleRecommendation
from pliant.model.state import GroupState, SizeAdvice

_NO_RECOMMENDATIONS: Mapping[str, ScaleRecommendation] = MappingProxyType({})


class JobObserver(Protocol):
    """Whoever wants sizes of jobs, and has to know them for that."""

    def observe_job(self, job: Job, progress: Mapping[str, Any]) -> None:
        """Take in a job as its own pass sees it, and what its members report."""

    def forget_job(self, qualified_kind: str, key: JobKey) -> None:
        """Take in that a job is gone; the kind has its API group with it."""


class RecommendationStore:
    """The sizes wanted of groups, by the uid of their job; what was acted upon is in the job's own status."""

    def __init__(self) -> None:
        self.job_observer: JobObserver | None = None
        """Told of every job that is looked at."""
        self._by_job_uid: dict[str, Mapping[str, ScaleRecommendation]] = {}

    def for_job(self, job_uid: str) -> Mapping[str, ScaleRecommendation]:
        """What is wanted of one job, by group."""
        return self._by_job_uid.get(job_uid, _NO_RECOMMENDATIONS)

    def set_for_job(self, job_uid: str, recommendations: Mapping[str, ScaleRecommendation]) -> bool:
        """Want this of a job from now on; whether that is anything new."""
        before = self._by_job_uid.get(job_uid)
        self._by_job_uid[job_uid] = recommendations
        return before != recommendations

    def retain_only(self, job_uids: Iterable[str]) -> None:
        """Forget all other jobs."""
        kept = set(job_uids)
        self._by_job_uid = {uid: wishes for uid, wishes in self._by_job_uid.items() if uid in kept}


@dataclass(frozen=True, slots=True, kw_only=True)
class RecommendationContext:
    """Under which something is wanted."""

    at: datetime
    observed_at: datetime | None
    """Until when the job's story is known."""
    should_apply: bool
    throughput_by_size: Mapping[int, float]
    """Those measured anew, if any were."""


MAX_ADVICE_LENGTH = 240


def recommend_size(
    decision: SizeDecision,
    group_state: GroupState,
    previous: ScaleRecommendation | None,
    context: RecommendationContext,
) -> ScaleRecommendation:
    """What is wanted of a group; the very same as before if nothing is new in it."""
    advice = _size_advice(decision, previous, context)
    # Whoever set another size meanwhile came later; what is wanted in spite of it has to be said anew.
    if (
        advice.size != group_state.applied_size
        and previous is not None
        and previous.should_apply
        and pending_size(previous, group_state) is None
    ):
        advice = replace(advice, at=context.at)
    is_known = previous is not None and advice is previous.advice
    wish = ScaleRecommendation(
        advice=advice,
        should_apply=context.should_apply,
        observed_at=previous.observed_at if previous and is_known else context.observed_at,
        throughput_by_size=context.throughput_by_size or (previous.throughput_by_size if previous else {}),
    )
    return previous if previous == wish else wish


def _size_advice(
    decision: SizeDecision, previous: ScaleRecommendation | None, context: RecommendationContext
) -> SizeAdvice:
    if (
        previous is not None
        and previous.should_apply == context.should_apply
        and (previous.advice.size, previous.advice.reason) == (decision.size, str(decision.reason))
    ):
        return previous.advice
    return SizeAdvice(
        size=decision.size, reason=str(decision.reason), message=_truncate(decision.message), at=context.at
    )


def pending_size(recommendation: ScaleRecommendation | None, group_state: GroupState) -> int | None:
    """The size that a group has been told to have and has not taken on yet."""
    if (
        recommendation is None
        or not recommendation.should_apply
        or recommendation.advice.size == group_state.applied_size
    ):
        return None
    latest = group_state.latest_requester
    is_late = latest is not None and recommendation.advice.at <= group_state.size_requests[latest].at
    return None if is_late or is_superseded(recommendation, group_state.size_requests) else recommendation.advice.size


def _truncate(text: str) -> str:
    return text if len(text) <= MAX_ADVICE_LENGTH else f"{text[: MAX_ADVICE_LENGTH - 1]}…"
