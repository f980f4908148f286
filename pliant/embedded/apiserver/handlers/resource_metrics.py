"""What pods and nodes use, as `kubectl top` wants to hear it: the API group metrics.k8s.io."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol

from pliant.embedded.apiserver.handlers.object_lifecycle import format_timestamp
from pliant.embedded.apiserver.http.errors import method_not_allowed, not_found
from pliant.embedded.apiserver.http.request_info import RequestInfo
from pliant.embedded.apiserver.http.responses import json_response
from pliant.embedded.apiserver.selectors import LabelSelector
from pliant.embedded.storage.object_index import ObjectIndex
from pliant.embedded.storage.stored_objects import Object, StoredObject
from pliant.errors import ServerError
from pliant.kube.transport.base import Reply

METRICS_API_GROUP = "metrics.k8s.io"
_METRICS_WINDOW = "0.5s"


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceUsage:
    """CPUs and bytes in use."""

    cpu_cores: float
    memory_bytes: int


class UsageSource(Protocol):
    """Measures what runs."""

    async def measure(self) -> Mapping[tuple[str, str], ResourceUsage]:
        """What each container, named by its pod's uid and its name, uses at the moment."""


async def get_metrics(index: ObjectIndex, info: RequestInfo, usage_source: UsageSource | None, now: datetime) -> Reply:
    """The usage of one object, or of those selected."""
    if info.request.method != "GET":
        raise method_not_allowed()
    if usage_source is None:
        raise ServerError(503, "ServiceUnavailable", "this server has no node to measure")
    is_nodes = info.kind.plural == "nodes"
    used = await usage_source.measure()
    wanted = _select_records(index, info, "/nodes" if is_nodes else "/pods")
    pods = [record.decode() for record in (index.list_objects("/pods") if is_nodes else wanted)]
    items = [
        item
        for record in wanted
        if (item := _node_metrics(record, pods, used) if is_nodes else _pod_metrics(record.decode(), used)) is not None
    ]
    for item in items:
        item |= {"timestamp": format_timestamp(now), "window": _METRICS_WINDOW}
    head = {"kind": info.kind.kind, "apiVersion": info.kind.api_version}
    if not info.name:
        return json_response({**head, "kind": info.kind.list_kind, "metadata": {}, "items": items})
    if not items:
        raise not_found(info.kind, info.name)
    return json_response({**head, **items[0]})


def _select_records(index: ObjectIndex, info: RequestInfo, resource: str) -> list[StoredObject]:
    labels = LabelSelector.parse(info.query_text("labelSelector")) if info.query_text("labelSelector") else None
    records = index.list_objects(resource, info.namespace)
    return [
        each
        for each in records
        if (not info.name or each.key.name == info.name) and (labels is None or labels.matches(each.labels))
    ]


def _pod_metrics(pod: Object, usage_by_container: Mapping[tuple[str, str], ResourceUsage]) -> Object | None:
    """What the containers of a pod use; None for one that does not run."""
    uid = pod["metadata"]["uid"]
    names = [each["name"] for each in (*pod["spec"]["containers"], *(pod["spec"].get("initContainers") or ()))]
    running = [(name, usage_by_container[uid, name]) for name in names if (uid, name) in usage_by_container]
    containers = [{"name": name, "usage": _format_usage(usage)} for name, usage in running]
    return {"metadata": _metrics_metadata(pod), "containers": containers} if containers else None


def _node_metrics(
    node: StoredObject, pods: list[Object], usage_by_container: Mapping[tuple[str, str], ResourceUsage]
) -> Object:
    here = {pod["metadata"]["uid"] for pod in pods if pod["spec"].get("nodeName") == node.key.name}
    mine = [usage for (uid, _), usage in usage_by_container.items() if uid in here]
    total = ResourceUsage(
        cpu_cores=sum(each.cpu_cores for each in mine), memory_bytes=sum(each.memory_bytes for each in mine)
    )
    return {"metadata": _metrics_metadata(node.decode()), "usage": _format_usage(total)}


def _format_usage(usage: ResourceUsage) -> dict[str, str]:
    return {"cpu": f"{round(usage.cpu_cores * 1e9)}n", "memory": f"{usage.memory_bytes >> 10}Ki"}


def _metrics_metadata(obj: Object) -> dict[str, Any]:
    kept = ("name", "namespace", "labels", "creationTimestamp")
    return {field: obj["metadata"][field] for field in kept if field in obj["metadata"]}
