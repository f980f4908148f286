"""The log subresource of pods, and the interface through which the API server reads logs from a node."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol

from pliant.embedded.apiserver.http.errors import bad_request
from pliant.embedded.apiserver.http.request_info import RequestInfo
from pliant.embedded.storage.object_index import ObjectIndex
from pliant.embedded.storage.stored_objects import Object
from pliant.errors import ServerError
from pliant.kube.transport.base import StreamReply
from pliant.runtime.clock import Clock

_DEFAULT_CONTAINER_ANNOTATION = "kubectl.kubernetes.io/default-container"


@dataclass(frozen=True, slots=True, kw_only=True)
class LogOptions:
    """Options of the log subresource; `since_ns` is a Unix time in nanoseconds."""

    follow: bool = False
    tail_lines: int | None = None
    previous: bool = False
    since_ns: int | None = None
    timestamps: bool = False
    limit_bytes: int | None = None


class LogSource(Protocol):
    def read_container_log(self, pod: dict[str, Any], container: str, options: LogOptions) -> AsyncIterator[bytes]:
        """Yield chunks of the log; `follow` ends with the container. Raise `BadRequest` if it never started."""


def read_pod_log(index: ObjectIndex, info: RequestInfo, log_source: LogSource | None, clock: Clock) -> StreamReply:
    """Stream the log of a container; raise `BadRequest`, as the kubelet does, when it has not started."""
    pod = info.require_stored_object(index).decode()
    if log_source is None:
        raise ServerError(501, "NotImplemented", "no node serves container logs")
    options = parse_log_options(info, clock)
    container = resolve_container(pod, info.query_text("container"))
    _require_log_available(pod, container, previous=options.previous)
    return StreamReply(
        status=200, chunks=log_source.read_container_log(pod, container, options), content_type="text/plain"
    )


def parse_log_options(info: RequestInfo, clock: Clock) -> LogOptions:
    return LogOptions(
        follow=info.query_bool("follow"),
        previous=info.query_bool("previous"),
        timestamps=info.query_bool("timestamps"),
        tail_lines=info.query_int("tailLines"),
        since_ns=_since_nanoseconds(info, clock),
        limit_bytes=info.query_int("limitBytes"),
    )


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


def resolve_container(pod: Object, requested_name: str) -> str:
    """Return the requested container, the default container of the pod, or its only container."""
    name, spec = pod["metadata"]["name"], pod["spec"]
    ordinary = [container["name"] for container in spec["containers"]]
    groups = ("containers", "initContainers", "ephemeralContainers")
    known = [container["name"] for group in groups for container in spec.get(group) or ()]
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
    fields = ("containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses")
    reported = [each for field in fields for each in status.get(field) or ()]
    own_status: Mapping[str, Any] = next((each for each in reported if each.get("name") == container), {})
    state, last = own_status.get("state") or {}, (own_status.get("lastState") or {}).get("terminated")
    if previous:
        if not last:
            raise bad_request(f'previous terminated container "{container}" in pod "{name}" not found')
        return
    if not (state.get("running") or state.get("terminated") or last):
        reason = (state.get("waiting") or {}).get("reason") or "ContainerCreating"
        raise bad_request(f'container "{container}" in pod "{name}" is waiting to start: {reason}')
