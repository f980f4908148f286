"""How often a group may change its size, and what it must have come to before it does so again."""

from __future__ import annotations

from dataclasses import dataclass, replace

from pliant.autoscale.model import ElasticGroup


@dataclass(frozen=True, slots=True, kw_only=True)
class ResizeCooldowns:
    """How long to wait for what, in seconds."""

    cooldown: float = 30.0
    """Between two changes of a group's size of our own will, one of which takes back what the other did."""
    same_direction_cooldown: float = 10.0
    """Between two changes that go the same way: room comes bit by bit when pods leave."""
    restart_cooldown: float = 120.0
    """In place of both for a group whose members all start again when it is resized. Twice as long each time, up
    to five times: early on there is little work to lose, and a group that lives long comes to rest."""
    manual_edit_freeze: float = 300.0
    """After somebody has set its size by hand."""
    pending_timeout: float = 60.0
    """Until members that wait without a node are given up: longer than pods that leave mostly take to be gone."""
    regrow_backoff: float = 60.0
    """After members were given up, until the group may grow again; twice as long each time it happens anew."""
    max_regrow_backoff: float = 480.0


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupScaleHistory:
    """What has become of a group so far; times in seconds of the same clock as `now`, None for never."""

    resized_at: float | None = None
    """When we changed its size last."""
    resize_delta: int = 0
    """By how many members: below 0 where it shrank."""
    resize_count: int = 0
    """How often we did."""
    manually_edited_at: float | None = None
    """When somebody set its size by hand last."""
    is_fully_running: bool = True
    """Whether all its members run."""
    is_finishing: bool = False
    """Whether a member has ended its work, so that the others are about to."""
    restarts_on_resize: bool = False
    """Whether all members start again when it is resized."""
    pending_since: float | None = None
    """Since when some member has had no node."""
    failed_growths: int = 0
    """How often in a row members were given up that no node took."""
    growth_failed_at: float | None = None

    def with_observation(
        self, elastic: ElasticGroup, *, is_fully_running: bool, is_finishing: bool, now: float
    ) -> GroupScaleHistory:
        """With how things are now."""
        waits = "" in elastic.replica_nodes[: elastic.size]
        has_grown = is_fully_running and not waits and self.resize_delta > 0
        after = replace(
            self,
            is_fully_running=is_fully_running,
            is_finishing=is_finishing,
            pending_since=(now if self.pending_since is None else self.pending_since) if waits else None,
            failed_growths=0 if has_grown else self.failed_growths,
        )
        return self if after == self else after

    def with_resize(self, delta: int, now: float) -> GroupScaleHistory:
        """With a change of our own will: this many members more, or fewer if below 0."""
        is_miss = delta < 0 and self.pending_since is not None
        return replace(
            self,
            resized_at=now,
            resize_delta=delta,
            resize_count=self.resize_count + 1,
            pending_since=None,
            failed_growths=self.failed_growths + is_miss,
            growth_failed_at=now if is_miss else self.growth_failed_at,
        )


def with_cooldowns(
    elastic: ElasticGroup, history: GroupScaleHistory, now: float, cooldowns: ResizeCooldowns
) -> ElasticGroup:
    """The group with what it may do now. To let others in it always may shrink, unless its size is fixed."""
    if history.is_finishing:
        return _with_fixed_size(elastic, "a member has ended its work, the others are about to")
    if _is_within(history.manually_edited_at, cooldowns.manual_edit_freeze, now):
        return _with_fixed_size(
            elastic, f"its size was set by hand less than {_format_seconds(cooldowns.manual_edit_freeze)} ago"
        )
    to_grow, to_shrink = _grow_and_shrink_cooldowns(history, cooldowns)
    if _is_within(history.resized_at, to_shrink, now):
        elastic = replace(
            elastic, may_shrink=False, restriction_reason=f"it was resized less than {_format_seconds(to_shrink)} ago"
        )
    if _is_within(history.resized_at, to_grow, now):
        elastic = replace(
            elastic, may_grow=False, restriction_reason=f"it was resized less than {_format_seconds(to_grow)} ago"
        )
    elif not history.is_fully_running or history.pending_since is not None:
        # Who starts anew with every change would never be up if it were changed meanwhile.
        may_shrink = elastic.may_shrink and not history.restarts_on_resize
        note = "its members are still coming up"
        elastic = replace(elastic, may_grow=False, may_shrink=may_shrink, restriction_reason=note)
    if history.pending_since is not None and not _is_within(history.pending_since, cooldowns.pending_timeout, now):
        return _without_pending_replicas(elastic, cooldowns)
    if _is_within(history.growth_failed_at, _current_regrow_backoff(history, cooldowns), now):
        backoff = _format_seconds(_current_regrow_backoff(history, cooldowns))
        note = f"no node took its last members; it may grow {backoff} after that"
        return replace(elastic, may_grow=False, restriction_reason=note)
    return elastic


def next_cooldown_end(history: GroupScaleHistory, now: float, cooldowns: ResizeCooldowns) -> float | None:
    """When a group may do something else than now although nothing has happened; None for never."""
    if history.is_finishing:
        return None
    ends = (
        *(_end_time(history.resized_at, wait) for wait in _grow_and_shrink_cooldowns(history, cooldowns)),
        _end_time(history.manually_edited_at, cooldowns.manual_edit_freeze),
        _end_time(history.pending_since, cooldowns.pending_timeout),
        _end_time(history.growth_failed_at, _current_regrow_backoff(history, cooldowns)),
    )
    return min((end for end in ends if end is not None and end > now), default=None)


def _with_fixed_size(elastic: ElasticGroup, reason: str) -> ElasticGroup:
    return replace(elastic, is_fixed=True, may_grow=False, may_shrink=False, restriction_reason=reason)


def _without_pending_replicas(elastic: ElasticGroup, cooldowns: ResizeCooldowns) -> ElasticGroup:
    """Give up the last members as far as they wait; those before them cannot leave without the others."""
    size = min(elastic.size, len(elastic.replica_nodes))
    while size and not elastic.replica_nodes[size - 1]:
        size -= 1
    most = max(elastic.min_size, min(elastic.max_size, size))
    return replace(
        elastic,
        max_size=most,
        may_grow=False,
        restriction_reason=f"no node took more members for {_format_seconds(cooldowns.pending_timeout)}",
    )


def _grow_and_shrink_cooldowns(history: GroupScaleHistory, cooldowns: ResizeCooldowns) -> tuple[float, float]:
    """How long after its last change a group may not grow, and not shrink."""
    if history.restarts_on_resize:
        wait = _exponential_delay(cooldowns.restart_cooldown, history.resize_count, 5 * cooldowns.restart_cooldown)
        return wait, wait
    if history.resize_delta == 0:
        return cooldowns.cooldown, cooldowns.cooldown
    stride = min(cooldowns.same_direction_cooldown, cooldowns.cooldown)
    return (stride, cooldowns.cooldown) if history.resize_delta > 0 else (cooldowns.cooldown, stride)


def _current_regrow_backoff(history: GroupScaleHistory, cooldowns: ResizeCooldowns) -> float:
    return (
        _exponential_delay(cooldowns.regrow_backoff, history.failed_growths, cooldowns.max_regrow_backoff)
        if history.failed_growths
        else 0.0
    )


def _exponential_delay(initial: float, count: int, maximum: float) -> float:
    """Twice as long each time after the first."""
    return min(initial * 2.0 ** min(max(count - 1, 0), 30), maximum)


def _end_time(start: float | None, duration: float) -> float | None:
    return None if start is None else start + duration


def _is_within(start: float | None, duration: float, now: float) -> bool:
    """Whether less than this has passed since then."""
    # By a clock that was put back, or another operator's, it may lie ahead: that must not hold the group for ever.
    return start is not None and now < start + duration and start < now + duration


def _format_seconds(seconds: float) -> str:
    return f"{seconds / 60:g} min" if seconds >= 120 and seconds % 60 == 0 else f"{seconds:g} s"
