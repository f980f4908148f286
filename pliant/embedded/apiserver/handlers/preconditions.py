"""What must hold before a write: its namespace is active, and the version and UID that it names are those stored."""

from __future__ import annotations

from pliant.embedded.apiserver.admission.admission import CRDS_RESOURCE_KEY
from pliant.embedded.apiserver.handlers.object_lifecycle import NAMESPACES_RESOURCE_KEY
from pliant.embedded.apiserver.handlers.protected_fields import (
    find_changed_ephemeral_containers,
    take_written_empty_bytes,
)
from pliant.embedded.apiserver.http import errors
from pliant.embedded.apiserver.http.request_info import RequestInfo
from pliant.embedded.registry.kinds import Kind
from pliant.embedded.schema import FieldError, invalid_error
from pliant.embedded.storage.store import Transaction
from pliant.embedded.storage.stored_objects import Object, ObjectKey
from pliant.errors import Conflict

_MAX_VERSION_DIGITS = 20
_SPECIAL_PREFIXES = {"nodes": "minions", "services": "services/specs", "endpoints": "services/endpoints"}


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


def require_no_uid(info: RequestInfo, obj: Object) -> None:
    """Raise `Conflict` if an update names the UID of an object that does not exist."""
    uid = (obj.get("metadata") or {}).get("uid")
    if uid:
        raise _uid_conflict(info, uid, "")


def require_uid(info: RequestInfo, uid: str | None, old_uid: str) -> None:
    """Raise `Conflict` if an update names another UID than that of the object."""
    if uid and uid != old_uid and info.request.method == "PUT":
        raise _uid_conflict(info, uid, old_uid)


def is_version(text: str) -> bool:
    """Return whether a new object must not have this version; API servers ignore what is none."""
    return text.isascii() and text.isdecimal() and len(text) <= _MAX_VERSION_DIGITS and 0 < int(text) < 2**64


def parse_resource_version(metadata: Object) -> int:
    """Return the version that an object names, 0 if it names none."""
    return errors.parse_version("metadata.resourceVersion", metadata.get("resourceVersion") or "0")


def require_preconditions(
    info: RequestInfo, old: Object, new: Object, *, allow_unconditional: bool
) -> list[FieldError]:
    """Return the errors of what the endpoint cannot change, which are reported with those of the other fields."""
    uid, old_uid = new["metadata"].get("uid"), old["metadata"]["uid"]
    require_uid(info, uid, old_uid)
    version = parse_resource_version(new["metadata"])
    if not version and not allow_unconditional:
        error = errors.invalid_field("metadata.resourceVersion", 0, "must be specified for an update")
        # Here, API servers name the resource instead of the kind.
        raise invalid_error(info.kind.plural, info.kind.group, info.name, [error])
    if version and str(version) != old["metadata"]["resourceVersion"]:
        raise errors.conflict(info.kind, info.name)
    found = []
    if uid and uid != old_uid and not (info.kind.is_custom and info.subresource == "status"):
        found.append(errors.invalid_field("metadata.uid", uid, "field is immutable"))
    found += take_written_empty_bytes(info, old, new)
    return [*found, *find_changed_ephemeral_containers(info, old, new)]


def _uid_conflict(info: RequestInfo, uid: str, old_uid: str) -> Conflict:
    key = "/".join(filter(None, (_storage_prefix(info.kind), info.namespace, info.name)))
    if not info.is_dry_run:
        key = f"registry/{key}"
    problem = f"Precondition failed: UID in precondition: {uid}, UID in object meta: {old_uid}"
    detail = f"StorageError: invalid object, Code: 4, Key: /{key}, ResourceVersion: 0, AdditionalErrorMsg: {problem}"
    return errors.conflict(info.kind, info.name, detail)


def _storage_prefix(kind: Kind) -> str:
    """Return where API servers store the objects of a kind."""
    if kind.is_custom or kind.resource_key == CRDS_RESOURCE_KEY:
        return f"{kind.group}/{kind.plural}"
    return _SPECIAL_PREFIXES.get(kind.qualified_name, kind.plural)
