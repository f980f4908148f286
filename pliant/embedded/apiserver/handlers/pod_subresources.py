"""What pods alone can do: be bound to a node, and be asked for their logs."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from pliant.embedded.apiserver.handlers.object_lifecycle import format_timestamp
from pliant.embedded.apiserver.http.errors import bad_request, conflict, not_found
from pliant.embedded.apiserver.http.request_body import decode_object_body
from pliant.embedded.apiserver.http.request_info import RequestInfo
from pliant.embedded.apiserver.http.responses import json_response
from pliant.embedded.apiserver.streaming.logs import LogOptions, LogSource
from pliant.embedded.storage.object_index import ObjectIndex
from pliant.embedded.storage.store import Store, Transaction
from pliant.embedded.storage.stored_objects import Object, ObjectKey
from pliant.errors import ServerError
from pliant.kube.transport.base import Reply, StreamReply
from pliant.runtime.clock import Clock

_DEFAULT_CONTAINER_ANNOTATION = "kubectl.kubernetes.io/default-container"


async def bind_pod(store: Store, info: RequestInfo, clock: Clock) -> Reply:
    """Give a pod to a node, once."""
    body = decode_object_body(info.request)
    name = info.name or (body.get("metadata") or {}).get("name") or ""
    node = (body.get("target") or {}).get("name")
    if not node or not name:
        raise bad_request("a binding needs metadata.name and target.name")

    def decide(transaction: Transaction) -> None:
        current = transaction.get(ObjectKey("/pods", info.namespace, name))
        if current is None:
            raise not_found(info.kind, name)
        pod = current.decode()
        if current.is_terminating:
            why = f"pod {name} is being deleted, cannot be assigned to a host"
            raise conflict(info.kind, name, why, subresource_suffix="/binding")
        if pod["spec"].get("nodeName"):
            why = f'pod {name} is already assigned to node "{pod["spec"]["nodeName"]}"'
            raise conflict(info.kind, name, why, subresource_suffix="/binding")
        pod["spec"]["nodeName"] = node
        _set_scheduled_condition(pod, format_timestamp(clock.now()))
        transaction.put("/pods", pod)

    await store.write(decide, dry_run=info.is_dry_run)
    return json_response({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}, 201)


def read_pod_log(index: ObjectIndex, info: RequestInfo, log_source: LogSource | None, clock: Clock) -> StreamReply:
    """What a container wrote; refused, as a kubelet would, when it has not run."""
    record = index.get(info.key)
    if record is None:
        raise not_found(info.kind, info.name)
    if log_source is None:
        raise ServerError(501, "NotImplemented", "this server has no node to read logs from")
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
    """The moment from which on output is wanted, in nanoseconds since 1970."""
    seconds, time = info.query_int("sinceSeconds"), info.query_text("sinceTime")
    if seconds is not None and time:
        raise bad_request("sinceSeconds and sinceTime: at most one of them may be given")
    if time:
        try:
            return int(datetime.fromisoformat(time).timestamp() * 1e9)
        except ValueError:
            raise bad_request(f'sinceTime: "{time}" is not a time such as 2026-01-02T15:04:05Z') from None
    return None if seconds is None else int((clock.now().timestamp() - seconds) * 1e9)


def _set_scheduled_condition(pod: Object, at: str) -> None:
    status = pod.setdefault("status", {})
    others = [condition for condition in status.get("conditions") or () if condition.get("type") != "PodScheduled"]
    scheduled = {"type": "PodScheduled", "status": "True", "lastProbeTime": None, "lastTransitionTime": at}
    status["conditions"] = [*others, scheduled]


def resolve_container(pod: Object, requested_name: str) -> str:
    """The container a request is about: the one it names, or the one it can only mean."""
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
        choice = " ".join(ordinary)
        raise bad_request(f"a container name must be specified for pod {name}, choose one of: [{choice}]")
    return str(ordinary[0])


def _require_log_available(pod: Object, container: str, *, previous: bool) -> None:
    name, status = pod["metadata"]["name"], pod.get("status") or {}
    if not pod["spec"].get("nodeName"):
        raise bad_request(f"pod {name} does not have a host assigned")
    reported = [*(status.get("containerStatuses") or ()), *(status.get("initContainerStatuses") or ())]
    own: Mapping[str, Any] = next((each for each in reported if each.get("name") == container), {})
    state, last = own.get("state") or {}, (own.get("lastState") or {}).get("terminated")
    if previous:
        if not last:
            raise bad_request(f'previous terminated container "{container}" in pod "{name}" not found')
        return
    if not (state.get("running") or state.get("terminated") or last):
        why = (state.get("waiting") or {}).get("reason") or "ContainerCreating"
        raise bad_request(f'container "{container}" in pod "{name}" is waiting to start: {why}')
