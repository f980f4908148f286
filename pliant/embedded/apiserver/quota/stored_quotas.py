"""Stored ResourceQuotas, and the evaluators of the kinds whose objects they limit."""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from pliant.embedded.apiserver.quota.amounts import Amounts, format_amounts, parse_amounts
from pliant.embedded.apiserver.quota.evaluators import ClaimEvaluator, Evaluator, Requirement, ServiceEvaluator
from pliant.embedded.apiserver.quota.pod_evaluator import PodEvaluator
from pliant.embedded.storage.store import Transaction
from pliant.embedded.storage.stored_objects import Object, StoredObject

RESOURCE_QUOTAS_RESOURCE_KEY: Final = "/resourcequotas"
SPECIAL_EVALUATORS: Final[dict[str, Evaluator]] = {
    "pods": PodEvaluator(),
    "services": ServiceEvaluator(),
    "persistentvolumeclaims": ClaimEvaluator(),
}


@lru_cache(maxsize=512)
def evaluator_of(qualified_name: str) -> Evaluator:
    """Return the evaluator of a resource, such as `pods` or `pytorchjobs.kubeflow.org`."""
    return SPECIAL_EVALUATORS.get(qualified_name) or Evaluator(qualified_name)


class StoredQuota:
    """A ResourceQuota in a transaction."""

    def __init__(self, record: StoredObject) -> None:
        self._obj = record.decode()
        spec, status = self._obj.get("spec") or {}, self._obj.get("status") or {}
        self.name: str = record.key.name
        self.spec_hard = parse_amounts(spec.get("hard"))
        self.has_status = "hard" in status and "used" in status
        self.hard = parse_amounts(status.get("hard"))
        """The limits in effect, those of the status."""
        self.used = parse_amounts(status.get("used"))
        self.requirements: list[Requirement] = [
            *({"scopeName": scope, "operator": "Exists"} for scope in spec.get("scopes") or ()),
            *((spec.get("scopeSelector") or {}).get("matchExpressions") or ()),
        ]

    def matches(self, evaluator: Evaluator, obj: Object) -> bool:
        """Return whether the quota limits an object: one of its resources, and all its scopes."""
        return bool(evaluator.matching_resources(self.hard)) and self.is_in_scope(evaluator, obj)

    def is_in_scope(self, evaluator: Evaluator, obj: Object) -> bool:
        return all(evaluator.matches_scope(requirement, obj) for requirement in self.requirements)

    def store_usage(self, transaction: Transaction, used: Amounts, hard: Amounts) -> None:
        """Store the usage in the status, with the limits that are in effect from now on."""
        status = {"hard": format_amounts(hard), "used": format_amounts(used)}
        transaction.put(RESOURCE_QUOTAS_RESOURCE_KEY, {**self._obj, "status": status})


def list_quotas(transaction: Transaction, namespace: str) -> list[StoredQuota]:
    return [StoredQuota(record) for record in transaction.list_objects(RESOURCE_QUOTAS_RESOURCE_KEY, namespace)]
