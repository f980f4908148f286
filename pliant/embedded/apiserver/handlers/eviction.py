"""Evictions: a pod is asked to leave, unless another one is meant or a budget says that too many would be gone."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pliant.embedded.apiserver.admission.disruption_budgets import (
    ALWAYS_ALLOW,
    DISRUPTION_BUDGETS,
    DisruptionBudgetStatus,
    label_selector_matches,
)
from pliant.embedded.apiserver.handlers.deletion import parse_delete_options, require_deletable
from pliant.embedded.apiserver.handlers.object_lifecycle import PODS, delete_record, format_timestamp
from pliant.embedded.apiserver.http.errors import bad_request, not_found
from pliant.embedded.apiserver.http.request_body import decode_object_body
from pliant.embedded.apiserver.http.request_info import RequestInfo
from pliant.embedded.apiserver.http.responses import json_response
from pliant.embedded.storage.store import Store, Transaction
from pliant.embedded.storage.stored_objects import Object, StoredObject
from pliant.errors import ServerError, TooManyRequests
from pliant.kube.transport.base import Reply
from pliant.runtime.clock import Clock

_EVICTION_API_VERSION = "policy/v1"
_FINISHED_PHASES = ("Succeeded", "Failed")


async def evict_pod(store: Store, info: RequestInfo, clock: Clock) -> Reply:
    """Delete a pod in good order, and let it tell that it was evicted."""
    body = decode_object_body(info.request)
    if (body.get("apiVersion"), body.get("kind")) != (_EVICTION_API_VERSION, "Eviction"):
        raise bad_request(f"the body must be an Eviction of {_EVICTION_API_VERSION}")
    named = (body.get("metadata") or {}).get("name") or info.name
    if named != info.name:
        raise bad_request(f"metadata.name: {named} does not match the name in the URL ({info.name})")
    options = parse_delete_options(info, body.get("deleteOptions") or {})

    def decide(transaction: Transaction) -> None:
        current = transaction.get(info.key)
        if current is None:
            raise not_found(info.kind, info.name)
        require_deletable(info, current, options)
        pod = current.decode()
        _require_disruption_allowed(transaction, current, pod)
        if not current.is_terminating and (pod.get("status") or {}).get("phase") not in _FINISHED_PHASES:
            _set_disruption_target_condition(pod, format_timestamp(clock.now()))
            current = transaction.put(PODS, pod)
        delete_record(transaction, current, options, clock.now())

    await store.write(decide, dry_run=options.is_dry_run)
    return json_response({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}, 201)


def _require_disruption_allowed(transaction: Transaction, record: StoredObject, pod: Object) -> None:
    """Refuse where a budget would be overdrawn; pods that do not run yet, or any longer, cost none."""
    if record.is_terminating or (pod.get("status") or {}).get("phase") in (*_FINISHED_PHASES, "Pending"):
        return
    namespace = record.key.namespace
    kept = (each.decode() for each in transaction.committed.list_objects(DISRUPTION_BUDGETS, namespace))
    budgets = [each for each in kept if label_selector_matches((each.get("spec") or {}).get("selector"), record.labels)]
    if len(budgets) > 1:
        words = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
        raise ServerError(500, "InternalError", words)
    for budget in budgets:
        spec = budget["spec"]
        states = [_is_healthy(each) for each in _iter_budgeted_pods(transaction, namespace, spec["selector"])]
        standing = DisruptionBudgetStatus.compute(spec, expected_pods=len(states), current_healthy=sum(states))
        if not _is_healthy(pod):
            is_free = (
                standing.current_healthy >= standing.desired_healthy > 0
                or spec.get("unhealthyPodEvictionPolicy") == ALWAYS_ALLOW
            )
            if is_free:
                continue
        if standing.disruptions_allowed == 0:
            raise _budget_violation_error(budget["metadata"]["name"], standing)


def _iter_budgeted_pods(transaction: Transaction, namespace: str, selector: dict[str, Any]) -> Iterator[Object]:
    """The pods that a budget counts, as all writes decided so far leave them."""
    for each in transaction.committed.list_objects(PODS, namespace):
        current = transaction.get(each.key)
        if current is not None and label_selector_matches(selector, current.labels):
            pod = current.decode()
            if (pod.get("status") or {}).get("phase") not in _FINISHED_PHASES:
                yield pod


def _is_healthy(pod: Object) -> bool:
    told = (pod.get("status") or {}).get("conditions") or ()
    is_ready = any(each.get("type") == "Ready" and each.get("status") == "True" for each in told)
    return is_ready and not pod["metadata"].get("deletionTimestamp")


def _budget_violation_error(budget_name: str, budget_status: DisruptionBudgetStatus) -> TooManyRequests:
    has = f"needs {budget_status.desired_healthy} healthy pods and has {budget_status.current_healthy} currently"
    cause = {"reason": "DisruptionBudget", "message": f"The disruption budget {budget_name} {has}"}
    words = "Cannot evict pod as it would violate the pod's disruption budget."
    return TooManyRequests(429, "TooManyRequests", words, details={"causes": [cause]})


def _set_disruption_target_condition(pod: Object, at: str) -> None:
    status = pod.setdefault("status", {})
    others = [each for each in status.get("conditions") or () if each.get("type") != "DisruptionTarget"]
    target = {
        "type": "DisruptionTarget",
        "status": "True",
        "lastProbeTime": None,
        "lastTransitionTime": at,
        "reason": "EvictionByEvictionAPI",
        "message": "Eviction API: evicting",
    }
    status["conditions"] = [*others, target]
