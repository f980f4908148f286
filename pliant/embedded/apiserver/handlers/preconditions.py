"""What must hold before a write: its namespace is active, and the version and UID that it names are those stored."""

from __future__ import annotations

from pliant.embedded.apiserver.handlers.object_lifecycle import NAMESPACES_RESOURCE_KEY
from pliant.embedded.apiserver.http import errors
from pliant.embedded.apiserver.http.request_info import RequestInfo
from pliant.embedded.registry.kinds import Kind
from pliant.embedded.schema import FieldError, invalid_error
from pliant.embedded.storage.store import Transaction
from pliant.embedded.storage.stored_objects import Object, ObjectKey


def require_active_namespace(transaction: Transaction, kind: Kind, namespace: str, metadata: Object) -> None:
    if not kind.namespaced:
        return
    record = transaction.get(ObjectKey(NAMESPACES_RESOURCE_KEY, "", namespace))
    if record is None:
        raise errors.namespace_not_found(namespace)
    if record.is_terminating:
        detail = f"unable to create new content in namespace {namespace} because it is being terminated"
        error = errors.forbidden(kind, metadata.get("name") or "", detail)
        cause = {"reason": "NamespaceTerminating", "message": f"namespace {namespace} is being terminated"}
        error.details["causes"] = [{**cause, "field": "metadata.namespace"}]
        raise error


def drop_applied_version(metadata: Object) -> None:
    """Ignore the version that an applied object has in its manifest, as long as it is one."""
    version = str(metadata.pop("resourceVersion", None) or "0")
    if not version.isdecimal():
        raise errors.bad_request(f"metadata.resourceVersion: Invalid value: {version!r}: must be a number")


def require_no_uid(info: RequestInfo, obj: Object) -> None:
    """Raise `Conflict` if an update names the UID of an object that does not exist."""
    uid = (obj.get("metadata") or {}).get("uid")
    if uid:
        detail = f"Precondition failed: UID in precondition: {uid}, UID in object meta: "
        raise errors.conflict(info.kind, info.name, detail)


def require_version_number(obj: Object) -> None:
    version = obj["metadata"].get("resourceVersion")
    if version and not version.isdecimal():
        raise errors.bad_request(f"metadata.resourceVersion: Invalid value: {version!r}: must be a number")


def require_preconditions(
    info: RequestInfo, old: Object, new: Object, *, allow_unconditional: bool
) -> list[FieldError]:
    """Return the error of a changed UID, which is reported with those of the other fields."""
    version, uid, old_uid = new["metadata"].get("resourceVersion"), new["metadata"].get("uid"), old["metadata"]["uid"]
    if uid and uid != old_uid and info.request.method == "PUT":
        detail = f"Precondition failed: UID in precondition: {uid}, UID in object meta: {old_uid}"
        raise errors.conflict(info.kind, info.name, detail)
    if not version and not allow_unconditional:
        error = errors.invalid_field("metadata.resourceVersion", 0, "must be specified for an update")
        # Here, API servers name the resource instead of the kind.
        raise invalid_error(info.kind.plural, info.kind.group, info.name, [error])
    require_version_number(new)
    if version and version != old["metadata"]["resourceVersion"]:
        raise errors.conflict(info.kind, info.name)
    if uid and uid != old_uid:
        return [errors.invalid_field("metadata.uid", uid, "field is immutable")]
    return []
