"""What pods alone can do: be bound to a node, and be asked for their logs."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from pliant.embedded.server.answers import json_reply
from pliant.embedded.server.bodies import read_body
from pliant.embedded.server.calls import Call
from pliant.embedded.server.lifecycle import timestamp
from pliant.embedded.server.logs import LogOptions, LogSource
from pliant.embedded.server.refusals import absent, outdated, senseless
from pliant.embedded.storage.records import Key, Object
from pliant.embedded.storage.shelves import Shelves
from pliant.embedded.storage.store import Store, Transaction
from pliant.errors import ServerError
from pliant.kube.transport import Reply, StreamReply
from pliant.runtime.clock import Clock

_DEFAULT_CONTAINER = "kubectl.kubernetes.io/default-container"


async def bind(store: Store, call: Call, clock: Clock) -> Reply:
    """Give a pod to a node, once."""
    body = read_body(call.request)
    name = call.name or (body.get("metadata") or {}).get("name") or ""
    node = (body.get("target") or {}).get("name")
    if not node or not name:
        raise senseless("a binding needs metadata.name and target.name")

    def decide(transaction: Transaction) -> None:
        current = transaction.get(Key("/pods", call.namespace, name))
        if current is None:
            raise absent(call.kind, name)
        pod = current.decode()
        if current.leaving:
            why = f"pod {name} is being deleted, cannot be assigned to a host"
            raise outdated(call.kind, name, why, part="/binding")
        if pod["spec"].get("nodeName"):
            why = f'pod {name} is already assigned to node "{pod["spec"]["nodeName"]}"'
            raise outdated(call.kind, name, why, part="/binding")
        pod["spec"]["nodeName"] = node
        _note_scheduled(pod, timestamp(clock.now()))
        transaction.put("/pods", pod)

    await store.write(decide, dry_run=call.is_dry_run)
    return json_reply(
        {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}, 201
    )


def read_log(shelves: Shelves, call: Call, source: LogSource | None, clock: Clock) -> StreamReply:
    """What a container wrote; refused, as a kubelet would, when it has not run."""
    record = shelves.get(call.key)
    if record is None:
        raise absent(call.kind, call.name)
    if source is None:
        raise ServerError(501, "NotImplemented", "this server has no node to read logs from")
    pod = record.decode()
    options = LogOptions(
        follow=call.flag("follow"),
        previous=call.flag("previous"),
        timestamps=call.flag("timestamps"),
        tail_lines=call.number("tailLines"),
        since=_since(call, clock),
        limit_bytes=call.number("limitBytes"),
    )
    container = container_of(pod, call.text("container"))
    _require_run(pod, container, previous=options.previous)
    return StreamReply(status=200, chunks=source.read(pod, container, options), content_type="text/plain")


def _since(call: Call, clock: Clock) -> int | None:
    """The moment from which on output is wanted, in nanoseconds since 1970."""
    seconds, time = call.number("sinceSeconds"), call.text("sinceTime")
    if seconds is not None and time:
        raise senseless("sinceSeconds and sinceTime: at most one of them may be given")
    if time:
        try:
            return int(datetime.fromisoformat(time).timestamp() * 1e9)
        except ValueError:
            raise senseless(f'sinceTime: "{time}" is not a time such as 2026-01-02T15:04:05Z') from None
    return None if seconds is None else int((clock.now().timestamp() - seconds) * 1e9)


def _note_scheduled(pod: Object, at: str) -> None:
    status = pod.setdefault("status", {})
    others = [condition for condition in status.get("conditions") or () if condition.get("type") != "PodScheduled"]
    scheduled = {"type": "PodScheduled", "status": "True", "lastProbeTime": None, "lastTransitionTime": at}
    status["conditions"] = [*others, scheduled]


def container_of(pod: Object, asked: str) -> str:
    """The container a request is about: the one it names, or the one it can only mean."""
    name, spec = pod["metadata"]["name"], pod["spec"]
    ordinary = [container["name"] for container in spec["containers"]]
    known = [*ordinary, *(container["name"] for container in spec.get("initContainers") or ())]
    if asked:
        if asked not in known:
            raise senseless(f"container {asked} is not valid for pod {name}")
        return asked
    preferred = (pod["metadata"].get("annotations") or {}).get(_DEFAULT_CONTAINER)
    if preferred in known:
        return str(preferred)
    if len(ordinary) > 1:
        choice = " ".join(ordinary)
        raise senseless(f"a container name must be specified for pod {name}, choose one of: [{choice}]")
    return str(ordinary[0])


def _require_run(pod: Object, container: str, *, previous: bool) -> None:
    name, status = pod["metadata"]["name"], pod.get("status") or {}
    if not pod["spec"].get("nodeName"):
        raise senseless(f"pod {name} does not have a host assigned")
    reported = [*(status.get("containerStatuses") or ()), *(status.get("initContainerStatuses") or ())]
    own: Mapping[str, Any] = next((each for each in reported if each.get("name") == container), {})
    state, last = own.get("state") or {}, (own.get("lastState") or {}).get("terminated")
    if previous:
        if not last:
            raise senseless(f'previous terminated container "{container}" in pod "{name}" not found')
        return
    if not (state.get("running") or state.get("terminated") or last):
        why = (state.get("waiting") or {}).get("reason") or "ContainerCreating"
        raise senseless(f'container "{container}" in pod "{name}" is waiting to start: {why}')
