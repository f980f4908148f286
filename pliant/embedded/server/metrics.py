"""What pods and nodes use, as `kubectl top` wants to hear it: the API group metrics.k8s.io."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol

from pliant.embedded.server.answers import json_reply
from pliant.embedded.server.calls import Call
from pliant.embedded.server.lifecycle import timestamp
from pliant.embedded.server.refusals import absent, not_allowed
from pliant.embedded.server.selectors import LabelSelector
from pliant.embedded.storage.records import Object, Record
from pliant.embedded.storage.shelves import Shelves
from pliant.errors import ServerError
from pliant.kube.transport import Reply

GROUP = "metrics.k8s.io"
_WINDOW = "0.5s"


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """CPUs and bytes in use."""

    cpu: float
    memory: int


class UsageSource(Protocol):
    """Measures what runs."""

    async def measured(self) -> Mapping[tuple[str, str], Usage]:
        """What each container, named by its pod's uid and its name, uses at the moment."""


async def answer(shelves: Shelves, call: Call, source: UsageSource | None, now: datetime) -> Reply:
    """The usage of one object, or of those selected."""
    if call.request.method != "GET":
        raise not_allowed()
    if source is None:
        raise ServerError(503, "ServiceUnavailable", "this server has no node to measure")
    is_nodes = call.kind.plural == "nodes"
    used = await source.measured()
    wanted = _wanted(shelves, call, "/nodes" if is_nodes else "/pods")
    pods = [record.decode() for record in (shelves.listing("/pods") if is_nodes else wanted)]
    items = [
        item
        for record in wanted
        if (item := _of_node(record, pods, used) if is_nodes else _of_pod(record.decode(), used)) is not None
    ]
    for item in items:
        item |= {"timestamp": timestamp(now), "window": _WINDOW}
    head = {"kind": call.kind.kind, "apiVersion": call.kind.api_version}
    if not call.name:
        return json_reply({**head, "kind": call.kind.list_kind, "metadata": {}, "items": items})
    if not items:
        raise absent(call.kind, call.name)
    return json_reply({**head, **items[0]})


def _wanted(shelves: Shelves, call: Call, resource: str) -> list[Record]:
    labels = LabelSelector.parse(call.text("labelSelector")) if call.text("labelSelector") else None
    records = shelves.listing(resource, call.namespace)
    return [
        each
        for each in records
        if (not call.name or each.key.name == call.name) and (labels is None or labels.matches(each.labels))
    ]


def _of_pod(pod: Object, used: Mapping[tuple[str, str], Usage]) -> Object | None:
    """What the containers of a pod use; None for one that does not run."""
    uid = pod["metadata"]["uid"]
    names = [each["name"] for each in (*pod["spec"]["containers"], *(pod["spec"].get("initContainers") or ()))]
    running = [(name, used[uid, name]) for name in names if (uid, name) in used]
    containers = [{"name": name, "usage": _told(usage)} for name, usage in running]
    return {"metadata": _about(pod), "containers": containers} if containers else None


def _of_node(node: Record, pods: list[Object], used: Mapping[tuple[str, str], Usage]) -> Object:
    here = {pod["metadata"]["uid"] for pod in pods if pod["spec"].get("nodeName") == node.key.name}
    mine = [usage for (uid, _), usage in used.items() if uid in here]
    total = Usage(cpu=sum(each.cpu for each in mine), memory=sum(each.memory for each in mine))
    return {"metadata": _about(node.decode()), "usage": _told(total)}


def _told(usage: Usage) -> dict[str, str]:
    return {"cpu": f"{round(usage.cpu * 1e9)}n", "memory": f"{usage.memory >> 10}Ki"}


def _about(obj: Object) -> dict[str, Any]:
    kept = ("name", "namespace", "labels", "creationTimestamp")
    return {field: obj["metadata"][field] for field in kept if field in obj["metadata"]}
