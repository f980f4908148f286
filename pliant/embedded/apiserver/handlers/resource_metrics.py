"""The API group metrics.k8s.io: the CPU and memory usage of pods and nodes, for `kubectl top`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol

from pliant.embedded.apiserver.http.errors import method_not_allowed, not_found
from pliant.embedded.apiserver.http.request_info import RequestInfo
from pliant.embedded.apiserver.http.responses import json_response
from pliant.embedded.apiserver.selectors import LabelSelector
from pliant.embedded.storage.object_index import ObjectIndex
from pliant.embedded.storage.stored_objects import Object, StoredObject
from pliant.errors import ServerError
from pliant.kube.timestamps import format_timestamp
from pliant.kube.transport.base import Reply

METRICS_API_GROUP = "metrics.k8s.io"
_METRICS_WINDOW = "0.5s"


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceUsage:
    cpu_cores: float
    memory_bytes: int


class ContainerUsageSource(Protocol):
    async def measure_container_usage(self) -> Mapping[tuple[str, str], ResourceUsage]:
        """Return the current usage of each running container, by the UID of its pod and its name."""


async def get_metrics(
    index: ObjectIndex, info: RequestInfo, usage_source: ContainerUsageSource | None, now: datetime
) -> Reply:
    """Return the usage of one pod or node, or of all that are selected."""
    if info.request.method != "GET":
        raise method_not_allowed()
    if usage_source is None:
        raise ServerError(503, "ServiceUnavailable", "no node measures resource usage")
    usage = await usage_source.measure_container_usage()
    if info.kind.plural == "nodes":
        pods = [record.decode() for record in index.list_objects("/pods")]
        items = [_node_metrics(node, pods, usage) for node in _select_records(index, info, "/nodes")]
    else:
        metrics = (_pod_metrics(pod.decode(), usage) for pod in _select_records(index, info, "/pods"))
        items = [item for item in metrics if item is not None]
    for item in items:
        item |= {"timestamp": format_timestamp(now), "window": _METRICS_WINDOW}
    head = {"kind": info.kind.kind, "apiVersion": info.kind.api_version}
    if not info.name:
        return json_response({**head, "kind": info.kind.list_kind, "metadata": {}, "items": items})
    if not items:
        raise not_found(info.kind, info.name)
    return json_response({**head, **items[0]})


def _select_records(index: ObjectIndex, info: RequestInfo, resource: str) -> list[StoredObject]:
    selector = LabelSelector.parse(info.query_text("labelSelector"))
    records = [each for each in index.list_objects(resource, info.namespace) if selector.matches(each.labels)]
    return [each for each in records if each.key.name == info.name] if info.name else records


def _pod_metrics(pod: Object, usage_by_container: Mapping[tuple[str, str], ResourceUsage]) -> Object | None:
    """Return the PodMetrics of a pod, or None if none of its containers runs."""
    uid = pod["metadata"]["uid"]
    names = [each["name"] for each in (*pod["spec"]["containers"], *(pod["spec"].get("initContainers") or ()))]
    running = [(name, usage_by_container[uid, name]) for name in names if (uid, name) in usage_by_container]
    containers = [{"name": name, "usage": _format_usage(usage)} for name, usage in running]
    return {"metadata": _metrics_metadata(pod), "containers": containers} if containers else None


def _node_metrics(
    node: StoredObject, pods: list[Object], usage_by_container: Mapping[tuple[str, str], ResourceUsage]
) -> Object:
    uids = {pod["metadata"]["uid"] for pod in pods if pod["spec"].get("nodeName") == node.key.name}
    usages = [usage for (uid, _), usage in usage_by_container.items() if uid in uids]
    total = ResourceUsage(
        cpu_cores=sum(each.cpu_cores for each in usages), memory_bytes=sum(each.memory_bytes for each in usages)
    )
    return {"metadata": _metrics_metadata(node.decode()), "usage": _format_usage(total)}


def _format_usage(usage: ResourceUsage) -> dict[str, str]:
    return {"cpu": f"{round(usage.cpu_cores * 1e9)}n", "memory": f"{usage.memory_bytes >> 10}Ki"}


def _metrics_metadata(obj: Object) -> dict[str, Any]:
    fields = ("name", "namespace", "labels", "creationTimestamp")
    return {field: obj["metadata"][field] for field in fields if field in obj["metadata"]}
