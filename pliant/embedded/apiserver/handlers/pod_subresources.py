"""The pod subresources binding and log."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from pliant.embedded.apiserver.handlers.object_lifecycle import format_timestamp
from pliant.embedded.apiserver.http.errors import bad_request, conflict, not_found
from pliant.embedded.apiserver.http.request_body import decode_object_body
from pliant.embedded.apiserver.http.request_info import RequestInfo
from pliant.embedded.apiserver.http.responses import created_status_response
from pliant.embedded.apiserver.streaming.logs import LogOptions, LogSource
from pliant.embedded.storage.object_index import ObjectIndex
from pliant.embedded.storage.store import Store, Transaction
from pliant.embedded.storage.stored_objects import Object, ObjectKey
from pliant.errors import ServerError
from pliant.kube.transport.base import Reply, StreamReply
from pliant.runtime.clock import Clock

_DEFAULT_CONTAINER_ANNOTATION = "kubectl.kubernetes.io/default-container"


async def bind_pod(store: Store, info: RequestInfo, clock: Clock) -> Reply:
    """Assign a pod to a node; raise `Conflict` if it already has one."""
    body = decode_object_body(info.request)
    name = info.name or (body.get("metadata") or {}).get("name") or ""
    node = (body.get("target") or {}).get("name")
    if not node or not name:
        raise bad_request("metadata.name, target.name: Required value")

    def bind(transaction: Transaction) -> None:
        current = transaction.get(ObjectKey("/pods", info.namespace, name))
        if current is None:
            raise not_found(info.kind, name)
        pod = current.decode()
        if current.is_terminating:
            detail = f"pod {name} is being deleted, cannot be assigned to a host"
            raise conflict(info.kind, name, detail, subresource_suffix="/binding")
        if pod["spec"].get("nodeName"):
            detail = f'pod {name} is already assigned to node "{pod["spec"]["nodeName"]}"'
            raise conflict(info.kind, name, detail, subresource_suffix="/binding")
        pod["spec"]["nodeName"] = node
        _set_scheduled_condition(pod, format_timestamp(clock.now()))
        transaction.put("/pods", pod)

    await store.write(bind, dry_run=info.is_dry_run)
    return created_status_response()


def read_pod_log(index: ObjectIndex, info: RequestInfo, log_source: LogSource | None, clock: Clock) -> StreamReply:
    """Stream the log of a container; raise `BadRequest`, as the kubelet does, when it has not started."""
    record = index.get(info.key)
    if record is None:
        raise not_found(info.kind, info.name)
    if log_source is None:
        raise ServerError(501, "NotImplemented", "no node serves container logs")
    pod = record.decode()
    options = LogOptions(
        follow=info.query_bool("follow"),
        previous=info.query_bool("previous"),
        timestamps=info.query_bool("timestamps"),
        tail_lines=info.query_int("tailLines"),
        since_ns=_since_nanoseconds(info, clock),
        limit_bytes=info.query_int("limitBytes"),
    )
    container = resolve_container(pod, info.query_text("container"))
    _require_log_available(pod, container, previous=options.previous)
    return StreamReply(status=200, chunks=log_source.read(pod, container, options), content_type="text/plain")


def _since_nanoseconds(info: RequestInfo, clock: Clock) -> int | None:
    """Return the Unix time in nanoseconds of sinceSeconds or sinceTime, or None."""
    seconds, time = info.query_int("sinceSeconds"), info.query_text("sinceTime")
    if seconds is not None and time:
        raise bad_request("at most one of `sinceTime` or `sinceSeconds` may be specified")
    if time:
        try:
            return int(datetime.fromisoformat(time).timestamp() * 1e9)
        except ValueError:
            detail = "must be an RFC 3339 time, for example 2026-01-02T15:04:05Z"
            raise bad_request(f'sinceTime: Invalid value: "{time}": {detail}') from None
    return None if seconds is None else int((clock.now().timestamp() - seconds) * 1e9)


def _set_scheduled_condition(pod: Object, at: str) -> None:
    status = pod.setdefault("status", {})
    others = [condition for condition in status.get("conditions") or () if condition.get("type") != "PodScheduled"]
    scheduled = {"type": "PodScheduled", "status": "True", "lastProbeTime": None, "lastTransitionTime": at}
    status["conditions"] = [*others, scheduled]


def resolve_container(pod: Object, requested_name: str) -> str:
    """Return the requested container, the default container of the pod, or its only container."""
    name, spec = pod["metadata"]["name"], pod["spec"]
    ordinary = [container["name"] for container in spec["containers"]]
    known = [*ordinary, *(container["name"] for container in spec.get("initContainers") or ())]
    if requested_name:
        if requested_name not in known:
            raise bad_request(f"container {requested_name} is not valid for pod {name}")
        return requested_name
    preferred = (pod["metadata"].get("annotations") or {}).get(_DEFAULT_CONTAINER_ANNOTATION)
    if preferred in known:
        return str(preferred)
    if len(ordinary) > 1:
        choices = " ".join(ordinary)
        raise bad_request(f"a container name must be specified for pod {name}, choose one of: [{choices}]")
    return str(ordinary[0])


def _require_log_available(pod: Object, container: str, *, previous: bool) -> None:
    name, status = pod["metadata"]["name"], pod.get("status") or {}
    if not pod["spec"].get("nodeName"):
        raise bad_request(f"pod {name} does not have a host assigned")
    reported = [*(status.get("containerStatuses") or ()), *(status.get("initContainerStatuses") or ())]
    own_status: Mapping[str, Any] = next((each for each in reported if each.get("name") == container), {})
    state, last = own_status.get("state") or {}, (own_status.get("lastState") or {}).get("terminated")
    if previous:
        if not last:
            raise bad_request(f'previous terminated container "{container}" in pod "{name}" not found')
        return
    if not (state.get("running") or state.get("terminated") or last):
        reason = (state.get("waiting") or {}).get("reason") or "ContainerCreating"
        raise bad_request(f'container "{container}" in pod "{name}" is waiting to start: {reason}')
