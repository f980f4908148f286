"""Tokens on request: a client asks to speak for a service account for a while."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from pliant.embedded.catalog.kinds import Kind
from pliant.embedded.schema import Problem, Reason
from pliant.embedded.server.answers import json_reply
from pliant.embedded.server.bodies import read_body
from pliant.embedded.server.calls import Call
from pliant.embedded.server.lifecycle import timestamp
from pliant.embedded.server.refusals import absent, senseless, unfit
from pliant.embedded.server.tokens import AUDIENCE, Account, Tokens
from pliant.embedded.storage.shelves import Shelves
from pliant.kube.transport import Reply
from pliant.runtime.clock import Clock

_VERSION = "authentication.k8s.io/v1"
_USUAL, _SHORTEST = 3600, 600


def request_token(visible: Shelves, call: Call, tokens: Tokens, clock: Clock) -> Reply:
    """A token for the service account that a call names."""
    body = read_body(call.request)
    if (body.get("apiVersion"), body.get("kind")) != (_VERSION, "TokenRequest"):
        raise senseless(f"the body must be a TokenRequest of {_VERSION}")
    if visible.get(call.key) is None:
        raise absent(call.kind, call.name)
    spec = body.get("spec") or {}
    seconds = _lifetime(call.kind, call.name, spec)
    bound = spec.get("boundObjectRef") or {}
    pod = bound.get("name", "") if bound.get("kind") == "Pod" else ""
    account = Account(namespace=call.namespace, name=call.name, pod=pod, pod_uid=bound.get("uid", ""))
    lifetime = timedelta(seconds=seconds)
    audiences = spec.get("audiences") or [AUDIENCE]
    answer = {
        "kind": "TokenRequest",
        "apiVersion": _VERSION,
        "metadata": {"name": call.name, "namespace": call.namespace, "creationTimestamp": timestamp(clock.now())},
        "spec": {**spec, "audiences": audiences, "expirationSeconds": seconds},
        "status": {
            "token": tokens.issue(account, lifetime, audiences[0]),
            "expirationTimestamp": timestamp(clock.now() + lifetime),
        },
    }
    return json_reply(answer, 201)


def _lifetime(kind: Kind, name: str, spec: dict[str, Any]) -> int:
    seconds = spec.get("expirationSeconds")
    if seconds is None:
        return _USUAL
    if not isinstance(seconds, int) or seconds < _SHORTEST:
        why = f"Invalid value: {seconds}: may not specify a duration less than {_SHORTEST // 60} minutes"
        raise unfit(kind, name, [Problem("spec.expirationSeconds", Reason.INVALID.cause, why)])
    return seconds
