"""The fields that a write cannot change: those of the server, of other endpoints, and the identity of the object."""

from __future__ import annotations

from typing import Any

from pliant.embedded.apiserver.admission.cluster_ip_allocator import SERVICES_RESOURCE_KEY
from pliant.embedded.apiserver.admission.validation.configuration import IMMUTABLE_MESSAGE
from pliant.embedded.apiserver.admission.validation.namespaces import with_name_label
from pliant.embedded.apiserver.admission.validation.pod_update import FORBIDDEN_POD_UPDATE_MESSAGE
from pliant.embedded.apiserver.handlers.object_lifecycle import NAMESPACES_RESOURCE_KEY, PODS_RESOURCE_KEY
from pliant.embedded.apiserver.http import errors
from pliant.embedded.apiserver.http.request_info import RequestInfo
from pliant.embedded.apiserver.patch.status_metadata import WRITABLE_BY_STATUS
from pliant.embedded.registry.kinds import Kind
from pliant.embedded.schema import FieldError
from pliant.embedded.storage.stored_objects import Object

_SERVER_OWNED_METADATA = ("uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "generation")
OVERWRITTEN_METADATA = tuple(field for field in _SERVER_OWNED_METADATA if field != "generation")
_OMIT_EMPTY_METADATA = ("generateName", "labels", "annotations", "finalizers", "ownerReferences")
_BYTES_FIELDS = {"/configmaps": "binaryData", "/secrets": "data"}
_EXTERNAL_TYPES = ("NodePort", "LoadBalancer")
_REFUSED_METADATA = ("deletionTimestamp", "deletionGracePeriodSeconds")
"""Fields of `_SERVER_OWNED_METADATA` of which a change is an error; other ones are restored."""


def restore_protected_fields(info: RequestInfo, old: Object, new: Object) -> Object:
    """Undo the changes of fields that the endpoint of the request cannot write."""
    if info.subresource == "status":
        result = {field: value for field, value in old.items() if field != "status"}
        if info.kind.resource_key in WRITABLE_BY_STATUS:
            result["metadata"] = _with_written_metadata(old["metadata"], new["metadata"], info.kind.resource_key)
            if info.is_dry_run and new["metadata"].get("selfLink"):
                result["metadata"]["selfLink"] = new["metadata"]["selfLink"]
        return {**result, "status": new["status"]} if "status" in new else result
    if info.kind.has_status:
        new.pop("status", None)
        if "status" in old:
            new["status"] = old["status"]
    if info.kind.resource_key == NAMESPACES_RESOURCE_KEY and info.subresource != "finalize":
        finalizers = (old.get("spec") or {}).get("finalizers")
        new["spec"] = {"finalizers": finalizers} if finalizers else {}
    if info.kind.resource_key == PODS_RESOURCE_KEY and info.subresource != "ephemeralcontainers":
        _restore_ephemeral_containers(old, new.setdefault("spec", {}))
    metadata = new["metadata"]
    for field in (*_SERVER_OWNED_METADATA, "managedFields"):
        if field not in _refused_metadata(old["metadata"]) or metadata.get(field) is None:
            metadata.pop(field, None)
        if field in old["metadata"] and field not in metadata:
            metadata[field] = old["metadata"][field]
    drop_unset_metadata(metadata, keeps_self_link=info.is_dry_run)
    metadata["name"] = old["metadata"]["name"]
    metadata.pop("namespace", None)
    if "namespace" in old["metadata"]:
        metadata["namespace"] = old["metadata"]["namespace"]
    return new


def find_restored_fields(info: RequestInfo, old: Object, new: Object) -> Object | None:
    """Return the fields that their writer manages with other values than those that are stored, None if there are none.

    These are the finalizers in the spec of a namespace, whose labels include those that it has by default, and what a
    service had as a type that is reachable from outside: it is dropped later.
    """
    if info.subresource or info.kind.resource_key not in (SERVICES_RESOURCE_KEY, NAMESPACES_RESOURCE_KEY):
        return None
    there, here = (each.get("spec") or {} for each in (old, new))
    if info.kind.resource_key == SERVICES_RESOURCE_KEY:
        loses_fields = there.get("type") in _EXTERNAL_TYPES and here.get("type") != there["type"]
        return {} if loses_fields else None
    finalizers = here.get("finalizers") or []
    if finalizers == (there.get("finalizers") or []):
        return None
    return {"spec": {"finalizers": finalizers} if finalizers else {}, "metadata": with_name_label(new)["metadata"]}


def find_changed_ephemeral_containers(info: RequestInfo, old: Object, new: Object) -> list[FieldError]:
    """Return the error of an update of a pod that changes its ephemeral containers: they have their own subresource.

    API servers report it only for a pod that keeps its other containers.
    """
    spec: Any = new.get("spec")
    if info.kind.resource_key != PODS_RESOURCE_KEY or info.subresource or not isinstance(spec, dict):
        return []
    if (spec.get("ephemeralContainers") or []) == (old["spec"].get("ephemeralContainers") or []):
        return []
    groups = ("containers", "initContainers")
    if any(len(spec.get(group) or ()) != len(old["spec"].get(group) or ()) for group in groups):
        return []
    return [errors.forbidden_field("spec", FORBIDDEN_POD_UPDATE_MESSAGE)]


def written_empty_bytes(kind: Kind, obj: Object) -> Object:
    """Return the empty map of bytes of a ConfigMap or Secret, which is a change of an immutable one without any."""
    field = _BYTES_FIELDS.get(kind.resource_key, "")
    return {field: {}} if field and obj.get(field) == {} else {}


def take_written_empty_bytes(info: RequestInfo, old: Object, new: Object) -> list[FieldError]:
    """Remove the empty map of bytes of a ConfigMap or Secret; return its error if the old one is immutable without any.

    API servers compare it with what they stored, which is no map.
    """
    field = _BYTES_FIELDS.get(info.kind.resource_key, "")
    if not field or new.get(field) != {}:
        return []
    del new[field]
    is_refused = old.get("immutable") and field not in old
    return [errors.forbidden_field(field, IMMUTABLE_MESSAGE)] if is_refused else []


def _restore_ephemeral_containers(old: Object, spec: Object) -> None:
    spec.pop("ephemeralContainers", None)
    if "ephemeralContainers" in old["spec"]:
        spec["ephemeralContainers"] = old["spec"]["ephemeralContainers"]


def _refused_metadata(old: Object) -> tuple[str, ...]:
    """Return the fields that a client must not change; the time of a deletion that has begun is restored instead."""
    return tuple(field for field in _REFUSED_METADATA if field != "deletionTimestamp" or not old.get(field))


def _with_written_metadata(old: Object, new: Object, resource: str) -> Object:
    """Return metadata with the fields that a write of the status also writes."""
    fields = WRITABLE_BY_STATUS[resource]
    written = {field: new[field] for field in fields if new.get(field)}
    for field in _refused_metadata(old):
        is_ignored = resource == PODS_RESOURCE_KEY and field == "deletionTimestamp"
        if new.get(field) is not None and not is_ignored:
            written[field] = new[field]
    return {**{field: value for field, value in old.items() if field not in fields}, **written}


def drop_unset_metadata(metadata: Object, *, keeps_self_link: bool = False) -> None:
    """Remove the fields that are not stored; the answer to a dry run shows a link that the client wrote."""
    if not keeps_self_link:
        metadata.pop("selfLink", None)
    for field in _OMIT_EMPTY_METADATA:
        if not metadata.get(field, True):
            del metadata[field]
