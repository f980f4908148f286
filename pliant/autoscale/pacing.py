"""How often a group may change its size, and what it must have come to before it does so again."""

from __future__ import annotations

from dataclasses import dataclass, replace

from pliant.autoscale.model import Elastic


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """How long to wait for what, in seconds."""

    cooldown: float = 30.0
    """Between two changes of a group's size of our own will, one of which takes back what the other did."""
    stride: float = 10.0
    """Between two changes that go the same way: room comes bit by bit when pods leave."""
    restart_cooldown: float = 120.0
    """In place of both for a group whose members all start again when it is resized. Twice as long each time, up
    to five times: early on there is little work to lose, and a group that lives long comes to rest."""
    freeze: float = 300.0
    """After somebody has set its size by hand."""
    patience: float = 60.0
    """Until members that wait without a node are given up: longer than pods that leave mostly take to be gone."""
    hold_off: float = 60.0
    """After members were given up, until the group may grow again; twice as long each time it happens anew."""
    longest_hold_off: float = 480.0


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """What has become of a group so far; times in seconds of the same clock as `now`, None for never."""

    changed_at: float | None = None
    """When we changed its size last."""
    changed_by: int = 0
    """By how many members: below 0 where it shrank."""
    changes: int = 0
    """How often we did."""
    edited_at: float | None = None
    """When somebody set its size by hand last."""
    is_up: bool = True
    """Whether all its members run."""
    is_ending: bool = False
    """Whether a member has ended its work, so that the others are about to."""
    starts_anew: bool = False
    """Whether all members start again when it is resized."""
    waits_since: float | None = None
    """Since when some member has had no node."""
    misses: int = 0
    """How often in a row members were given up that no node took."""
    missed_at: float | None = None

    def seen(self, elastic: Elastic, *, is_up: bool, is_ending: bool, now: float) -> History:
        """With how things are now."""
        waits = "" in elastic.places[: elastic.size]
        has_grown = is_up and not waits and self.changed_by > 0
        after = replace(
            self,
            is_up=is_up,
            is_ending=is_ending,
            waits_since=(now if self.waits_since is None else self.waits_since) if waits else None,
            misses=0 if has_grown else self.misses,
        )
        return self if after == self else after

    def resized(self, by: int, now: float) -> History:
        """With a change of our own will: this many members more, or fewer if below 0."""
        is_miss = by < 0 and self.waits_since is not None
        return replace(
            self,
            changed_at=now,
            changed_by=by,
            changes=self.changes + 1,
            waits_since=None,
            misses=self.misses + is_miss,
            missed_at=now if is_miss else self.missed_at,
        )


def paced(elastic: Elastic, history: History, now: float, pace: Pace) -> Elastic:
    """The group with what it may do now. To let others in it always may shrink, unless its size is fixed."""
    if history.is_ending:
        return _fixed(elastic, "a member has ended its work, the others are about to")
    if _lasts(history.edited_at, pace.freeze, now):
        return _fixed(elastic, f"its size was set by hand less than {_time(pace.freeze)} ago")
    to_grow, to_shrink = _cooldowns(history, pace)
    if _lasts(history.changed_at, to_shrink, now):
        elastic = replace(elastic, may_shrink=False, note=f"it was resized less than {_time(to_shrink)} ago")
    if _lasts(history.changed_at, to_grow, now):
        elastic = replace(elastic, may_grow=False, note=f"it was resized less than {_time(to_grow)} ago")
    elif not history.is_up or history.waits_since is not None:
        # Who starts anew with every change would never be up if it were changed meanwhile.
        may_shrink = elastic.may_shrink and not history.starts_anew
        note = "its members are still coming up"
        elastic = replace(elastic, may_grow=False, may_shrink=may_shrink, note=note)
    if history.waits_since is not None and not _lasts(history.waits_since, pace.patience, now):
        return _without_the_waiting(elastic, pace)
    if _lasts(history.missed_at, _hold_off(history, pace), now):
        note = f"no node took its last members; it may grow {_time(_hold_off(history, pace))} after that"
        return replace(elastic, may_grow=False, note=note)
    return elastic


def next_look(history: History, now: float, pace: Pace) -> float | None:
    """When a group may do something else than now although nothing has happened; None for never."""
    if history.is_ending:
        return None
    ends = (
        *(_end(history.changed_at, wait) for wait in _cooldowns(history, pace)),
        _end(history.edited_at, pace.freeze),
        _end(history.waits_since, pace.patience),
        _end(history.missed_at, _hold_off(history, pace)),
    )
    return min((end for end in ends if end is not None and end > now), default=None)


def _fixed(elastic: Elastic, note: str) -> Elastic:
    return replace(elastic, is_fixed=True, may_grow=False, may_shrink=False, note=note)


def _without_the_waiting(elastic: Elastic, pace: Pace) -> Elastic:
    """Give up the last members as far as they wait; those before them cannot leave without the others."""
    size = min(elastic.size, len(elastic.places))
    while size and not elastic.places[size - 1]:
        size -= 1
    most = max(elastic.least, min(elastic.most, size))
    return replace(
        elastic, most=most, may_grow=False, note=f"no node took more members for {_time(pace.patience)}"
    )


def _cooldowns(history: History, pace: Pace) -> tuple[float, float]:
    """How long after its last change a group may not grow, and not shrink."""
    if history.starts_anew:
        wait = _doubled(pace.restart_cooldown, history.changes, 5 * pace.restart_cooldown)
        return wait, wait
    if history.changed_by == 0:
        return pace.cooldown, pace.cooldown
    stride = min(pace.stride, pace.cooldown)
    return (stride, pace.cooldown) if history.changed_by > 0 else (pace.cooldown, stride)


def _hold_off(history: History, pace: Pace) -> float:
    return _doubled(pace.hold_off, history.misses, pace.longest_hold_off) if history.misses else 0.0


def _doubled(first: float, times: int, longest: float) -> float:
    """Twice as long each time after the first."""
    return min(first * 2.0 ** min(max(times - 1, 0), 30), longest)


def _end(start: float | None, limit: float) -> float | None:
    return None if start is None else start + limit


def _lasts(start: float | None, limit: float, now: float) -> bool:
    """Whether less than this has passed since then."""
    # By a clock that was put back, or another operator's, it may lie ahead: that must not hold the group for ever.
    return start is not None and now < start + limit and start < now + limit


def _time(seconds: float) -> str:
    return f"{seconds / 60:g} min" if seconds >= 120 and seconds % 60 == 0 else f"{seconds:g} s"
