"""Evictions: a pod is asked to leave, unless another one is meant or a budget says that too many would be gone."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pliant.embedded.server.answers import json_reply
from pliant.embedded.server.bodies import read_body
from pliant.embedded.server.budgets import ALWAYS, BUDGETS, Standing, selects
from pliant.embedded.server.calls import Call
from pliant.embedded.server.deletion import read_options, require
from pliant.embedded.server.lifecycle import PODS, delete, timestamp
from pliant.embedded.server.refusals import absent, senseless
from pliant.embedded.storage.records import Object, Record
from pliant.embedded.storage.store import Store, Transaction
from pliant.errors import ServerError, TooManyRequests
from pliant.kube.transport import Reply
from pliant.runtime.clock import Clock

_VERSION = "policy/v1"
_FINISHED = ("Succeeded", "Failed")


async def evict(store: Store, call: Call, clock: Clock) -> Reply:
    """Delete a pod in good order, and let it tell that it was evicted."""
    body = read_body(call.request)
    if (body.get("apiVersion"), body.get("kind")) != (_VERSION, "Eviction"):
        raise senseless(f"the body must be an Eviction of {_VERSION}")
    named = (body.get("metadata") or {}).get("name") or call.name
    if named != call.name:
        raise senseless(f"metadata.name: {named} does not match the name in the URL ({call.name})")
    options = read_options(call, body.get("deleteOptions") or {})

    def decide(transaction: Transaction) -> None:
        current = transaction.get(call.key)
        if current is None:
            raise absent(call.kind, call.name)
        require(call, current, options)
        pod = current.decode()
        _require_budget(transaction, current, pod)
        if not current.leaving and (pod.get("status") or {}).get("phase") not in _FINISHED:
            _note_disruption(pod, timestamp(clock.now()))
            current = transaction.put(PODS, pod)
        delete(transaction, current, options, clock.now())

    await store.write(decide, dry_run=options.is_dry_run)
    return json_reply(
        {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}, 201
    )


def _require_budget(transaction: Transaction, record: Record, pod: Object) -> None:
    """Refuse where a budget would be overdrawn; pods that do not run yet, or any longer, cost none."""
    if record.leaving or (pod.get("status") or {}).get("phase") in (*_FINISHED, "Pending"):
        return
    namespace = record.key.namespace
    kept = (each.decode() for each in transaction.visible.listing(BUDGETS, namespace))
    budgets = [each for each in kept if selects((each.get("spec") or {}).get("selector"), record.labels)]
    if len(budgets) > 1:
        words = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
        raise ServerError(500, "InternalError", words)
    for budget in budgets:
        spec = budget["spec"]
        states = [_is_healthy(each) for each in _pods(transaction, namespace, spec["selector"])]
        standing = Standing.of(spec, expected=len(states), healthy=sum(states))
        if not _is_healthy(pod):
            is_free = standing.healthy >= standing.desired > 0 or spec.get("unhealthyPodEvictionPolicy") == ALWAYS
            if is_free:
                continue
        if standing.allowed == 0:
            raise _overdrawn(budget["metadata"]["name"], standing)


def _pods(transaction: Transaction, namespace: str, selector: dict[str, Any]) -> Iterator[Object]:
    """The pods that a budget counts, as all writes decided so far leave them."""
    for each in transaction.visible.listing(PODS, namespace):
        current = transaction.get(each.key)
        if current is not None and selects(selector, current.labels):
            pod = current.decode()
            if (pod.get("status") or {}).get("phase") not in _FINISHED:
                yield pod


def _is_healthy(pod: Object) -> bool:
    told = (pod.get("status") or {}).get("conditions") or ()
    is_ready = any(each.get("type") == "Ready" and each.get("status") == "True" for each in told)
    return is_ready and not pod["metadata"].get("deletionTimestamp")


def _overdrawn(name: str, standing: Standing) -> TooManyRequests:
    has = f"needs {standing.desired} healthy pods and has {standing.healthy} currently"
    cause = {"reason": "DisruptionBudget", "message": f"The disruption budget {name} {has}"}
    words = "Cannot evict pod as it would violate the pod's disruption budget."
    return TooManyRequests(429, "TooManyRequests", words, details={"causes": [cause]})


def _note_disruption(pod: Object, at: str) -> None:
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
