"""Cooldowns between resizes of a group, and the resize history on which they depend."""

from __future__ import annotations

from dataclasses import dataclass, replace

from pliant.autoscale.model import ElasticGroup

FINISHING_REASON = "a replica has completed; the others are finishing"


@dataclass(frozen=True, slots=True, kw_only=True)
class ResizeCooldowns:
    """Durations in seconds."""

    opposite_direction_cooldown: float = 30.0  # between two resizes in opposite directions
    same_direction_cooldown: float = 10.0
    """Between two resizes in the same direction: capacity becomes free gradually as pods terminate."""
    restart_cooldown: float = 120.0
    """Replaces both for a group that restarts when it is resized. It doubles with each resize, up to five times its
    value: early on there is little work to lose, and long-running groups are restarted rarely."""
    manual_edit_freeze: float = 300.0  # after a user has set the size
    pending_timeout: float = 60.0
    """After which unscheduled replicas are given up; longer than pods usually take to terminate."""
    regrow_backoff: float = 60.0
    """After unscheduled replicas were given up, until the group may grow again; it doubles with each failure."""
    max_regrow_backoff: float = 480.0


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupScaleHistory:
    """The resize history of a group; times in seconds on the same clock as `now`, None for never."""

    last_resized_at: float | None = None  # when the autoscaler last resized it
    last_resize_delta: int = 0  # the change of size in that resize
    resize_count: int = 0
    manually_edited_at: float | None = None  # when a user last set the size
    is_fully_running: bool = True
    is_finishing: bool = False  # whether a replica has completed, so that the others are about to
    restarts_on_resize: bool = False  # whether a resize restarts all replicas
    pending_since: float | None = None  # since when a replica has been unscheduled
    failed_growths: int = 0  # consecutive growths whose replicas could not be scheduled
    growth_failed_at: float | None = None

    def with_observation(
        self, elastic: ElasticGroup, *, is_fully_running: bool, is_finishing: bool, now: float
    ) -> GroupScaleHistory:
        has_pending = "" in elastic.replica_nodes[: elastic.size]
        has_grown = is_fully_running and not has_pending and self.last_resize_delta > 0
        updated = replace(
            self,
            is_fully_running=is_fully_running,
            is_finishing=is_finishing,
            pending_since=(now if self.pending_since is None else self.pending_since) if has_pending else None,
            failed_growths=0 if has_grown else self.failed_growths,
        )
        return self if updated == self else updated

    def with_resize(self, delta: int, now: float) -> GroupScaleHistory:
        failed_growth = delta < 0 and self.pending_since is not None
        return replace(
            self,
            last_resized_at=now,
            last_resize_delta=delta,
            resize_count=self.resize_count + 1,
            pending_since=None,
            failed_growths=self.failed_growths + failed_growth,
            growth_failed_at=now if failed_growth else self.growth_failed_at,
        )


def with_cooldown_restrictions(
    elastic: ElasticGroup, history: GroupScaleHistory, now: float, cooldowns: ResizeCooldowns
) -> ElasticGroup:
    """Return the group with its current restrictions; for pending pods it may always shrink, unless it is fixed."""
    if history.is_finishing:
        return _with_fixed_size(elastic, FINISHING_REASON)
    if _is_within(history.manually_edited_at, cooldowns.manual_edit_freeze, now):
        freeze = _format_seconds(cooldowns.manual_edit_freeze)
        return _with_fixed_size(elastic, f"a user set its size less than {freeze} ago")
    grow_cooldown, shrink_cooldown = _grow_and_shrink_cooldowns(history, cooldowns)
    if _is_within(history.last_resized_at, shrink_cooldown, now):
        reason = f"it was resized less than {_format_seconds(shrink_cooldown)} ago"
        elastic = replace(elastic, may_shrink=False, restriction_reason=reason)
    if _is_within(history.last_resized_at, grow_cooldown, now):
        reason = f"it was resized less than {_format_seconds(grow_cooldown)} ago"
        elastic = replace(elastic, may_grow=False, restriction_reason=reason)
    elif not history.is_fully_running or history.pending_since is not None:
        # A group that restarts with every resize would never run if it were resized while it starts.
        may_shrink = elastic.may_shrink and not history.restarts_on_resize
        reason = "its replicas are still starting"
        elastic = replace(elastic, may_grow=False, may_shrink=may_shrink, restriction_reason=reason)
    if history.pending_since is not None and not _is_within(history.pending_since, cooldowns.pending_timeout, now):
        return _without_pending_replicas(elastic, cooldowns)
    if _is_within(history.growth_failed_at, _current_regrow_backoff(history, cooldowns), now):
        backoff = _format_seconds(_current_regrow_backoff(history, cooldowns))
        reason = f"its last replicas could not be scheduled; it may grow again after {backoff}"
        return replace(elastic, may_grow=False, restriction_reason=reason)
    return elastic


def next_cooldown_end(history: GroupScaleHistory, now: float, cooldowns: ResizeCooldowns) -> float | None:
    """Return when the restrictions of a group next change without any other event; None for never."""
    if history.is_finishing:
        return None
    end_times = (
        *(_end_time(history.last_resized_at, wait) for wait in _grow_and_shrink_cooldowns(history, cooldowns)),
        _end_time(history.manually_edited_at, cooldowns.manual_edit_freeze),
        _end_time(history.pending_since, cooldowns.pending_timeout),
        _end_time(history.growth_failed_at, _current_regrow_backoff(history, cooldowns)),
    )
    return min((end for end in end_times if end is not None and end > now), default=None)


def _with_fixed_size(elastic: ElasticGroup, reason: str) -> ElasticGroup:
    return replace(elastic, is_fixed=True, may_grow=False, may_shrink=False, restriction_reason=reason)


def _without_pending_replicas(elastic: ElasticGroup, cooldowns: ResizeCooldowns) -> ElasticGroup:
    size = min(elastic.size, len(elastic.replica_nodes))
    while size and not elastic.replica_nodes[size - 1]:
        size -= 1
    max_size = max(elastic.min_size, min(elastic.max_size, size))
    reason = f"replicas could not be scheduled for {_format_seconds(cooldowns.pending_timeout)}"
    return replace(elastic, max_size=max_size, may_grow=False, restriction_reason=reason)


def _grow_and_shrink_cooldowns(history: GroupScaleHistory, cooldowns: ResizeCooldowns) -> tuple[float, float]:
    """Return how long after its last resize a group may not grow, and may not shrink."""
    if history.restarts_on_resize:
        wait = _exponential_delay(cooldowns.restart_cooldown, history.resize_count, 5 * cooldowns.restart_cooldown)
        return wait, wait
    if history.last_resize_delta == 0:
        return cooldowns.opposite_direction_cooldown, cooldowns.opposite_direction_cooldown
    short_cooldown = min(cooldowns.same_direction_cooldown, cooldowns.opposite_direction_cooldown)
    return (
        (short_cooldown, cooldowns.opposite_direction_cooldown)
        if history.last_resize_delta > 0
        else (cooldowns.opposite_direction_cooldown, short_cooldown)
    )


def _current_regrow_backoff(history: GroupScaleHistory, cooldowns: ResizeCooldowns) -> float:
    if not history.failed_growths:
        return 0.0
    return _exponential_delay(cooldowns.regrow_backoff, history.failed_growths, cooldowns.max_regrow_backoff)


def _exponential_delay(initial: float, count: int, maximum: float) -> float:
    return min(initial * 2.0 ** min(max(count - 1, 0), 30), maximum)


def _end_time(start: float | None, duration: float) -> float | None:
    return None if start is None else start + duration


def _is_within(start: float | None, duration: float, now: float) -> bool:
    # A time in the future, after a clock was set back, must not restrict the group forever.
    return start is not None and now < start + duration and start < now + duration


def _format_seconds(seconds: float) -> str:
    return f"{seconds / 60:g} min" if seconds >= 120 and seconds % 60 == 0 else f"{seconds:g} s"
