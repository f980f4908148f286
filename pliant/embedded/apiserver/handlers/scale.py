"""The scale subresource: reads and changes the replica count of an object as an autoscaling/v1 Scale."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final

from pliant.embedded.apiserver.admission.validation.scale_fields import get_field_at
from pliant.embedded.apiserver.handlers.apply import ObjectApplier
from pliant.embedded.apiserver.handlers.preconditions import require_uid
from pliant.embedded.apiserver.handlers.write_checks import require_matching_name, validate_write_options
from pliant.embedded.apiserver.handlers.writes import ObjectWriter
from pliant.embedded.apiserver.http.errors import (
    bad_request,
    conflict,
    internal_error,
    invalid_field,
    invalid_patch,
    path_not_found,
    require_type,
    unexpected_error,
)
from pliant.embedded.apiserver.http.request_body import decode_object_body, object_field
from pliant.embedded.apiserver.http.request_info import RequestInfo
from pliant.embedded.apiserver.http.responses import json_response
from pliant.embedded.apiserver.patch.patches import apply_patch, read_patch
from pliant.embedded.apiserver.patch.server_side_apply import ApplyRequest, is_apply_patch
from pliant.embedded.apiserver.protobuf.typed_objects import read_typed_object
from pliant.embedded.apiserver.protobuf.typed_values import TypeMismatch
from pliant.embedded.label_selectors import format_label_selector
from pliant.embedded.registry.kinds import Kind, ScaleFieldPaths
from pliant.embedded.schema import deep_copy, invalid_error
from pliant.embedded.schema.metadata import validate_metadata
from pliant.embedded.storage.object_index import ObjectIndex
from pliant.embedded.storage.stored_objects import Object
from pliant.errors import Invalid
from pliant.kube.transport.base import Reply

_API_VERSION: Final = "autoscaling/v1"
_UNSET_REPLICAS: Final = -(2**31)
"""The replicas in a Scale of a custom object that has none; they must be set."""


def get_scale(index: ObjectIndex, info: RequestInfo) -> Reply:
    obj, paths = info.require_stored_object(index).decode(), _scale_paths(info.kind)
    if get_field_at(obj, paths.spec_replicas) is None:
        detail = f'the spec replicas field "{paths.spec_replicas}" does not exist'
        raise internal_error(detail)
    return json_response(to_scale(info.kind, obj))


async def update_scale(writer: ObjectWriter, info: RequestInfo, now: datetime) -> Reply:
    """Change the replica count of an object by an update, a patch or an apply of its Scale."""
    validate_write_options(info)
    if is_apply_patch(info):
        return await _apply_scale(writer.applier, info, now)
    is_patch = info.request.method == "PATCH"
    media, body = read_patch(info) if is_patch else ("", _read_scale(info, decode_object_body(info.request)))

    def with_new_scale(old: Object) -> Object:
        new_scale = _patch_scale(info, old, media, body) if is_patch else body
        metadata = new_scale.get("metadata") or {}
        require_uid(info, metadata.get("uid"), old["metadata"]["uid"])
        replicas = _parse_replicas(info, new_scale)
        if info.kind.is_custom and replicas == _UNSET_REPLICAS:
            raise bad_request(f'the spec replicas field "{_scale_paths(info.kind).spec_replicas}" cannot be empty')
        _require_valid_scale(info, metadata, replicas)
        _require_uid_of_workload(info, metadata, old["metadata"]["uid"])
        new: Object = deep_copy(old)
        if version := metadata.get("resourceVersion"):
            new["metadata"]["resourceVersion"] = version
        _set_field(new, _scale_paths(info.kind).spec_replicas, replicas)
        return new

    record = await writer.update_by_function(
        info, with_new_scale, allow_missing_resource_version=True, to_admitted=lambda obj: to_scale(info.kind, obj)
    )
    return json_response(to_scale(info.kind, record.decode()))


async def _apply_scale(applier: ObjectApplier, info: RequestInfo, now: datetime) -> Reply:
    """Apply a Scale: its manager owns the replica count of the object."""
    request = ApplyRequest.from_request(info, now)
    applier.require_stored_object(info)
    scale = _read_scale(info, request.desired)
    desired: Object = {"apiVersion": info.kind.api_version, "kind": info.kind.kind, "metadata": {}}
    replicas = _parse_replicas(info, scale)
    if "replicas" in (scale.get("spec") or {}):
        _set_field(desired, _scale_paths(info.kind).spec_replicas, replicas)
    try:
        record = await applier.apply_by_request(
            info, request.for_object(desired), to_admitted=lambda obj: to_scale(info.kind, obj)
        )
    except Invalid:  # conflicts come first; of an invalid Scale, its own errors are reported
        _require_valid_scale(info, scale.get("metadata") or {}, replicas)
        raise
    return json_response(to_scale(info.kind, record.decode()))


def _read_scale(info: RequestInfo, scale: Any) -> Object:
    """Return the Scale in a request, which has a name, unless it is applied."""
    if not isinstance(scale, dict) or not isinstance(scale.get("metadata") or {}, dict):
        raise bad_request("the body of the request must be a Scale")
    is_apply = is_apply_patch(info)
    typed = scale if is_apply else {**scale, "kind": scale.get("kind") or "Scale"}
    require_type({**typed, "apiVersion": typed.get("apiVersion") or _API_VERSION}, _API_VERSION, "Scale")
    if not is_apply:
        _read_values(info, scale)
        require_matching_name(info, scale.get("metadata") or {})
    return scale


def _patch_scale(info: RequestInfo, obj: Object, media: str, patch: Any) -> Object:
    """Return the patched Scale of an object."""
    scale = to_scale(info.kind, obj)
    if info.kind.is_custom and get_field_at(obj, _scale_paths(info.kind).spec_replicas) is None:
        scale["spec"] = {"replicas": _UNSET_REPLICAS}
    new = apply_patch(media, scale, patch)
    _read_values(info, new)
    require_matching_name(info, new.get("metadata") or {})
    return new


def _read_values(info: RequestInfo, scale: Object) -> None:
    """Read the values of a Scale as the types of their fields."""
    try:
        read_typed_object(_API_VERSION, "Scale", scale)
    except TypeMismatch as error:
        if info.request.method == "PATCH":
            raise invalid_patch(str(error)) from None
        raise bad_request(f"Scale cannot be handled: {error}") from None


def _require_uid_of_workload(info: RequestInfo, metadata: Object, uid: str) -> None:
    """Raise `Conflict` if a Scale has another UID than its object; those of custom objects may."""
    named = metadata.get("uid")
    if named and named != uid and not info.kind.is_custom:
        detail = f"Precondition failed: UID in precondition: {named}, UID in object meta: {uid}"
        raise conflict(info.kind, info.name, detail)


def _require_valid_scale(info: RequestInfo, metadata: Object, replicas: int) -> None:
    """Raise `Invalid` for a Scale that is invalid itself; those of custom objects are validated as part of these."""
    if info.kind.is_custom:
        return
    found = validate_metadata(metadata)
    if replicas < 0:
        found.append(invalid_field("spec.replicas", replicas, "must be greater than or equal to 0"))
    if found:
        raise invalid_error("Scale", "autoscaling", info.name, found)


def to_scale(kind: Kind, obj: Object) -> dict[str, Any]:
    paths, metadata = _scale_paths(kind), obj["metadata"]
    replicas = get_field_at(obj, paths.spec_replicas) or 0
    fields = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
    status: dict[str, Any] = {"replicas": get_field_at(obj, paths.status_replicas) or 0}
    if paths.label_selector and (selector := get_field_at(obj, paths.label_selector)):
        status["selector"] = selector if isinstance(selector, str) else format_label_selector(selector)
    return {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": {field: metadata[field] for field in fields if field in metadata},
        "spec": {"replicas": replicas} if replicas else {},  # 0 is omitted, as by API servers
        "status": status,
    }


def _parse_replicas(info: RequestInfo, new_scale: dict[str, Any]) -> int:
    """Return the number of replicas; the validation of the object reports one that is out of range."""
    replicas = object_field(new_scale, "spec").get("replicas")
    replicas = 0 if replicas is None else replicas
    if not isinstance(replicas, int) or isinstance(replicas, bool) or not -(2**31) <= replicas < 2**31:
        if is_apply_patch(info):
            problem = f".spec.replicas: expected numeric (int or float), got {replicas!r:.60}"
            raise unexpected_error(f"failed to create typed patch object: {problem}")
        if info.request.method == "PATCH":
            raise invalid_patch(f"spec.replicas: must be an integer, not {replicas!r:.60}")
        raise bad_request(f"Scale cannot be handled: spec.replicas: must be an integer, not {replicas!r:.60}")
    return replicas


def _scale_paths(kind: Kind) -> ScaleFieldPaths:
    if kind.scale is None:
        raise path_not_found()
    return kind.scale


def _set_field(obj: Object, path: str, value: Any) -> None:
    *parents, last = path.strip(".").split(".")
    for part in parents:
        inner = obj.get(part)
        if not isinstance(inner, dict):
            inner = obj[part] = {}
        obj = inner
    obj[last] = value
