"""What has become of each group so far, and what it may do on that account."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from pliant.autoscale.cooldowns import GroupScaleHistory, ResizeCooldowns, next_cooldown_end, with_cooldowns
from pliant.autoscale.model import ElasticGroup, GroupKey
from pliant.controllers.autoscale.snapshot import GroupSnapshot
from pliant.model.state import EngineState, SizeRequester

MEASUREMENT_PERIOD = 90.0
"""Seconds that a group has, once all its members run, to tell how fast it is before it grows.

Reports show every 30 seconds, and it takes two of them to tell a speed.
"""


class ScaleHistory:
    """The histories of groups; that of one it has not met begins with what its job's memory tells."""

    def __init__(self, cooldowns: ResizeCooldowns) -> None:
        self._cooldowns = cooldowns
        self._histories: dict[GroupKey, GroupScaleHistory] = {}
        self._measured_since: dict[GroupKey, float] = {}
        """Since when groups run whose speed nobody knows yet."""

    def with_cooldowns(
        self, snapshot: GroupSnapshot, state: EngineState, pending_size: int | None, now: float
    ) -> ElasticGroup:
        """The group with what it may do now; a size that was ordered and not yet taken on counts as its own."""
        elastic = snapshot.elastic
        if pending_size is not None:
            elastic = replace(elastic, size=pending_size, replica_nodes=elastic.replica_nodes[:pending_size])
        history = self._histories.get(elastic.key) or _initial_history(elastic.key.group, state)
        history = replace(
            history,
            restarts_on_resize=snapshot.restarts_on_resize,
            manually_edited_at=_last_manual_edit(elastic.key.group, state),
        )
        is_up = snapshot.is_fully_running and pending_size is None
        history = history.with_observation(elastic, is_fully_running=is_up, is_finishing=snapshot.is_finishing, now=now)
        self._histories[elastic.key] = history
        return with_cooldowns(elastic, history, now, self._cooldowns)

    def hold_until_measured(self, elastic: ElasticGroup, snapshot: GroupSnapshot, now: float) -> ElasticGroup:
        """The group, which does not grow before it had time to tell how fast it is."""
        if elastic.throughputs:
            self._measured_since.pop(elastic.key, None)
            return elastic
        if snapshot.is_fully_running and now >= self._measured_since.setdefault(elastic.key, now) + MEASUREMENT_PERIOD:
            return elastic
        note = elastic.restriction_reason or "how fast it is at this size has to be known first"
        return replace(elastic, may_grow=False, restriction_reason=note)

    def record_resize(self, key: GroupKey, delta: int, now: float) -> None:
        """Take in that a group was told to have so many members more, or fewer if below 0."""
        self._histories[key] = self._histories.get(key, GroupScaleHistory()).with_resize(delta, now)

    def next_replan_at(self, now: float) -> float | None:
        """When some group may do something else than now although nothing has happened."""
        looks = [next_cooldown_end(history, now, self._cooldowns) for history in self._histories.values()]
        looks += [
            since + MEASUREMENT_PERIOD for since in self._measured_since.values() if since + MEASUREMENT_PERIOD > now
        ]
        return min((look for look in looks if look is not None), default=None)

    def retain_only(self, keys: Iterable[GroupKey]) -> None:
        """Forget all other groups."""
        kept = set(keys)
        self._histories = {key: each for key, each in self._histories.items() if key in kept}
        self._measured_since = {key: at for key, at in self._measured_since.items() if key in kept}


def _initial_history(group_name: str, state: EngineState) -> GroupScaleHistory:
    order = state.group(group_name).size_requests.get(SizeRequester.AUTOSCALER)
    return GroupScaleHistory(resized_at=order.at.timestamp() if order else None)


def _last_manual_edit(group_name: str, state: EngineState) -> float | None:
    """When somebody set the size by hand; what a job was made with is no edit."""
    requests = state.group(group_name).size_requests.items()
    edits = [each.at for who, each in requests if who is not SizeRequester.AUTOSCALER and each.at > state.started_at]
    return max(edits).timestamp() if edits else None
