"""The input of one decision: the snapshot, the state, and what follows from both."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import cached_property

from pliant.master.brain.state import BrainState
from pliant.master.brain.timing import BrainTiming
from pliant.master.model import (
    JobMember,
    JobSnapshot,
    MasterJobSpec,
    MasterRoleSpec,
    MemberKey,
    MemberPodRequest,
    MemberSlot,
    MemberStatus,
    PodResources,
    ScaleAction,
)

WORKER, CHIEF, EVALUATOR, PS = "worker", "chief", "evaluator", "ps"
TYPES_REQUIRED_FOR_COMPLETION = (CHIEF, WORKER, EVALUATOR)
"""The job completes when these members have; parameter servers do not end by themselves."""
PARAMETER_SERVER_STRATEGY = "ParameterServerStrategy"

RuleResult = tuple[ScaleAction | None, BrainState]  # the result of a rule: an action, or only a new state


@dataclass(frozen=True)
class DecisionContext:
    snapshot: JobSnapshot
    state: BrainState
    timing: BrainTiming

    @property
    def now(self) -> datetime:
        return self.snapshot.now

    @property
    def job(self) -> MasterJobSpec:
        return self.snapshot.job

    def with_state(self, state: BrainState) -> DecisionContext:
        return replace(self, state=state)

    @cached_property
    def unremoved_members(self) -> tuple[JobMember, ...]:
        """All members that the master has not removed."""
        removed = frozenset(self.state.removed_members)
        return tuple(member for member in self.snapshot.members if str(member.key) not in removed)

    @cached_property
    def newest_member_by_slot(self) -> dict[MemberSlot, JobMember]:
        newest: dict[MemberSlot, JobMember] = {}
        for member in self.unremoved_members:
            if member.slot not in newest or newest[member.slot].key.id < member.key.id:
                newest[member.slot] = member
        return newest

    @cached_property
    def required_slots(self) -> tuple[MemberSlot, ...]:
        """All slots that need a member, sorted, without abandoned ones."""
        slots = (parse_slot(text) for text in self.state.newest_ids if text not in self.state.abandoned_slots)
        return tuple(sorted(slots))

    def newest_members_of_type(self, member_type: str, *statuses: MemberStatus) -> list[JobMember]:
        """Return the newest members of a type, by rank, in any of these statuses or in all."""
        members = [
            member
            for slot, member in self.newest_member_by_slot.items()
            if slot.type == member_type and str(slot) not in self.state.abandoned_slots
        ]
        return sorted((m for m in members if not statuses or m.status in statuses), key=lambda m: m.rank)

    def running_members(self, member_type: str) -> list[JobMember]:
        return self.newest_members_of_type(member_type, MemberStatus.RUNNING)

    def may_tune(self, member_type: str) -> bool:
        """Return whether the master may choose sizes and resources of a type."""
        role = self.job.roles.get(member_type)
        return self.job.allows_tuning and role is not None and role.may_scale

    def resources_for(self, member_type: str) -> PodResources:
        return self.state.resources_by_type.get(member_type) or self.role_spec(member_type).resources

    def role_spec(self, member_type: str) -> MasterRoleSpec:
        return self.job.roles.get(member_type) or MasterRoleSpec(type=member_type)

    def has_elapsed(self, since: datetime | None, seconds: float) -> bool:
        """Return whether this time has passed; False if `since` is None."""
        return since is not None and self.now - since >= timedelta(seconds=seconds)

    def build_pod_requests(
        self, resources_by_slot: Iterable[tuple[MemberSlot, PodResources]]
    ) -> tuple[MemberPodRequest, ...]:
        """Return a request for a new member of each slot, with unused ids."""
        ids, pods = dict(self.state.highest_ids), []
        for slot, resources in resources_by_slot:
            ids[slot.type] = ids.get(slot.type, -1) + 1
            pods.append(MemberPodRequest(key=MemberKey(slot.type, ids[slot.type]), rank=slot.rank, resources=resources))
        return tuple(pods)

    def state_with_requested_pods(self, pods: Iterable[MemberPodRequest]) -> BrainState:
        state, pods = self.state, tuple(pods)
        ids = dict(state.highest_ids)
        for pod in pods:
            ids[pod.key.type] = max(ids.get(pod.key.type, -1), pod.key.id)
        newest_ids = {str(MemberSlot(pod.key.type, pod.rank)): pod.key.id for pod in pods}
        requested_at = {**state.observations.requested_at, **{pod.key: self.now for pod in pods}}
        observations = replace(state.observations, requested_at=requested_at)
        newest_ids = {**state.newest_ids, **newest_ids}
        return replace(state, highest_ids=ids, newest_ids=newest_ids, observations=observations)

    def state_without_slots(self, slots: Iterable[MemberSlot]) -> BrainState:
        """Return the state without some slots, whose members count as removed."""
        dropped = set(slots)
        removed = [str(member.key) for member in self.unremoved_members if member.slot in dropped]
        newest_ids = {text: id_ for text, id_ in self.state.newest_ids.items() if parse_slot(text) not in dropped}
        return replace(self.state, newest_ids=newest_ids, removed_members=(*self.state.removed_members, *removed))

    def is_critical_slot(self, slot: MemberSlot) -> bool:
        """Return whether the job fails if this slot has no member."""
        if slot.type == WORKER:
            return slot.rank == 0 and not any(text.startswith(f"{CHIEF}/") for text in self.state.newest_ids)
        return slot.type in (CHIEF, EVALUATOR, PS)


def parse_slot(text: str) -> MemberSlot:
    type_, _, rank = text.rpartition("/")
    return MemberSlot(type_, int(rank))
