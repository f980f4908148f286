"""How big every group should be, by whichever order a policy puts them in."""

from __future__ import annotations

from pliant.autoscale.model import ClusterSnapshot, SizeDecision, SizePlan, SizeReason
from pliant.autoscale.planning.admission import PendingAdmission
from pliant.autoscale.planning.capacity import LOAD_LIMITED_RESOURCES
from pliant.autoscale.planning.draft import PlanDraft, load_limit_message
from pliant.autoscale.planning.messages import format_count
from pliant.autoscale.planning.planned_group import PlannedGroup, has_resource_requests
from pliant.autoscale.planning.preemption import PreemptionCandidates, PreemptionRequest
from pliant.autoscale.planning.sharing import ShareAllocator
from pliant.autoscale.ranking import GroupRanking


def plan_cluster(cluster: ClusterSnapshot, ranking: GroupRanking) -> SizePlan:
    """A verdict on every group."""
    draft = draft_plan(cluster, ranking)
    return {crew.elastic.key: decide_size(crew, draft) for crew in draft.groups}


def draft_plan(cluster: ClusterSnapshot, ranking: GroupRanking) -> PlanDraft:
    """Where everybody would sit if all went as planned."""
    draft = PlanDraft(cluster, ranking)
    PendingAdmission(draft).admit_pending()
    for crew in draft.groups:
        if (
            crew.keeps_pending_replicas and crew.shrink_reason is None
        ):  # who has given way does not wait for what it gave
            _place_pending_replicas(crew, draft)
    _shed_overload(draft)
    ShareAllocator(draft).balance()
    return draft


def _place_pending_replicas(group: PlannedGroup, draft: PlanDraft) -> None:
    """Seat the members of a group that must not shrink where there is room; the others go on waiting."""
    while group.min_size <= len(group.replica_nodes) < min(group.elastic.size, group.max_planned_size):
        node = draft.find_node(group)
        draft.add_replica(group, draft.capacity.unknown_node if node is None else node)


def _shed_overload(draft: PlanDraft) -> None:
    """Have members leave where more is given away than may be, of groups whose policy wants that."""
    floor, lanes = draft.capacity, draft.capacity.layout
    signs = lanes.sign_bits(LOAD_LIMITED_RESOURCES)
    if floor.load_headroom & signs == signs:
        return
    givers = PreemptionCandidates(crew for crew in draft.groups if crew.sheds_overload)

    def gives(giver: PlannedGroup) -> bool | None:
        over = [name for name in LOAD_LIMITED_RESOURCES if lanes.amount_of(floor.load_headroom, name) < 0]
        if not floor.schedulable_nodes[giver.replica_nodes[-1]] or not any(
            name in over for name, _ in giver.footprint.shape.requests
        ):
            return None
        giver.shrink_reason = giver.shrink_reason or (
            SizeReason.NO_CAPACITY,
            load_limit_message(over[0], draft.cluster.max_load),
        )
        draft.remove_last_replica(giver)
        return True

    everybody = PreemptionRequest(max((crew.priority for crew in draft.groups), default=0))
    while floor.load_headroom & signs != signs and givers.find_first(everybody, gives):
        pass


def decide_size(group: PlannedGroup, draft: PlanDraft) -> SizeDecision:
    """The size of a group as planned, and why."""
    elastic, size = group.elastic, group.planned_size
    if elastic.is_fixed:
        return SizeDecision(size, SizeReason.FIXED, elastic.restriction_reason or "its size must stay what it is")
    if not has_resource_requests(elastic):
        why = "its members ask for no CPU, memory or device, so nobody can tell how many fit"
        return SizeDecision(size, SizeReason.FIXED, why)
    if size > elastic.size:
        return SizeDecision(size, SizeReason.SCALE_UP, _growth_message(size - elastic.size))
    if size < elastic.size:
        return SizeDecision(size, *_explain_shrink(group, draft))
    return SizeDecision(size, *_explain_unchanged(group, draft))


def _growth_message(count: int) -> str:
    return f"{count} more {'fits' if count == 1 else 'fit'}"


def _explain_shrink(group: PlannedGroup, draft: PlanDraft) -> tuple[SizeReason, str]:
    elastic = group.elastic
    if elastic.size > elastic.max_size == group.planned_size:
        return SizeReason.AT_MAX_SIZE, f"may have {elastic.max_size} at most" + (
            f": {elastic.restriction_reason}" if elastic.restriction_reason else ""
        )
    if group.beneficiaries and not group.shrink_reason:
        others = min(group.beneficiaries) if len(group.beneficiaries) == 1 else f"{len(group.beneficiaries)} others"
        return SizeReason.REBALANCED, f"shares with {others}"
    return group.shrink_reason or draft.explain_no_growth(group)


def _explain_unchanged(group: PlannedGroup, draft: PlanDraft) -> tuple[SizeReason, str]:
    elastic = group.elastic
    if len(group.replica_nodes) < group.min_size:
        missing = group.min_size - len(group.replica_nodes)
        code, why = draft.explain_no_growth(group)
        return code, f"{format_count(missing, 'member')} of the least {group.min_size} cannot come: {why}"
    if group.planned_size >= elastic.max_size:
        return SizeReason.AT_MAX_SIZE, f"has {group.planned_size}, the most it may have"
    if not elastic.may_grow and group.planned_size >= group.max_planned_size:
        return SizeReason.STABILIZING, elastic.restriction_reason or "it may not grow now"
    return draft.explain_no_growth(group)
