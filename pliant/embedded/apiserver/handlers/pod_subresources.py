"""The pod subresources binding and eviction."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pliant.embedded.apiserver.admission import disruption_budgets
from pliant.embedded.apiserver.admission.disruption_budgets import DisruptionBudgetStatus, label_selector_matches
from pliant.embedded.apiserver.admission.plugins import AdmissionPlugins, Operation
from pliant.embedded.apiserver.handlers.deletion import parse_delete_options, require_deletable
from pliant.embedded.apiserver.handlers.object_lifecycle import (
    FINISHED_POD_PHASES,
    NAMESPACES_RESOURCE_KEY,
    PODS_RESOURCE_KEY,
    remove_or_mark_terminating,
)
from pliant.embedded.apiserver.http.errors import (
    bad_request,
    conflict,
    namespace_not_found,
    not_found,
    require_type,
    unexpected_error,
)
from pliant.embedded.apiserver.http.request_body import decode_object_body, object_field
from pliant.embedded.apiserver.http.request_info import RequestInfo
from pliant.embedded.apiserver.http.responses import created_status_response
from pliant.embedded.storage.store import Store, Transaction
from pliant.embedded.storage.stored_objects import Object, ObjectKey, StoredObject
from pliant.errors import Invalid, ServerError, TooManyRequests
from pliant.kube.timestamps import format_timestamp
from pliant.kube.transport.base import Reply
from pliant.runtime.clock import Clock


async def bind_pod(store: Store, info: RequestInfo, plugins: AdmissionPlugins, clock: Clock) -> Reply:
    """Assign a pod to a node; raise `Conflict` if it already has one."""
    body = decode_object_body(info.request)
    given, target = object_field(body, "metadata").get("name") or "", object_field(body, "target")
    name, node = info.name or given, target.get("name") or ""
    if not (isinstance(given, str) and isinstance(node, str)):
        raise bad_request("metadata.name, target.name: Invalid value: must be strings")

    def bind(transaction: Transaction) -> None:
        _require_namespace(transaction, info)
        _check_binding(name, given, target)
        plugins.validate(info, transaction, Operation.CREATE, obj=body)
        current = transaction.get(ObjectKey(PODS_RESOURCE_KEY, info.namespace, name))
        if current is None:
            raise not_found(info.kind, name)
        pod = current.decode()
        if current.is_terminating:
            detail = f"pod {name} is being deleted, cannot be assigned to a host"
            raise conflict(info.kind, name, detail, subresource_suffix="/binding")
        if pod["spec"].get("nodeName"):
            detail = f'pod {name} is already assigned to node "{pod["spec"]["nodeName"]}"'
            raise conflict(info.kind, name, detail, subresource_suffix="/binding")
        if pod["spec"].get("schedulingGates"):
            detail = f"pod {name} has non-empty .spec.schedulingGates"
            raise conflict(info.kind, name, detail, subresource_suffix="/binding")
        pod["spec"]["nodeName"] = node
        (pod.get("status") or {}).pop("nominatedNodeName", None)
        _set_condition(pod, "PodScheduled", format_timestamp(clock.now()))
        transaction.put(PODS_RESOURCE_KEY, pod)

    await store.run_transaction(bind, dry_run=info.is_dry_run)
    return created_status_response()


def _check_binding(name: str, given: str, target: Object) -> None:
    if not name:
        raise bad_request("Name parameter required.")
    if name != given:
        raise bad_request("name in URL does not match name in Binding object")
    problems = []
    if target.get("kind") not in (None, "", "Node"):
        problems.append(f'target.kind: Unsupported value: "{target["kind"]}": supported values: "Node", "<empty>"')
    if not target.get("name"):
        problems.append("target.name: Required value")
    if problems:
        raise unexpected_error(problems[0] if len(problems) == 1 else f"[{', '.join(problems)}]")


async def evict_pod(store: Store, info: RequestInfo, plugins: AdmissionPlugins, clock: Clock) -> Reply:
    """Set the DisruptionTarget condition of a pod and delete it."""
    body = decode_object_body(info.request)
    require_type(body, "policy/v1", "Eviction")
    if object_field(body, "metadata").get("name") not in (None, "", info.name):
        raise bad_request("name in URL does not match name in Eviction object")
    given, refusal = object_field(body, "deleteOptions"), None
    try:
        options = parse_delete_options(info, given)
    except Invalid as error:  # API servers validate the options last, when the pod has its condition
        _require_pod(store, info)
        refusal = error
        options = parse_delete_options(info, {**given, "propagationPolicy": None, "orphanDependents": None})

    def evict(transaction: Transaction) -> None:
        _require_namespace(transaction, info)
        plugins.validate(info, transaction, Operation.CREATE, obj=body)
        current = info.require_stored_object(transaction)
        require_deletable(info, current, options)
        pod = current.decode()
        _require_disruption_allowed(transaction, current, pod)
        if not _is_disrupted(pod) and not options.is_dry_run:
            cause = {"reason": "EvictionByEvictionAPI", "message": "Eviction API: evicting"}
            _set_condition(pod, "DisruptionTarget", format_timestamp(clock.now()), **cause)
            current = transaction.put(PODS_RESOURCE_KEY, pod)
        if refusal is None:
            remove_or_mark_terminating(transaction, current, options, clock.now())

    await store.run_transaction(evict, dry_run=options.is_dry_run)
    if refusal is not None:
        raise refusal
    return created_status_response()


def _require_pod(store: Store, info: RequestInfo) -> None:
    if store.committed.get(ObjectKey(NAMESPACES_RESOURCE_KEY, "", info.namespace)) is None:
        raise namespace_not_found(info.namespace)
    if store.committed.get(info.key) is None:
        raise not_found(info.kind, info.name)


def _is_disrupted(pod: Object) -> bool:
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return any((each.get("type"), each.get("status")) == ("DisruptionTarget", "True") for each in conditions)


def _require_namespace(transaction: Transaction, info: RequestInfo) -> None:
    if transaction.get(ObjectKey(NAMESPACES_RESOURCE_KEY, "", info.namespace)) is None:
        raise namespace_not_found(info.namespace)


def _require_disruption_allowed(transaction: Transaction, record: StoredObject, pod: Object) -> None:
    """Raise `TooManyRequests` when a budget allows no disruption; pods that do not run may always be evicted."""
    if record.is_terminating or (pod.get("status") or {}).get("phase") in (*FINISHED_POD_PHASES, "Pending"):
        return
    index, namespace = transaction.committed, record.key.namespace
    stored = [
        each.decode() for each in index.list_objects(disruption_budgets.DISRUPTION_BUDGETS_RESOURCE_KEY, namespace)
    ]
    budgets = [
        each for each in stored if label_selector_matches((each.get("spec") or {}).get("selector"), record.labels)
    ]
    if len(budgets) > 1:
        message = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
        raise ServerError(500, "InternalError", message)
    for budget in budgets:
        spec = budget["spec"]
        health = [_is_healthy(each) for each in _iter_budgeted_pods(transaction, namespace, spec["selector"])]
        status = DisruptionBudgetStatus.compute(spec, expected_pods=len(health), current_healthy=sum(health))
        always_allows = spec.get("unhealthyPodEvictionPolicy") == "AlwaysAllow"
        allows_unhealthy = always_allows or status.current_healthy >= status.desired_healthy > 0
        if status.disruptions_allowed == 0 and not (allows_unhealthy and not _is_healthy(pod)):
            raise _budget_violation_error(budget["metadata"]["name"], status)


def _iter_budgeted_pods(transaction: Transaction, namespace: str, selector: dict[str, Any]) -> Iterator[Object]:
    """Yield the unfinished pods of a budget, with the changes of this transaction."""
    for record in transaction.committed.list_objects(PODS_RESOURCE_KEY, namespace):
        current = transaction.get(record.key)
        if current is not None and label_selector_matches(selector, current.labels):
            pod = current.decode()
            if (pod.get("status") or {}).get("phase") not in FINISHED_POD_PHASES:
                yield pod


def _is_healthy(pod: Object) -> bool:
    conditions = (pod.get("status") or {}).get("conditions") or ()
    is_ready = any(each.get("type") == "Ready" and each.get("status") == "True" for each in conditions)
    return is_ready and not pod["metadata"].get("deletionTimestamp")


def _budget_violation_error(budget_name: str, budget_status: DisruptionBudgetStatus) -> TooManyRequests:
    counts = f"needs {budget_status.desired_healthy} healthy pods and has {budget_status.current_healthy} currently"
    cause = {"reason": "DisruptionBudget", "message": f"The disruption budget {budget_name} {counts}"}
    message = "Cannot evict pod as it would violate the pod's disruption budget."
    return TooManyRequests(429, "TooManyRequests", message, details={"causes": [cause]})


def _set_condition(pod: Object, condition_type: str, time: str, **fields: str) -> None:
    status = pod.setdefault("status", {})
    others = [each for each in status.get("conditions") or () if each.get("type") != condition_type]
    condition = {"type": condition_type, "status": "True", "lastProbeTime": None, "lastTransitionTime": time, **fields}
    status["conditions"] = [*others, condition]
