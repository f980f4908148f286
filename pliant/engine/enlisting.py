"""Pods that a plan names: who joins, who leaves, who gives way. However many they are, each is looked up once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from pliant.engine.members import OUT, Change, joined, sent_away
from pliant.engine.roster import Place
from pliant.model.plans import PodRequest
from pliant.model.state import GroupState, Member


class Enrolled:
    """The members of one group, found by name, by id and by rank."""

    def __init__(self, places: Iterable[Place]) -> None:
        self._by_name: dict[str, list[Place]] = {}
        self._by_id: dict[int, list[Place]] = {}
        self._by_rank: dict[int, list[Place]] = {}
        for place in places:
            self._by_name.setdefault(place.name, []).append(place)
            self._by_id.setdefault(place.rank.index, []).append(place)
            if place.rank.member is not None:
                self._by_rank.setdefault(place.rank.member.rank, []).append(place)

    def has(self, index: int) -> bool:
        """Whether somebody has this id."""
        return index in self._by_id

    def at(self, rank: int | None) -> list[Place]:
        """All who hold a rank."""
        return self._by_rank.get(rank, []) if rank is not None else []

    def meant(self, pod: PodRequest) -> list[Place]:
        """Whom a plan means: by name, else by id, else by rank."""
        if pod.name and (found := self._by_name.get(pod.name)):
            return found
        if pod.id is not None and (found := self._by_id.get(pod.id)):
            return found
        return [] if pod.name else self.at(pod.rank)


def created(enrolled: Enrolled, memory: GroupState, pods: Iterable[PodRequest]) -> tuple[Change, list[str]]:
    """So many more; one that is there already is no news."""
    members, holders, next_id = dict(memory.members), dict(memory.holders), memory.next_id
    added: list[int] = []
    told: list[str] = []
    for pod in pods:
        if pod.id is not None and (pod.id in members or enrolled.has(pod.id)):
            continue
        index = next_id if pod.id is None else pod.id
        rank = index if pod.rank is None else pod.rank
        before = [each.rank.member.relaunches for each in enrolled.at(rank) if each.rank.member is not None]
        relaunches = max([*before, holders.get(rank, -1)]) + 1
        members[index] = Member(
            rank=rank,
            service=pod.service,
            port=pod.port,
            resource=dict(pod.resource) or memory.resource,
            relaunches=relaunches,
        )
        holders[rank], next_id = relaunches, max(next_id, index + 1)
        added.append(index)
        told.append(f"{pod.group}-{index} joins at rank {rank}")
    after = replace(memory, members=members, holders=holders, next_id=next_id) if added else memory
    return Change(memory=after, added=tuple(added)), told


def removed(enrolled: Enrolled, memory: GroupState, pods: Iterable[PodRequest]) -> tuple[Change, list[str]]:
    """Without these; those who left before are no news."""
    meant = {place.name: place for pod in pods for place in enrolled.meant(pod)}
    leaving = [place for place in meant.values() if _is_there(place, memory)]
    return sent_away(memory, leaving), [f"{place.title} leaves" for place in leaving]


def migrated(
    enrolled: Enrolled, memory: GroupState, pods: Sequence[PodRequest], apart: int
) -> tuple[Change, list[str]]:
    """A successor for each, who stays until it runs."""
    taken = {member.replaces for member in memory.members.values()}
    heirs: list[Member] = []
    told: list[str] = []
    for pod in pods:
        # Some plans name the one that gives way, others the one that comes: a rank is held by the former.
        meant = enrolled.meant(pod) or enrolled.at(pod.rank)
        place = next((place for place in meant if place.standing not in OUT), None)
        if place is None or place.rank.index in taken:
            continue
        old = place.rank.member or Member(rank=place.rank.index)
        resource = {**old.resource, **pod.resource}
        heirs.append(
            Member(rank=old.rank, resource=resource, relaunches=old.relaunches, replaces=place.rank.index)
        )
        taken.add(place.rank.index)
        told.append(place.title)
    if not heirs:
        return Change(memory=memory), []
    change = joined(memory, heirs, apart)
    group = pods[0].group
    return change, [
        f"{title} gives way to {group}-{index}" for title, index in zip(told, change.added, strict=True)
    ]


def _is_there(place: Place, memory: GroupState) -> bool:
    """Whether a member is still to be sent away: one that has been, or is leaving, is not."""
    if place.pod is not None and place.pod.is_foreign:
        return not place.pod.is_leaving
    return place.rank.index in memory.members
