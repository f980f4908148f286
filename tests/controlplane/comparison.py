"""What of an API server's answer matters to a client, so that two servers can be compared."""

from __future__ import annotations

import json
import re
from typing import Any

from pliant.kube.transport.base import Reply, Request, Transport
from tests.controlplane.exchange import Exchange

CHOSEN = frozenset({"uid", "resourceVersion", "creationTimestamp", "deletionTimestamp", "continue"})
"""Fields whose values a server chooses; only that they are there is compared."""
_IGNORED = frozenset({"managedFields", "clusterIP", "clusterIPs", "storageVersionHash", "serverAddressByClientCIDRs"})
"""What one of the servers has no use for, or chooses as it likes."""
_COMPARED_REASONS = frozenset({"NotFound", "AlreadyExists", "Conflict"})
"""Reasons whose messages people read; others tell how a program read its input."""
_RANDOM_VALUES = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|(?<=record \()\d+")
_AGE = re.compile(r"\d{1,2}s")
_UNCHECKED = "<nil>"
"""Named by a server that evaluates rules, when it could not."""


class Conversation:
    """Asks one server, one thing after another."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self._version = "1"

    async def answer(self, exchange: Exchange) -> Any:
        """What matters of the answer."""
        request = exchange.request(self._version)
        reply = await self._transport.send(request)
        body = _decoded(reply)
        if isinstance(body, dict) and isinstance(body.get("metadata"), dict):
            self._version = body["metadata"].get("resourceVersion") or self._version
        return [reply.status, normalize_body(body, request)]


def normalize_body(body: Any, request: Request) -> Any:
    """An answer without what may differ."""
    match body:
        case list():
            return [
                normalize_body(each, request) for each in body if each.get("type") != "BOOKMARK" or _ends_list(each)
            ]
        case {"kind": "Status", "status": "Failure"}:
            return _failure(body)
        case {"kind": "Table"}:
            return _table(body)
        case dict():
            return _normalize(body)
    return body


def _failure(status: dict[str, Any]) -> dict[str, Any]:
    details = dict(status.get("details") or {})
    causes = [
        (each.get("field"), each.get("reason")) for each in details.pop("causes", ()) if each.get("field") != _UNCHECKED
    ]
    told = {"reason": status.get("reason"), **_normalize(details), "causes": sorted(set(causes), key=str)}
    return (
        {**told, "message": _RANDOM_VALUES.sub("…", status["message"])}
        if status.get("reason") in _COMPARED_REASONS
        else told
    )


def _table(table: dict[str, Any]) -> dict[str, Any]:
    columns = [(each["name"], each["priority"]) for each in table["columnDefinitions"]]
    rows = table.get("rows") or ()
    return {"columns": columns, "rows": [([*map(_without_age, row["cells"])], sorted(row["object"])) for row in rows]}


def _without_age(cell: Any) -> Any:
    """A cell of a table: one server is asked a second later than the other."""
    if not isinstance(cell, str):
        return cell
    return "…s" if _AGE.fullmatch(cell) else _RANDOM_VALUES.sub("…", cell)


def _normalize(value: Any) -> Any:
    """Empty is as good as absent; items of a list need not say what they are."""
    match value:
        case dict():
            kept = {name: _normalize(each) for name, each in value.items() if name not in CHOSEN | _IGNORED}
            if "items" in kept and isinstance(kept["items"], list):
                kept["items"] = [
                    {**each, "apiVersion": "", "kind": ""} for each in kept["items"] if isinstance(each, dict)
                ]
            if "verbs" in kept:
                kept["verbs"] = sorted(kept["verbs"])
            if "generateName" in kept:
                kept["name"] = "generated"
            present = {name: "…" for name in CHOSEN if value.get(name)}
            return {name: each for name, each in {**kept, **present}.items() if each not in (None, {}, [], "")}
        case list():
            return [_normalize(each) for each in value]
        case str():
            return _RANDOM_VALUES.sub("…", value)
    return value


def _ends_list(event: dict[str, Any]) -> bool:
    annotations = event["object"]["metadata"].get("annotations") or {}
    return annotations.get("k8s.io/initial-events-end") == "true"


def _decoded(reply: Reply) -> Any:
    try:
        return json.loads(reply.body)
    except ValueError:
        pass
    try:
        return [json.loads(line) for line in reply.body.splitlines()]
    except ValueError:
        return reply.body.decode()
