"""The resize history of each group, and the restrictions that follow from it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from pliant.autoscale.cooldowns import GroupScaleHistory, ResizeCooldowns, next_cooldown_end, with_cooldown_restrictions
from pliant.autoscale.model import ElasticGroup, GroupKey
from pliant.controllers.autoscale.snapshot import GroupSnapshot
from pliant.model.state import EngineState, SizeRequester

MAX_MEASUREMENT_WAIT_SECONDS = 90.0
"""Seconds that a group has to report its throughput, once all replicas run, before it may grow without.

Reports are written every 30 seconds, and a measurement needs two of them.
"""


class ScaleHistory:
    """The resize histories of groups; a new history starts from the job's engine state."""

    def __init__(self, cooldowns: ResizeCooldowns) -> None:
        self._cooldowns = cooldowns
        self._histories: dict[GroupKey, GroupScaleHistory] = {}
        self._measured_since: dict[GroupKey, float] = {}  # since when groups with unknown throughput have been running

    def with_cooldowns(
        self, snapshot: GroupSnapshot, state: EngineState, unadopted_size: int | None, now: float
    ) -> ElasticGroup:
        """Return the group with its restrictions; a recommended size counts as its size before it is adopted."""
        elastic = snapshot.elastic
        if unadopted_size is not None:
            elastic = replace(elastic, size=unadopted_size, replica_nodes=elastic.replica_nodes[:unadopted_size])
        history = self._histories.get(elastic.key) or _initial_history(elastic.key.group, state)
        history = replace(
            history,
            restarts_on_resize=snapshot.restarts_on_resize,
            manually_edited_at=_last_manual_edit(elastic.key.group, state),
        )
        is_fully_running = snapshot.is_fully_running and unadopted_size is None
        history = history.with_observation(
            elastic, is_fully_running=is_fully_running, is_finishing=snapshot.is_finishing, now=now
        )
        self._histories[elastic.key] = history
        return with_cooldown_restrictions(elastic, history, now, self._cooldowns)

    def hold_growth_until_measured(self, elastic: ElasticGroup, snapshot: GroupSnapshot, now: float) -> ElasticGroup:
        """Return the group; it may not grow before its throughput was measured or the measurement period is over."""
        if elastic.throughputs:
            self._measured_since.pop(elastic.key, None)
            return elastic
        if (
            snapshot.is_fully_running
            and now >= self._measured_since.setdefault(elastic.key, now) + MAX_MEASUREMENT_WAIT_SECONDS
        ):
            return elastic
        reason = elastic.restriction_reason or "its throughput at this size must be measured first"
        return replace(elastic, may_grow=False, restriction_reason=reason)

    def record_resize(self, key: GroupKey, delta: int, now: float) -> None:
        self._histories[key] = self._histories.get(key, GroupScaleHistory()).with_resize(delta, now)

    def next_replan_at(self, now: float) -> float | None:
        times = [next_cooldown_end(history, now, self._cooldowns) for history in self._histories.values()]
        times += [
            since + MAX_MEASUREMENT_WAIT_SECONDS
            for since in self._measured_since.values()
            if since + MAX_MEASUREMENT_WAIT_SECONDS > now
        ]
        return min((time for time in times if time is not None), default=None)

    def retain_only(self, keys: Iterable[GroupKey]) -> None:
        retained = set(keys)
        self._histories = {key: each for key, each in self._histories.items() if key in retained}
        self._measured_since = {key: at for key, at in self._measured_since.items() if key in retained}


def _initial_history(group_name: str, state: EngineState) -> GroupScaleHistory:
    request = state.group(group_name).size_requests.get(SizeRequester.AUTOSCALER)
    return GroupScaleHistory(last_resized_at=request.at.timestamp() if request else None)


def _last_manual_edit(group_name: str, state: EngineState) -> float | None:
    """Return when a user last changed the size; the initial size is no edit."""
    requests = state.group(group_name).size_requests.items()
    edits = [
        each.at
        for requester, each in requests
        if requester is not SizeRequester.AUTOSCALER and each.at > state.aligned_started_at
    ]
    return max(edits).timestamp() if edits else None
