"""One decision's worth of facts: the picture, the memory, and what follows from both."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import cached_property

from pliant.master.brain.state import BrainState, MemberSlot
from pliant.master.brain.timing import BrainTiming
from pliant.master.model import (
    JobMember,
    JobSnapshot,
    MasterJobSpec,
    MasterRoleSpec,
    MemberKey,
    MemberStatus,
    PodResources,
    ScaleAction,
)

WORKER, CHIEF, EVALUATOR, PS = "worker", "chief", "evaluator", "ps"
COMPLETING_TYPES = (CHIEF, WORKER, EVALUATOR)
"""Whose end is the job's; parameter servers never end by themselves."""
PARAMETER_SERVER_STRATEGY = "ParameterServerStrategy"

RuleResult = tuple[ScaleAction | None, BrainState]
"""What a remedy answers: a step to take, or only something to remember."""


@dataclass(frozen=True)
class DecisionContext:
    """What one decision is made upon."""

    snapshot: JobSnapshot
    state: BrainState
    timing: BrainTiming

    @property
    def now(self) -> datetime:
        """The moment of the decision."""
        return self.snapshot.now

    @property
    def job(self) -> MasterJobSpec:
        """What the author wrote."""
        return self.snapshot.job

    def with_state(self, state: BrainState) -> DecisionContext:
        """The same, remembered otherwise."""
        return replace(self, state=state)

    @cached_property
    def members(self) -> tuple[JobMember, ...]:
        """Everybody who was not sent away."""
        gone = frozenset(self.state.removed_members)
        return tuple(node for node in self.snapshot.members if str(node.key) not in gone)

    @cached_property
    def member_by_slot(self) -> dict[MemberSlot, JobMember]:
        """The newest member at each place."""
        newest: dict[MemberSlot, JobMember] = {}
        for node in self.members:
            place = MemberSlot(node.key.type, node.rank)
            if place not in newest or newest[place].key.id < node.key.id:
                newest[place] = node
        return newest

    @cached_property
    def required_slots(self) -> tuple[MemberSlot, ...]:
        """Every place that is to be held, the given-up ones left out, in order."""
        return tuple(
            sorted(parse_slot(text) for text in self.state.newest_ids if text not in self.state.abandoned_slots)
        )

    def members_of_type(self, member_type: str, *statuses: MemberStatus) -> list[JobMember]:
        """Who holds the places of a type, if they are in one of these states, in order of rank."""
        found = [
            node
            for place, node in self.member_by_slot.items()
            if place.type == member_type and str(place) not in self.state.abandoned_slots
        ]
        return sorted((node for node in found if not statuses or node.status in statuses), key=lambda n: n.rank)

    def running_members(self, member_type: str) -> list[JobMember]:
        """The members of a type that are at work."""
        return self.members_of_type(member_type, MemberStatus.RUNNING)

    def may_tune(self, member_type: str) -> bool:
        """Whether the master may choose what the author left open for a type, or asked it to see to."""
        role = self.job.roles.get(member_type)
        return self.job.allows_tuning and role is not None and role.may_scale

    def resources_for(self, member_type: str) -> PodResources:
        """What a new member of a type asks for."""
        return self.state.resources_by_type.get(member_type) or self.role_spec(member_type).resources

    def role_spec(self, member_type: str) -> MasterRoleSpec:
        """What the author said of a type, if anything."""
        return self.job.roles.get(member_type) or MasterRoleSpec(type=member_type)

    def has_elapsed(self, since: datetime | None, seconds: float) -> bool:
        """Whether this long has passed since then; never if there is no then."""
        return since is not None and self.now - since >= timedelta(seconds=seconds)

    def allocate_keys(self, member_types: Iterable[str]) -> list[MemberKey]:
        """A key nobody had before, for each of these types in turn."""
        ids, keys = dict(self.state.highest_ids), []
        for type_ in member_types:
            ids[type_] = ids.get(type_, -1) + 1
            keys.append(MemberKey(type_, ids[type_]))
        return keys

    def state_without_slots(self, slots: Iterable[MemberSlot]) -> BrainState:
        """The memory without some places: whoever is still to be seen there, or fell there, is dismissed."""
        gone = set(slots)
        names = {str(place) for place in gone}
        there = [str(node.key) for node in self.members if MemberSlot(node.key.type, node.rank) in gone]
        members = {place: id_ for place, id_ in self.state.newest_ids.items() if place not in names}
        return replace(self.state, newest_ids=members, removed_members=(*self.state.removed_members, *there))

    def is_critical_slot(self, slot: MemberSlot) -> bool:
        """Whether the job cannot do without whoever holds this place."""
        if slot.type == WORKER:
            return slot.rank == 0 and not any(text.startswith(f"{CHIEF}/") for text in self.state.newest_ids)
        return slot.type in (CHIEF, EVALUATOR, PS)


def parse_slot(text: str) -> MemberSlot:
    """A place as it was printed."""
    type_, _, rank = text.rpartition("/")
    return MemberSlot(type_, int(rank))
