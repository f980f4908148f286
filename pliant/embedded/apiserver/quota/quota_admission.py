"""The admission plug-in ResourceQuota: refuses objects that exceed a quota, and charges those that it admits."""

from __future__ import annotations

from pliant.embedded.apiserver.admission.plugins import AdmissionRequest, Operation
from pliant.embedded.apiserver.http.errors import forbidden
from pliant.embedded.apiserver.quota.amounts import Amounts, add, describe_amounts, exceeding, select, subtract_to_zero
from pliant.embedded.apiserver.quota.evaluators import Evaluator, is_counted
from pliant.embedded.apiserver.quota.stored_quotas import (
    RESOURCE_QUOTAS_RESOURCE_KEY,
    StoredQuota,
    evaluator_of,
    list_quotas,
)
from pliant.embedded.registry.kinds import Kind
from pliant.embedded.storage.store import Transaction


class QuotaAdmission:
    """Charges objects within the transaction that stores them, so that simultaneous writes cannot exceed a quota."""

    def is_active(self, transaction: Transaction, kind: Kind, namespace: str) -> bool:
        return bool(namespace) and transaction.committed.has_objects(RESOURCE_QUOTAS_RESOURCE_KEY, namespace)

    def mutate(self, request: AdmissionRequest) -> None:
        """Leave the object as it is."""

    def validate(self, request: AdmissionRequest) -> None:
        """Raise `Forbidden` if the object exceeds a quota; otherwise add what it uses to the quotas."""
        if request.obj is None or not is_counted(request.kind):
            return
        evaluator = evaluator_of(request.kind.qualified_name)
        if not evaluator.handles(request):
            return
        quotas = [
            quota
            for quota in list_quotas(request.transaction, request.namespace)
            if _is_charged(quota, evaluator, request)
        ]
        for quota, used in [(quota, _charge(quota, evaluator, request)) for quota in quotas]:
            if used is not None:
                quota.store_usage(request.transaction, used, quota.hard)


def _is_charged(quota: StoredQuota, evaluator: Evaluator, request: AdmissionRequest) -> bool:
    """Return whether a quota limits an object; raise `Forbidden` if it cannot be counted."""
    obj = request.obj or {}
    if not quota.matches(evaluator, obj):
        return False
    names = evaluator.matching_resources(quota.hard)
    if missing := evaluator.find_missing_requests(names, obj):
        raise forbidden(request.kind, request.name, f"failed quota: {quota.name}: {missing}")
    if any(name not in quota.used for name in names):
        detail = f"status unknown for quota: {quota.name}, resources: {','.join(sorted(names))}"
        raise forbidden(request.kind, request.name, detail)
    return True


def _charge(quota: StoredQuota, evaluator: Evaluator, request: AdmissionRequest) -> Amounts | None:
    """Return the usage of a quota with an object; None if it does not change, `Forbidden` if it is too much."""
    requested = select(_added_usage(quota, evaluator, request), quota.hard)
    requested = {name: amount for name, amount in requested.items() if amount.nanos}
    if not requested:
        return None
    used = add(quota.used, requested)
    if exceeded := list(exceeding(select(used, requested), quota.hard)):
        detail = f"exceeded quota: {quota.name}, requested: {describe_amounts(select(requested, exceeded))}"
        detail += f", used: {describe_amounts(select(quota.used, exceeded))}"
        detail += f", limited: {describe_amounts(select(quota.hard, exceeded))}"
        raise forbidden(request.kind, request.name, detail)
    return used


def _added_usage(quota: StoredQuota, evaluator: Evaluator, request: AdmissionRequest) -> Amounts:
    usage = evaluator.usage(request.obj or {})
    if request.operation is Operation.UPDATE and request.old is not None and quota.matches(evaluator, request.old):
        return subtract_to_zero(usage, evaluator.usage(request.old))
    return usage
