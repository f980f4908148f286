"""Stored objects: encoded JSON, with the metadata that lookups and selectors need."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec

from pliant.embedded.apiserver.selectors import selectable_field_value

Object = dict[str, Any]

INDEXED_FIELDS: Mapping[str, tuple[str, ...]] = {
    "/pods": ("spec.nodeName", "status.phase"),
    "/events": ("involvedObject.kind", "involvedObject.namespace", "involvedObject.name", "involvedObject.uid"),
    "/services": ("spec.clusterIP",),
}
"""Fields stored beside each object, because selectors use them often; others are read from the object."""


class ObjectKey(NamedTuple):
    """Key of a stored object; `resource` is `group/plural`, without the version."""

    resource: str
    namespace: str
    name: str


class StoredObject(msgspec.Struct, frozen=True, gc=False):
    key: ObjectKey
    uid: str
    version: int
    labels: dict[str, str]
    owner_uids: tuple[str, ...]
    indexed_values: tuple[str, ...]
    is_terminating: bool
    body: bytes

    def selectable_fields(self) -> dict[str, str]:
        """Return the fields that selectors can use without decoding the object."""
        fields = {"metadata.name": self.key.name, "metadata.namespace": self.key.namespace}
        fields.update(zip(INDEXED_FIELDS.get(self.key.resource, ()), self.indexed_values, strict=True))
        return fields

    def decode(self) -> Object:
        return decode_object(self.body)


class ObjectChange(msgspec.Struct, frozen=True, gc=False):
    """A change of an object; `after` is the last state if the object was deleted."""

    before: StoredObject | None
    after: StoredObject
    is_deleted: bool = False

    @property
    def version(self) -> int:
        return self.after.version


_MAX_VERSION_DIGITS = 20
_DECODER = msgspec.json.Decoder(dict[str, Any])
_ENCODER = msgspec.json.Encoder()


def decode_object(body: bytes) -> Object:
    return _DECODER.decode(body)


def encode_object(obj: Mapping[str, Any]) -> bytes:
    """Return the JSON of an object with apiVersion and kind first, so that their values can be read from the prefix."""
    head = {"apiVersion": obj.get("apiVersion", ""), "kind": obj.get("kind", "")}
    return _ENCODER.encode({**head, **obj})


def _parse_version(text: str | None) -> int:
    """Return a version, or 0 for what is none: a dry run keeps what the client wrote."""
    return int(text) if text and text.isdecimal() and len(text) <= _MAX_VERSION_DIGITS else 0


def to_stored_object(resource: str, obj: Object) -> StoredObject:
    metadata = obj["metadata"]
    return StoredObject(
        key=ObjectKey(resource, metadata.get("namespace") or "", metadata["name"]),
        uid=metadata.get("uid") or "",
        version=_parse_version(metadata.get("resourceVersion")),
        labels=dict(metadata.get("labels") or {}),
        owner_uids=tuple(owner["uid"] for owner in metadata.get("ownerReferences") or ()),
        indexed_values=tuple(selectable_field_value(obj, path) for path in INDEXED_FIELDS.get(resource, ())),
        is_terminating=bool(metadata.get("deletionTimestamp")),
        body=encode_object(obj),
    )
