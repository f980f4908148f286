"""Who takes up how much of which node, kept from one change to the next; never counted anew."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from enum import Enum
from typing import NamedTuple

from pliant.controllers.autoscale.shapes import Needs, Shapes
from pliant.controllers.autoscale.views import AnyPod

LATE = timedelta(seconds=30)
"""How long a pod may stay after it should be gone before nobody counts on its room any more."""

_NOBODY: Mapping[tuple[str, int], AnyPod] = {}


class News(Enum):
    """What a change means for plans."""

    NONE = 0
    ROOM = 1
    """There is more room, or less."""
    NEED = 2
    """Somebody waits for room, or a member has come up: the next one may follow."""


class Seat(NamedTuple):
    """A node, and what a pod takes up of it."""

    node: str
    needs: Needs


class Ledger:
    """What is known of all pods of a cluster, as far as room is concerned."""

    def __init__(self, shapes: Shapes) -> None:
        self.waiting: dict[str, AnyPod] = {}
        """Pods without a node, by uid."""
        self.leaving: dict[str, AnyPod] = {}
        """Pods that are about to give up their room."""
        self.seats: dict[str, Seat] = {}
        """Where each pod sits that takes up room, by uid."""
        self.used: dict[str, dict[str, int]] = {}
        """What is taken of each node."""
        self.asked: dict[str, dict[str, int]] = {}
        """What all pods of each namespace ask for that have not ended, whether or not they sit anywhere."""
        self._shapes = shapes
        self._members: dict[str, dict[tuple[str, int], AnyPod]] = {}
        self._asking: dict[str, tuple[str, Needs]] = {}

    def members(self, owner: str) -> Mapping[tuple[str, int], AnyPod]:
        """The pods of a job, by the label of their group and their index."""
        return self._members.get(owner, _NOBODY)

    def changed(self, old: AnyPod | None, new: AnyPod | None) -> News:
        """Take in what became of a pod."""
        if old is not None and (new is None or new.metadata.uid != old.metadata.uid):
            news = self._forget(old)
            return news if new is None else max(news, self._note(None, new), key=lambda each: each.value)
        return News.NONE if new is None else self._note(old, new)

    def lingering(self, now: datetime) -> Iterable[AnyPod]:
        """Pods whose room is as good as free: they have been told to go, and are not late."""
        for pod in self.leaving.values():
            due = pod.metadata.deletion_timestamp
            if due is not None and now < due + LATE:
                yield pod

    def _note(self, old: AnyPod | None, new: AnyPod) -> News:
        uid, spec = new.metadata.uid, new.spec
        needs = self._shapes.needs(spec)
        seat = Seat(spec.node_name, needs) if spec.node_name and not new.is_finished else None
        before = self.seats.get(uid)
        if seat != before:
            self._sit(uid, before, seat)
        self._ask(uid, new.metadata.namespace, None if new.is_finished else needs)
        was_waiting = uid in self.waiting
        _keep(self.waiting, new, new.waits)
        _keep(self.leaving, new, new.is_leaving and seat is not None)
        self._file(new)
        if new.waits and (not was_waiting or old is None or _signs(old) != _signs(new)):
            return News.NEED
        if old is not None and old.status.phase != new.status.phase and _member(new) is not None:
            return News.NEED
        is_other = old is None or (seat, was_waiting) != (before, new.waits) or old.is_leaving != new.is_leaving
        return News.ROOM if is_other else News.NONE

    def _forget(self, pod: AnyPod) -> News:
        uid = pod.metadata.uid
        before = self.seats.get(uid)
        was_waiting = self.waiting.pop(uid, None) is not None
        self.leaving.pop(uid, None)
        self._sit(uid, before, None)
        self._ask(uid, pod.metadata.namespace, None)
        if (place := _member(pod)) is not None:
            owner, key = place
            members = self._members.get(owner, {})
            if key in members and members[key].metadata.uid == uid:
                del members[key]
            if not members:
                self._members.pop(owner, None)
        return News.ROOM if before is not None or was_waiting else News.NONE

    def _sit(self, uid: str, before: Seat | None, after: Seat | None) -> None:
        if before is not None:
            _add(self.used, before.node, before.needs, -1)
            del self.seats[uid]
        if after is not None:
            _add(self.used, after.node, after.needs, 1)
            self.seats[uid] = after

    def _ask(self, uid: str, namespace: str, needs: Needs | None) -> None:
        before = self._asking.get(uid)
        if before is not None and before[1] is not needs:
            _add(self.asked, before[0], before[1], -1)
            del self._asking[uid]
        if needs is not None and (before is None or before[1] is not needs):
            _add(self.asked, namespace, needs, 1)
            self._asking[uid] = namespace, needs

    def _file(self, pod: AnyPod) -> None:
        if (place := _member(pod)) is not None:
            owner, key = place
            self._members.setdefault(owner, {})[key] = pod


def owner_of_member(pod: AnyPod | None) -> str:
    """The uid of the job that a pod is a member of; empty if it is of none."""
    place = _member(pod) if pod is not None else None
    return place[0] if place else ""


def _member(pod: AnyPod) -> tuple[str, tuple[str, int]] | None:
    """The job, the group and the index of a pod that is a member."""
    label, owner = pod.metadata.labels, pod.owner
    if owner is None or not label.group or not label.index.isdecimal():
        return None
    return owner.uid, (label.group, int(label.index))


def _signs(pod: AnyPod) -> tuple[bool, bool]:
    return pod.waits, pod.needs_more_than_room


def _keep(pods: dict[str, AnyPod], pod: AnyPod, belongs: bool) -> None:
    if belongs:
        pods[pod.metadata.uid] = pod
    else:
        pods.pop(pod.metadata.uid, None)


def _add(sums: dict[str, dict[str, int]], key: str, needs: Needs, sign: int) -> None:
    total = sums.setdefault(key, {})
    for name, number in needs:
        left = total.get(name, 0) + sign * number
        if left:
            total[name] = left
        else:
            total.pop(name, None)
    if not total:
        del sums[key]
