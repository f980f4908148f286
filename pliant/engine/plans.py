"""Plans: turned into lists of members one after the other, and forgotten once they are over."""

from __future__ import annotations

from datetime import timedelta

from msgspec.structs import replace

from pliant.engine.case import Case, Turn, turned
from pliant.engine.drafting import Draft, drafted
from pliant.engine.members import OWN_MASTER, apart_from_master, resized_list
from pliant.engine.roster import Place, Standing
from pliant.engine.sizing import RESIZED, wanted_size
from pliant.engine.wording import listing
from pliant.model.job import Job, Steward
from pliant.model.labels import member_name
from pliant.model.observed import Seen
from pliant.model.plans import Plan, PlanPhase
from pliant.model.state import EngineState, GroupState, Phase, Requester, Scaling

SCALING = "Scaling"
"""What carrying out a plan is called in a job's story."""
COURTESY = timedelta(seconds=10)
"""How long a master that reads plans of people itself is given to take one."""


def planned(case: Case) -> Turn | None:
    """Take on the next plan, or have members leave whose successors run by now."""
    return _handed_over(case) or reshaped(case) or _taken_on(case)


def without_finished(state: EngineState, seen: Seen) -> EngineState:
    """The memory without plans that are over or gone."""
    open_plans = {plan.uid for plan in seen.plans if plan.phase is None or not plan.phase.is_final}
    if all(uid in open_plans for uid in state.plans):
        return state
    return replace(state, plans={uid: each for uid, each in state.plans.items() if uid in open_plans})


def given_up(state: EngineState, job: Job, seen: Seen) -> EngineState:
    """The memory without members whose plan has failed before their pods were made, or before they took over."""
    failed = {plan.uid for plan in seen.plans if plan.phase is PlanPhase.FAILED}
    lost = {name for uid, each in state.plans.items() if uid in failed for name in each.pods}
    if not lost:
        return state
    groups = {}
    for group in job.groups:
        memory = state.group(group.name)
        members = {
            index: member
            for index, member in memory.members.items()
            if member_name(job, group.name, index) not in lost or (member.is_made and member.replaces is None)
        }
        if members != memory.members:
            groups[group.name] = replace(memory, members=members)
    return replace(state, groups={**state.groups, **groups}) if groups else state


def reshaped(case: Case) -> Turn | None:
    """Take on sizes that people have set by editing the job; what its master asked for before gives way."""
    if case.state.phase is Phase.SUSPENDED:
        return None
    groups: dict[str, GroupState] = {}
    told = []
    for group in (group for group in case.asked.groups if group.steward is Steward.MASTER):
        memory = case.state.group(group.name)
        size = wanted_size(group, memory)
        if memory.latest not in (Requester.SPEC, Requester.SCALE) or memory.size in (None, size):
            continue
        apart = apart_from_master(case.job.options, is_by_hand=True)
        change = resized_list(memory, case.roster.of(case.job.group(group.name) or group), size, apart=apart)
        groups[group.name] = replace(change.memory, size=size, is_capped=True)
        told.append(f"{group.name} from {memory.size} to {size}")
    if not groups:
        return None
    state = replace(case.state, groups={**case.state.groups, **groups})
    return turned(state, case.now, RESIZED, f"resizing {', '.join(told)} (replicas was edited)", is_warning=False)


def _taken_on(case: Case) -> Turn | None:
    """Write down what the next plan makes of the lists; pods follow."""
    if case.job.is_suspended or case.state.phase is Phase.SUSPENDED or is_busy(case):
        return None
    plan = next_plan(case)
    if plan is None or plan.phase is not PlanPhase.PENDING:
        return None
    draft = drafted(case, plan)
    # If there is nothing to do, its status tells, and the next one has its turn.
    return None if draft.problem or not draft.changes else _begun(case, plan, draft)


def _begun(case: Case, plan: Plan, draft: Draft) -> Turn:
    why = plan.reason or ("by hand" if plan.is_manual else "")
    scaling = Scaling(name=plan.key.name, at=case.now, why=why, pods=draft.pods, removals=draft.removals)
    state = replace(
        case.state,
        groups={**case.state.groups, **draft.groups},
        plans={**case.state.plans, plan.uid: scaling},
        hosts=plan.hosts or case.state.hosts,
    )
    message = f"{plan.key.name}: {listing(draft.changes)}" + (f" ({why})" if why else "")
    return turned(state, case.now, SCALING, message, is_warning=False)


def _handed_over(case: Case) -> Turn | None:
    """Let those go whose successors run; a successor that failed leaves things as they were."""
    groups: dict[str, GroupState] = {}
    told: list[str] = []
    plans = case.state.plans
    for place in case.roster.places:
        member, name = place.rank.member, place.rank.group.name
        if member is None or member.replaces is None or not place.standing.is_up:
            continue
        memory = groups.get(name, case.state.group(name))
        members = {**memory.members, place.rank.index: replace(member, replaces=None)}
        if place.standing is not Standing.FAILED:
            members.pop(member.replaces, None)
            told.append(f"{place.title} takes over from {name}-{member.replaces}")
            plans = _with_removal(case, plans, place)
        groups[name] = replace(memory, members=members)
    if not groups:
        return None
    state = replace(case.state, groups={**case.state.groups, **groups}, plans=plans)
    message = listing(told) if told else "a successor failed: the member it was to replace stays"
    return turned(state, case.now, SCALING, message, is_warning=not told)


def _with_removal(case: Case, plans: dict[str, Scaling], heir: Place) -> dict[str, Scaling]:
    """The plans under way, that of this successor with the pod to go, if the job's master made it itself."""
    old = heir.rank.member.replaces if heir.rank.member else None
    uids = tuple(
        place.pod.uid
        for place in case.roster.of(heir.rank.group)
        if place.pod is not None and place.pod.is_foreign and place.rank.index == old
    )
    return {
        uid: replace(each, removals=(*each.removals, *uids)) if uids and heir.name in each.pods else each
        for uid, each in plans.items()
    }


def next_plan(case: Case) -> Plan | None:
    """The plan whose turn it is: the oldest that is open, and for the operator to carry out."""
    return next((plan for plan in case.seen.plans if _is_open(case, plan) and is_due(case, plan)), None)


def _is_open(case: Case, plan: Plan) -> bool:
    is_over = plan.phase is not None and plan.phase.is_final
    return not is_over and not plan.problem and plan.uid not in case.state.plans


def is_busy(case: Case) -> bool:
    """Whether members of an earlier plan are still to be made or to be sent away.

    Whom the cluster would not let in, and no plan asks for any more, must not be waited for by those that come.
    """
    pods = {name for each in case.state.plans.values() for name in each.pods}
    if any(place.standing is Standing.ABSENT and place.name in pods for place in watched(case)):
        return True
    sent = {uid for each in case.state.plans.values() for uid in each.removals}
    return any(pod.uid in sent and not pod.is_leaving for pod in case.seen.pods)


def watched(case: Case) -> list[Place]:
    """The places of those whom a master looks after."""
    return [place for place in case.roster.places if place.rank.group.steward is Steward.MASTER]


def is_due(case: Case, plan: Plan) -> bool:
    """Whether it is for the operator to carry out, and time for it."""
    if not plan.is_manual or case.job.options.get(OWN_MASTER):
        return True
    return not plan.is_taken and case.now >= plan.created_at + COURTESY
