"""Sends the trials of the table to an API server."""

from __future__ import annotations

import json
from typing import Any

from pliant.kube.transport.base import Request, Transport
from tests.access.table import Trial, setup


async def prepare(owner: Transport) -> None:
    """Create the objects of the table."""
    for path, body in setup():
        reply = await owner.send(Request(method="POST", path=path, body=json.dumps(body).encode()))
        assert reply.status == 201, reply.body


async def answer(transport: Transport, trial: Trial) -> dict[str, Any]:
    """The answer to a trial, without what a server chooses."""
    body = b"" if trial.body is None else json.dumps(trial.body).encode()
    request = Request(method=trial.method, path=trial.path, query=trial.query, body=body, content_type=trial.media)
    reply = await transport.send(request)
    try:
        content = json.loads(reply.body)
    except ValueError:
        content = {}
    if content.get("kind") == "Status" and reply.status >= 400:
        details = {name: value for name, value in (content.get("details") or {}).items() if value}
        fields = ("message", "reason", "code")
        return {"status": reply.status, "details": details, **{name: content.get(name) for name in fields}}
    found: dict[str, Any] = {"status": reply.status}
    if "Review" in content.get("kind", ""):
        found["review"] = {name: _sorted(value) for name, value in content["status"].items()}
    for name in ("rules", "roleRef", "subjects"):
        if name in content:
            found[name] = content[name]
    return found


def _sorted(value: Any) -> Any:
    """Rules in one order: a server lists them as it finds them."""
    if isinstance(value, list):
        return sorted(json.dumps({name: sorted(each[name]) for name in sorted(each)}) for each in value)
    return value


def was_allowed(given: dict[str, Any]) -> bool:
    return int(given["status"]) != 403
