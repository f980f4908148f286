"""How objects rest in the store: encoded, with just enough beside them to find and filter them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec

from pliant.embedded.apiserver.selectors import field_value

Object = dict[str, Any]

INDEXED_FIELDS: Mapping[str, tuple[str, ...]] = {
    "/pods": ("spec.nodeName", "status.phase"),
    "/events": ("involvedObject.kind", "involvedObject.namespace", "involvedObject.name", "involvedObject.uid"),
    "/services": ("spec.clusterIP",),
}
"""Fields kept beside each object, because selectors name them often; others are read from the object."""


class ObjectKey(NamedTuple):
    """The only way to name a stored object; `resource` is `group/plural`, whatever the version."""

    resource: str
    namespace: str
    name: str


class StoredObject(msgspec.Struct, frozen=True, gc=False):
    """One state of one object."""

    key: ObjectKey
    uid: str
    version: int
    labels: dict[str, str]
    owner_uids: tuple[str, ...]
    indexed_values: tuple[str, ...]
    is_terminating: bool
    body: bytes

    def selectable_fields(self) -> dict[str, str]:
        """The fields known without decoding the object."""
        fields = {"metadata.name": self.key.name, "metadata.namespace": self.key.namespace}
        fields.update(zip(INDEXED_FIELDS.get(self.key.resource, ()), self.indexed_values, strict=True))
        return fields

    def decode(self) -> Object:
        """A fresh copy of the object, free to be changed."""
        return decode_object(self.body)


class ObjectChange(msgspec.Struct, frozen=True, gc=False):
    """One committed change: `after` is the last state when the object is gone."""

    before: StoredObject | None
    after: StoredObject
    is_deleted: bool = False

    @property
    def version(self) -> int:
        """The resource version this change made."""
        return self.after.version

    @property
    def watch_event_type(self) -> str:
        """The word a watch uses for it."""
        if self.is_deleted:
            return "DELETED"
        return "ADDED" if self.before is None else "MODIFIED"


_DECODER = msgspec.json.Decoder(dict[str, Any])
_ENCODER = msgspec.json.Encoder()


def decode_object(body: bytes) -> Object:
    """The object some bytes of JSON hold."""
    return _DECODER.decode(body)


def encode_object(obj: Mapping[str, Any]) -> bytes:
    """The JSON of an object, apiVersion and kind first so that lists and versions can be told by prefix."""
    head = {"apiVersion": obj.get("apiVersion", ""), "kind": obj.get("kind", "")}
    return _ENCODER.encode({**head, **obj})


def to_stored_object(resource: str, obj: Object) -> StoredObject:
    """The record of an object that carries its uid and resource version."""
    metadata = obj["metadata"]
    return StoredObject(
        key=ObjectKey(resource, metadata.get("namespace") or "", metadata["name"]),
        uid=metadata.get("uid") or "",
        version=int(metadata.get("resourceVersion") or 0),
        labels=dict(metadata.get("labels") or {}),
        owner_uids=tuple(owner["uid"] for owner in metadata.get("ownerReferences") or ()),
        indexed_values=tuple(field_value(obj, path) for path in INDEXED_FIELDS.get(resource, ())),
        is_terminating=bool(metadata.get("deletionTimestamp")),
        body=encode_object(obj),
    )
