"""How objects rest in the store: encoded, with just enough beside them to find and filter them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec

from pliant.embedded.server.selectors import field_value

Object = dict[str, Any]

INDEXED: Mapping[str, tuple[str, ...]] = {
    "/pods": ("spec.nodeName", "status.phase"),
    "/events": ("involvedObject.kind", "involvedObject.namespace", "involvedObject.name", "involvedObject.uid"),
    "/services": ("spec.clusterIP",),
}
"""Fields kept beside each object, because selectors name them often; others are read from the object."""


class Key(NamedTuple):
    """The only way to name a stored object; `resource` is `group/plural`, whatever the version."""

    resource: str
    namespace: str
    name: str


class Record(msgspec.Struct, frozen=True, gc=False):
    """One state of one object."""

    key: Key
    uid: str
    version: int
    labels: dict[str, str]
    owners: tuple[str, ...]
    indexed: tuple[str, ...]
    leaving: bool
    body: bytes

    def fields(self) -> dict[str, str]:
        """The fields known without decoding the object."""
        fields = {"metadata.name": self.key.name, "metadata.namespace": self.key.namespace}
        fields.update(zip(INDEXED.get(self.key.resource, ()), self.indexed, strict=True))
        return fields

    def decode(self) -> Object:
        """A fresh copy of the object, free to be changed."""
        return decode(self.body)


class Event(msgspec.Struct, frozen=True, gc=False):
    """One committed change: `after` is the last state when the object is gone."""

    before: Record | None
    after: Record
    gone: bool = False

    @property
    def version(self) -> int:
        """The resource version this change made."""
        return self.after.version

    @property
    def type(self) -> str:
        """The word a watch uses for it."""
        if self.gone:
            return "DELETED"
        return "ADDED" if self.before is None else "MODIFIED"


_DECODER = msgspec.json.Decoder(dict[str, Any])
_ENCODER = msgspec.json.Encoder()


def decode(body: bytes) -> Object:
    """The object some bytes of JSON hold."""
    return _DECODER.decode(body)


def encode(obj: Mapping[str, Any]) -> bytes:
    """The JSON of an object, apiVersion and kind first so that lists and versions can be told by prefix."""
    head = {"apiVersion": obj.get("apiVersion", ""), "kind": obj.get("kind", "")}
    return _ENCODER.encode({**head, **obj})


def record(resource: str, obj: Object) -> Record:
    """The record of an object that carries its uid and resource version."""
    metadata = obj["metadata"]
    return Record(
        key=Key(resource, metadata.get("namespace") or "", metadata["name"]),
        uid=metadata.get("uid") or "",
        version=int(metadata.get("resourceVersion") or 0),
        labels=dict(metadata.get("labels") or {}),
        owners=tuple(owner["uid"] for owner in metadata.get("ownerReferences") or ()),
        indexed=tuple(field_value(obj, path) for path in INDEXED.get(resource, ())),
        leaving=bool(metadata.get("deletionTimestamp")),
        body=encode(obj),
    )
