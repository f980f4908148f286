"""What has become of each group so far, and what it may do on that account."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from pliant.autoscale.model import Elastic, GroupKey
from pliant.autoscale.pacing import History, Pace, next_look, paced
from pliant.controllers.autoscale.picture import Drawn
from pliant.model.state import EngineState, Requester

MEASURING = 90.0
"""Seconds that a group has, once all its members run, to tell how fast it is before it grows.

Reports show every 30 seconds, and it takes two of them to tell a speed.
"""


class Chronicle:
    """The histories of groups; that of one it has not met begins with what its job's memory tells."""

    def __init__(self, pace: Pace) -> None:
        self._pace = pace
        self._histories: dict[GroupKey, History] = {}
        self._measured_from: dict[GroupKey, float] = {}
        """Since when groups run whose speed nobody knows yet."""

    def paced(self, drawn: Drawn, state: EngineState, ordered: int | None, now: float) -> Elastic:
        """The group with what it may do now; a size that was ordered and not yet taken on counts as its own."""
        elastic = drawn.elastic
        if ordered is not None:
            elastic = replace(elastic, size=ordered, places=elastic.places[:ordered])
        history = self._histories.get(elastic.key) or _beginning(elastic.key.group, state)
        history = replace(history, starts_anew=drawn.starts_anew, edited_at=_edited_at(elastic.key.group, state))
        is_up = drawn.is_up and ordered is None
        history = history.seen(elastic, is_up=is_up, is_ending=drawn.is_ending, now=now)
        self._histories[elastic.key] = history
        return paced(elastic, history, now, self._pace)

    def measured(self, elastic: Elastic, drawn: Drawn, now: float) -> Elastic:
        """The group, which does not grow before it had time to tell how fast it is."""
        if elastic.speeds:
            self._measured_from.pop(elastic.key, None)
            return elastic
        if drawn.is_up and now >= self._measured_from.setdefault(elastic.key, now) + MEASURING:
            return elastic
        note = elastic.note or "how fast it is at this size has to be known first"
        return replace(elastic, may_grow=False, note=note)

    def resized(self, key: GroupKey, by: int, now: float) -> None:
        """Take in that a group was told to have so many members more, or fewer if below 0."""
        self._histories[key] = self._histories.get(key, History()).resized(by, now)

    def next_look(self, now: float) -> float | None:
        """When some group may do something else than now although nothing has happened."""
        looks = [next_look(history, now, self._pace) for history in self._histories.values()]
        looks += [since + MEASURING for since in self._measured_from.values() if since + MEASURING > now]
        return min((look for look in looks if look is not None), default=None)

    def keep(self, keys: Iterable[GroupKey]) -> None:
        """Forget all other groups."""
        kept = set(keys)
        self._histories = {key: each for key, each in self._histories.items() if key in kept}
        self._measured_from = {key: at for key, at in self._measured_from.items() if key in kept}


def _beginning(group: str, state: EngineState) -> History:
    order = state.group(group).requests.get(Requester.AUTOSCALER)
    return History(changed_at=order.at.timestamp() if order else None)


def _edited_at(group: str, state: EngineState) -> float | None:
    """When somebody set the size by hand; what a job was made with is no edit."""
    requests = state.group(group).requests.items()
    edits = [each.at for who, each in requests if who is not Requester.AUTOSCALER and each.at > state.started_at]
    return max(edits).timestamp() if edits else None
