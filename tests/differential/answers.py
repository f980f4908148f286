"""What of an API server's answer matters to a client, so that the answers of two servers can be compared."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pliant.kube.transport.base import Reply

CRASHED = 599
"""The code of a request that a server in this process ended with an exception."""
PANICKED = 598
"""The code of a request in which kube-apiserver panicked: there is no answer to compare with."""
_PRESENT = "<present>"
_CHOSEN_BY_SERVER = frozenset({"uid", "resourceVersion", "creationTimestamp", "deletionTimestamp", "continue"})
"""Fields of which only the presence is compared."""
_NOT_COMPARED = frozenset({"managedFields", "storageVersionHash", "serverAddressByClientCIDRs", "remainingItemCount"})
_REPAIR_CONTROLLERS = frozenset({"ipallocator-repair-controller", "portallocator-repair-controller"})
"""Parts of kube-apiserver that write events, at any time."""
_ADDRESSES = frozenset({"clusterIP", "clusterIPs"})
_REASONS_WITH_MESSAGE = frozenset({"NotFound", "AlreadyExists", "Conflict"})
"""Reasons whose messages are compared; people read them, and other messages report how a program read its input."""
_VALUES_OF_SERVER = re.compile(
    r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"
    r"|(?<=record \()\d+|(?<=precondition \()\d+|(?<=object meta: )\d+|(?<=in precondition: )\d+"
)
_UID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_AGE = re.compile(r"(\d+[smhd])+|<unknown>|<invalid>")
_CLUSTER_IP = re.compile(r"10\.96\.\d+\.\d+")
_NODE_PORT = re.compile(r":3[0-2]\d{3}/")
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")
_GENERATED_NAME = re.compile(r"\b(zz-|Bad_|x{58,60})[bcdfghjklmnpqrstvwxz2456789]{5}(?![a-z0-9])")
_UNEVALUATED_RULES = "<nil>"
"""The field of a cause by which a server says that it could not evaluate the rules of a schema."""


@dataclass(frozen=True)
class Answer:
    """A status code and a normalized body."""

    code: int
    body: Any
    before: Mapping[str, Any] = field(default_factory=dict)
    """The objects that a collection had before the events of a watch, by name."""

    @property
    def is_failure(self) -> bool:
        return isinstance(self.body, dict) and self.body.get("status") == "Failure"


def normalize_reply(reply: Reply, run: str) -> Answer:
    """Return an answer without what may differ between two servers."""
    return Answer(reply.status, normalize_body(decode_reply(reply), run))


def normalize_body(body: Any, run: str) -> Any:
    """Normalize a decoded body; the name of the run becomes `{run}` again."""
    match body:
        case list():
            return [
                normalize_body(event, run) for event in body if event.get("type") != "BOOKMARK" or _ends_list(event)
            ]
        case {"kind": "Status", "status": "Failure"}:
            result: Any = _normalize_failure(body)
        case {"kind": "Table"}:
            result = _normalize_table(body)
        case dict():
            result = _normalize(body)
        case _:
            return body
    text = _UID.sub("<uid>", json.dumps(result).replace(run, "{run}"))
    text = _GENERATED_NAME.sub("<generated>", text)
    result = json.loads(text)
    if "<generated>" in text and isinstance(result, dict):
        for rows in (result.get("items"), result.get("rows")):
            if isinstance(rows, list):
                rows.sort(key=lambda row: json.dumps(row, sort_keys=True))
    return result


def normalize_objects(reply: Reply, run: str) -> dict[str, Any]:
    """Return the objects of a list by name, as the events of a watch show them; none if the answer is no list."""
    items = decode_reply(reply).get("items") or ()
    objects = [normalize_body([{"type": "ADDED", "object": item}], run)[0]["object"] for item in items]
    return {obj["metadata"]["name"]: obj for obj in objects}


def decode_reply(reply: Reply) -> Any:
    """Decode a body: an object, the events of a watch, or text."""
    try:
        return json.loads(reply.body)
    except ValueError:
        pass
    try:
        return [json.loads(line) for line in reply.body.splitlines()]
    except ValueError:
        return reply.body.decode()


def _normalize_failure(status: dict[str, Any]) -> dict[str, Any]:
    details = dict(status.get("details") or {})
    causes = {
        (cause.get("field") or "", cause.get("reason") or "")
        for cause in details.pop("causes", None) or ()
        if cause.get("field") != _UNEVALUATED_RULES
    }
    details.pop("uid", None)
    reason = status.get("reason") or ""
    message = _VALUES_OF_SERVER.sub("…", status.get("message") or "") if reason in _REASONS_WITH_MESSAGE else ""
    return {
        "status": "Failure",
        "reason": reason,
        "details": {name: value for name, value in details.items() if value not in ("", None)},
        "causes": sorted(map(list, causes)),
        "message": message,
    }


def _normalize_table(table: dict[str, Any]) -> dict[str, Any]:
    columns = [[column["name"], column["type"], column["priority"]] for column in table["columnDefinitions"]]
    rows = [
        [[_without_age(cell) for cell in row["cells"]], sorted(row.get("object") or ())]
        for row in table.get("rows") or ()
        # The source is the component, or the component and its host.
        if not any(str(cell).partition(",")[0] in _REPAIR_CONTROLLERS for cell in row["cells"])
    ]
    return {"columns": columns, "rows": rows}


def _without_age(cell: Any) -> Any:
    if isinstance(cell, str) and _CLUSTER_IP.fullmatch(cell):
        return _PRESENT
    if isinstance(cell, str):
        cell = _NODE_PORT.sub(":<port>/", cell)
    is_time = isinstance(cell, str) and (_AGE.fullmatch(cell) or _TIME.fullmatch(cell))
    return "<age>" if is_time else cell


def _normalize(value: Any, key: str = "") -> Any:
    match value:
        case dict():
            return _normalize_object(value)
        case list():
            return [_normalize(each) for each in value]
        case str() if _TIME.fullmatch(value):
            return "<time>"
    return value


def _normalize_object(value: dict[str, Any]) -> dict[str, Any]:
    result = {name: _normalize(each, name) for name, each in value.items() if name not in _NOT_COMPARED}
    for name in _CHOSEN_BY_SERVER & result.keys():
        if result[name] and isinstance(result[name], str):
            result[name] = _PRESENT
        else:
            del result[name]
    _normalize_service(result)
    if isinstance(result.get("items"), list):
        result["items"] = [item for item in result["items"] if not _is_repair(item)]
        for item in result["items"]:
            if isinstance(item, dict):
                item.pop("apiVersion", None)
                item.pop("kind", None)
    if isinstance(result.get("verbs"), list):
        result["verbs"] = sorted(map(str, result["verbs"]))
    if result.get("generateName"):
        result["name"] = "<generated>"
    if isinstance(result.get("kube-root-ca.crt"), str):
        del result["kube-root-ca.crt"]
    return result


def _is_repair(item: Any) -> bool:
    """Return whether an item of a list is an event about addresses of services that kube-apiserver checks at times."""
    if not isinstance(item, dict):
        return False
    source = item.get("source") or item.get("deprecatedSource")
    component = source.get("component") if isinstance(source, dict) else None
    return bool({component, item.get("reportingController"), item.get("reportingComponent")} & _REPAIR_CONTROLLERS)


def _normalize_service(result: dict[str, Any]) -> None:
    """Normalize the addresses and ports of the spec of a service in place."""
    if isinstance(result.get("clusterIP"), str) and result["clusterIP"] not in ("", "None"):
        result["clusterIP"], result["clusterIPs"] = _PRESENT, bool(result.get("clusterIPs"))
    if result.get("type") == "ExternalName" and "externalName" in result:
        # kube-apiserver stores the field and drops it when it is read, but not from events for three watches or more.
        result.pop("internalTrafficPolicy", None)
    if result.get("healthCheckNodePort"):
        result["healthCheckNodePort"] = _PRESENT
    for port in result.get("ports") or () if "type" in result else ():
        if isinstance(port, dict) and port.get("nodePort"):
            port["nodePort"] = _PRESENT


def _ends_list(event: dict[str, Any]) -> bool:
    annotations = event["object"]["metadata"].get("annotations") or {}
    return bool(annotations.get("k8s.io/initial-events-end") == "true")
