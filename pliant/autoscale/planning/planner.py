"""Plans the size of every group in the order of a policy's ranking."""

from __future__ import annotations

from pliant.autoscale.model import ClusterSnapshot, SizeDecision, SizeReason
from pliant.autoscale.planning.admission import PendingAdmission
from pliant.autoscale.planning.capacity import LOAD_LIMITED_RESOURCES
from pliant.autoscale.planning.draft import PlanDraft, load_limit_message
from pliant.autoscale.planning.planned_group import PlannedGroup, has_resource_requests
from pliant.autoscale.planning.preemption import PreemptionCandidates, PreemptionRequest
from pliant.autoscale.planning.sharing import ShareAllocator
from pliant.autoscale.ranking import GroupRanking


def draft_plan(cluster: ClusterSnapshot, ranking: GroupRanking) -> PlanDraft:
    draft = PlanDraft(cluster, ranking)
    PendingAdmission(draft).admit_pending()
    for group in draft.groups:
        # A group that was preempted does not wait for the capacity that it gave up.
        if group.keeps_pending_replicas and group.shrink_reason is None:
            _place_pending_replicas(group, draft)
    _shed_overload(draft)
    ShareAllocator(draft).distribute_capacity()
    return draft


def _place_pending_replicas(group: PlannedGroup, draft: PlanDraft) -> None:
    """Place pending replicas of a group that must not shrink where they fit; the others stay pending."""
    while group.min_size <= len(group.replica_nodes) < min(group.elastic.size, group.max_planned_size):
        node = draft.find_node_for_replica(group)
        draft.add_replica(group, draft.capacity.unknown_node if node is None else node)


def _shed_overload(draft: PlanDraft) -> None:
    """Remove replicas of groups whose policy sheds overload until the load limit is respected."""
    capacity, layout = draft.capacity, draft.capacity.layout
    sign_bits = layout.sign_bits(LOAD_LIMITED_RESOURCES)
    if capacity.load_headroom & sign_bits == sign_bits:
        return
    candidates = PreemptionCandidates(group for group in draft.groups if group.sheds_overload)

    def shed_replica(donor: PlannedGroup) -> bool | None:
        exceeded = [name for name in LOAD_LIMITED_RESOURCES if layout.amount_of(capacity.load_headroom, name) < 0]
        relieves = any(name in exceeded for name, _ in donor.footprint.shape.requests)
        if not relieves or not capacity.schedulable_nodes[donor.replica_nodes[-1]]:
            return None
        donor.shrink_reason = donor.shrink_reason or (
            SizeReason.INSUFFICIENT_CAPACITY,
            load_limit_message(exceeded[0], draft.cluster.max_load),
        )
        draft.remove_last_replica(donor)
        return True

    request = PreemptionRequest(max((group.priority for group in draft.groups), default=0))
    while capacity.load_headroom & sign_bits != sign_bits and candidates.try_in_order(request, shed_replica):
        pass


def decide_size(group: PlannedGroup, draft: PlanDraft) -> SizeDecision:
    elastic, size = group.elastic, group.planned_size
    if elastic.is_fixed:
        return SizeDecision(size, SizeReason.FIXED, elastic.restriction_reason or "its size is fixed")
    if not has_resource_requests(elastic):
        reason = "its replicas request no CPU, memory or devices, so the number that fits is unknown"
        return SizeDecision(size, SizeReason.FIXED, reason)
    if size > elastic.size:
        count = size - elastic.size
        return SizeDecision(size, SizeReason.SCALE_UP, f"{count} more {'fits' if count == 1 else 'fit'}")
    if size < elastic.size:
        return SizeDecision(size, *_explain_shrink(group, draft))
    return SizeDecision(size, *_explain_unchanged(group, draft))


def _explain_shrink(group: PlannedGroup, draft: PlanDraft) -> tuple[SizeReason, str]:
    elastic = group.elastic
    if elastic.size > elastic.max_size == group.planned_size:
        detail = f": {elastic.restriction_reason}" if elastic.restriction_reason else ""
        return SizeReason.AT_MAX_SIZE, f"its maximum is {elastic.max_size}{detail}"
    if group.beneficiaries and not group.shrink_reason:
        others = min(group.beneficiaries) if len(group.beneficiaries) == 1 else f"{len(group.beneficiaries)} others"
        return SizeReason.REBALANCED, f"shares capacity with {others}"
    return group.shrink_reason or draft.explain_no_growth(group)


def _explain_unchanged(group: PlannedGroup, draft: PlanDraft) -> tuple[SizeReason, str]:
    elastic = group.elastic
    if len(group.replica_nodes) < group.min_size:
        missing = group.min_size - len(group.replica_nodes)
        size_reason, reason = draft.explain_no_growth(group)
        return size_reason, f"{missing} of the minimum {group.min_size} replicas cannot be scheduled: {reason}"
    if group.planned_size >= elastic.max_size:
        return SizeReason.AT_MAX_SIZE, f"has {group.planned_size}, its maximum"
    if not elastic.may_grow and group.planned_size >= group.max_planned_size:
        return SizeReason.STABILIZING, elastic.restriction_reason or "it cannot grow now"
    return draft.explain_no_growth(group)
