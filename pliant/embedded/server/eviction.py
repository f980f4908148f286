"""Evictions: a pod is asked to leave, unless its uid or version is not the one meant; nothing here forbids it."""

from __future__ import annotations

from pliant.embedded.server.answers import json_reply
from pliant.embedded.server.bodies import read_body
from pliant.embedded.server.calls import Call
from pliant.embedded.server.deletion import read_options, require
from pliant.embedded.server.lifecycle import PODS, delete, timestamp
from pliant.embedded.server.refusals import absent, senseless
from pliant.embedded.storage.records import Object
from pliant.embedded.storage.store import Store, Transaction
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
        if not current.leaving and (pod.get("status") or {}).get("phase") not in _FINISHED:
            _note_disruption(pod, timestamp(clock.now()))
            current = transaction.put(PODS, pod)
        delete(transaction, current, options, clock.now())

    await store.write(decide, dry_run=options.is_dry_run)
    return json_reply(
        {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}, 201
    )


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
