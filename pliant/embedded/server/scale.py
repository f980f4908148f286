"""The scale subresource: one number of an object, read and changed through autoscaling/v1."""

from __future__ import annotations

from typing import Any

from pliant.embedded.catalog.kinds import Kind, ScalePaths
from pliant.embedded.schema import Problem, Reason, copied, invalid
from pliant.embedded.server.answers import json_reply
from pliant.embedded.server.bodies import read_body
from pliant.embedded.server.calls import Call
from pliant.embedded.server.patches import apply_patch, read_patch
from pliant.embedded.server.refusals import absent, no_such_path, outdated, senseless
from pliant.embedded.server.writes import Writer
from pliant.embedded.storage.records import Object
from pliant.embedded.storage.shelves import Shelves
from pliant.errors import ServerError
from pliant.kube.transport import Reply


def read_scale(shelves: Shelves, call: Call) -> Reply:
    """The size of an object."""
    record = shelves.get(call.key)
    if record is None:
        raise absent(call.kind, call.name)
    obj, paths = record.decode(), _paths(call.kind)
    if _at(obj, paths.spec) is None:
        why = f'the spec replicas field "{paths.spec}" does not exist'
        raise ServerError(
            500, "InternalError", f"Internal error occurred: {why}", details={"causes": [{"message": why}]}
        )
    return json_reply(scale_of(call.kind, obj))


async def write_scale(writer: Writer, call: Call) -> Reply:
    """Change the size of an object, and nothing else."""
    if call.request.method == "PATCH":
        media, patch = read_patch(call)
        stated = None
    else:
        media, patch, stated = "", None, read_body(call.request)

    def resized(old: Object) -> Object:
        before = scale_of(call.kind, old)
        wanted = stated if stated is not None else apply_patch(media, before, patch)
        _require_same(call, before, wanted)
        new: Object = copied(old)
        _put(new, _paths(call.kind).spec, _replicas(call, wanted))
        return new

    record = await writer.change(call, resized, unconditional=True)
    return json_reply(scale_of(call.kind, record.decode()))


def scale_of(kind: Kind, obj: Object) -> dict[str, Any]:
    """An object seen as a Scale."""
    paths, metadata = _paths(kind), obj["metadata"]
    shown = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
    status: dict[str, Any] = {"replicas": _at(obj, paths.status) or 0}
    if paths.selector and (selector := _at(obj, paths.selector)):
        status["selector"] = selector
    return {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": {field: metadata[field] for field in shown if field in metadata},
        "spec": {"replicas": _at(obj, paths.spec) or 0},
        "status": status,
    }


def _require_same(call: Call, before: dict[str, Any], wanted: Any) -> None:
    if not isinstance(wanted, dict) or not isinstance(wanted.get("metadata", {}), dict):
        raise senseless("the body of the request must be a Scale")
    metadata = wanted.get("metadata", {})
    if metadata.get("name") not in (None, "", call.name):
        raise senseless(
            f"the name of the object ({metadata['name']}) does not match the name on the URL ({call.name})"
        )
    for field in ("resourceVersion", "uid"):
        if metadata.get(field) and metadata[field] != before["metadata"][field]:
            raise outdated(call.kind, call.name)


def _replicas(call: Call, wanted: dict[str, Any]) -> int:
    replicas = (wanted.get("spec") or {}).get("replicas", 0)
    if not isinstance(replicas, int) or isinstance(replicas, bool) or not 0 <= replicas < 2**31:
        why = Problem.of("spec.replicas", Reason.INVALID, replicas, "must be greater than or equal to 0")
        raise invalid("Scale", "autoscaling", call.name, [why])
    return replicas


def _paths(kind: Kind) -> ScalePaths:
    if kind.scale is None:
        raise no_such_path()
    return kind.scale


def _at(obj: Object, path: str) -> Any:
    value: Any = obj
    for part in path.strip(".").split("."):
        value = value.get(part) if isinstance(value, dict) else None
    return value


def _put(obj: Object, path: str, value: Any) -> None:
    *parents, last = path.strip(".").split(".")
    for part in parents:
        inner = obj.get(part)
        if not isinstance(inner, dict):
            inner = obj[part] = {}
        obj = inner
    obj[last] = value
