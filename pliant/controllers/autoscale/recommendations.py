"""Size recommendations, passed from the autoscaler to the reconcilers of jobs."""

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
from pliant.model.state import EngineState, GroupState, SizeAdvice

_NO_RECOMMENDATIONS: Mapping[str, ScaleRecommendation] = MappingProxyType({})


class JobObserver(Protocol):
    """The autoscaler, as the reconcilers of jobs see it."""

    def observe_job(self, job: Job, state: EngineState | None, progress: Mapping[str, Any]) -> None:
        """Register the state of a job and the progress that its replicas report."""

    def forget_job(self, qualified_kind: str, key: JobKey) -> None:
        """Remove a job that is gone; the kind includes its API group."""


class RecommendationStore:
    """The latest recommendations for groups by job uid; decisions that were applied are in the job status."""

    def __init__(self) -> None:
        self.job_observer: JobObserver | None = None
        self._by_job_uid: dict[str, Mapping[str, ScaleRecommendation]] = {}

    def for_job(self, job_uid: str) -> Mapping[str, ScaleRecommendation]:
        return self._by_job_uid.get(job_uid, _NO_RECOMMENDATIONS)

    def set_for_job(self, job_uid: str, recommendations: Mapping[str, ScaleRecommendation]) -> bool:
        """Replace the recommendations for a job; return whether they have changed."""
        before = self._by_job_uid.get(job_uid)
        self._by_job_uid[job_uid] = recommendations
        return before != recommendations

    def retain_only(self, job_uids: Iterable[str]) -> None:
        retained = set(job_uids)
        self._by_job_uid = {uid: each for uid, each in self._by_job_uid.items() if uid in retained}


@dataclass(frozen=True, slots=True, kw_only=True)
class RecommendationContext:
    at: datetime
    observed_at: datetime | None  # when the job status that the snapshot used was written
    should_apply: bool
    throughput_by_size: Mapping[int, float]  # new measurements; empty without


MAX_ADVICE_LENGTH = 240


def recommend_size(
    decision: SizeDecision,
    group_state: GroupState,
    previous: ScaleRecommendation | None,
    context: RecommendationContext,
) -> ScaleRecommendation:
    """Return the recommendation for a group; the previous object if nothing has changed."""
    advice = _size_advice(decision, previous, context)
    # Another requester set a size later: a recommendation that still differs needs a new timestamp to take effect.
    if (
        advice.size != group_state.applied_size
        and previous is not None
        and previous.should_apply
        and unadopted_size(previous, group_state) is None
    ):
        advice = replace(advice, at=context.at)
    is_unchanged = previous is not None and advice is previous.advice
    recommendation = ScaleRecommendation(
        advice=advice,
        should_apply=context.should_apply,
        observed_at=previous.observed_at if previous and is_unchanged else context.observed_at,
        throughput_by_size=context.throughput_by_size or (previous.throughput_by_size if previous else {}),
    )
    return previous if previous == recommendation else recommendation


def _size_advice(
    decision: SizeDecision, previous: ScaleRecommendation | None, context: RecommendationContext
) -> SizeAdvice:
    if (
        previous is not None
        and previous.should_apply == context.should_apply
        and (previous.advice.size, previous.advice.reason) == (decision.size, str(decision.reason))
    ):
        return previous.advice
    message = decision.message
    if len(message) > MAX_ADVICE_LENGTH:
        message = f"{message[: MAX_ADVICE_LENGTH - 1]}…"
    return SizeAdvice(size=decision.size, reason=str(decision.reason), message=message, at=context.at)


def unadopted_size(recommendation: ScaleRecommendation | None, group_state: GroupState) -> int | None:
    """Return the recommended size that a group has not adopted yet."""
    if (
        recommendation is None
        or not recommendation.should_apply
        or recommendation.advice.size == group_state.applied_size
    ):
        return None
    latest = group_state.latest_requester
    is_late = latest is not None and recommendation.advice.at <= group_state.size_requests[latest].at
    return None if is_late or is_superseded(recommendation, group_state.size_requests) else recommendation.advice.size
