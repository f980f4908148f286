"""Reads the few protobuf bodies kubectl sends: small objects it creates, and options of deletions."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from pliant.embedded.server.refusals import senseless

MEDIA_TYPE = "application/vnd.kubernetes.protobuf"

_MAGIC = b"k8s\x00"
_LENGTH_DELIMITED = 2


@dataclass(frozen=True, slots=True)
class _Field:
    """Where a field of a message goes in JSON.

    `form` is text, number, flag, texts, map, bytemap, either (a number or a text), or a message.
    """

    name: str
    form: str | dict[int, _Field]


_OWNER = {
    1: _Field("kind", "text"),
    3: _Field("name", "text"),
    4: _Field("uid", "text"),
    5: _Field("apiVersion", "text"),
    6: _Field("controller", "flag"),
    7: _Field("blockOwnerDeletion", "flag"),
}
_METADATA = _Field(
    "metadata",
    {
        1: _Field("name", "text"),
        2: _Field("generateName", "text"),
        3: _Field("namespace", "text"),
        11: _Field("labels", "map"),
        12: _Field("annotations", "map"),
        13: _Field("ownerReferences", {0: _Field("", "list"), **_OWNER}),
        14: _Field("finalizers", "texts"),
    },
)
_DELETE_OPTIONS = {
    1: _Field("gracePeriodSeconds", "number"),
    2: _Field("preconditions", {1: _Field("uid", "text"), 2: _Field("resourceVersion", "text")}),
    4: _Field("propagationPolicy", "text"),
    5: _Field("dryRun", "texts"),
}
_SELECTOR = {
    1: _Field("matchLabels", "map"),
    2: _Field(
        "matchExpressions",
        {
            0: _Field("", "list"),
            1: _Field("key", "text"),
            2: _Field("operator", "text"),
            3: _Field("values", "texts"),
        },
    ),
}
_BUDGET = {
    1: _Field("minAvailable", "either"),
    2: _Field("selector", _SELECTOR),
    3: _Field("maxUnavailable", "either"),
    4: _Field("unhealthyPodEvictionPolicy", "text"),
}
_VERSIONS = {
    "PodDisruptionBudget": ("policy/v1",),
    "Eviction": ("policy/v1",),
    "PriorityClass": ("scheduling.k8s.io/v1",),
    "TokenRequest": ("authentication.k8s.io/v1",),
    "DeleteOptions": ("v1", "policy/v1", "meta.k8s.io/v1"),
}
"""The versions in which a kind is sent, where that is not `v1` alone."""
_KINDS: dict[str, dict[int, _Field]] = {
    "Namespace": {1: _METADATA},
    "ConfigMap": {
        1: _METADATA,
        2: _Field("data", "map"),
        3: _Field("binaryData", "bytemap"),
        4: _Field("immutable", "flag"),
    },
    "Secret": {
        1: _METADATA,
        2: _Field("data", "bytemap"),
        3: _Field("type", "text"),
        4: _Field("stringData", "map"),
        5: _Field("immutable", "flag"),
    },
    "ServiceAccount": {1: _METADATA, 4: _Field("automountServiceAccountToken", "flag")},
    "PriorityClass": {
        1: _METADATA,
        2: _Field("value", "number"),
        3: _Field("globalDefault", "flag"),
        4: _Field("description", "text"),
        5: _Field("preemptionPolicy", "text"),
    },
    "DeleteOptions": _DELETE_OPTIONS,
    "TokenRequest": {
        1: _METADATA,
        2: _Field(
            "spec",
            {
                1: _Field("audiences", "texts"),
                3: _Field(
                    "boundObjectRef",
                    {1: _Field("kind", "text"), 2: _Field("apiVersion", "text"), 3: _Field("name", "text")},
                ),
                4: _Field("expirationSeconds", "number"),
            },
        ),
    },
    "PodDisruptionBudget": {1: _METADATA, 2: _Field("spec", _BUDGET)},
    "Eviction": {1: _METADATA, 2: _Field("deleteOptions", _DELETE_OPTIONS)},
}


def read_protobuf(body: bytes) -> dict[str, Any]:
    """The object in a Kubernetes protobuf envelope; raises `BadRequest` for kinds read only as JSON."""
    if not body.startswith(_MAGIC):
        raise senseless("the body of the request is not Kubernetes protobuf")
    try:
        envelope = dict(_fields(body[len(_MAGIC) :]))
        about = {number: _text(value) for number, value in _fields(_bytes(envelope[1]))}
        version, kind = about.get(1, ""), about.get(2, "")
        if kind not in _KINDS or version not in _VERSIONS.get(kind, ("v1",)):
            raise senseless(
                f"{kind or 'this kind'} is not read as protobuf here: send JSON, for example by `apply -f`"
            )
        return {"apiVersion": version, "kind": kind, **_message(_bytes(envelope.get(2, b"")), _KINDS[kind])}
    except (KeyError, IndexError, TypeError, UnicodeDecodeError):
        raise senseless("the body of the request is damaged protobuf") from None


def _message(raw: bytes, table: dict[int, _Field]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for number, value in _fields(raw):
        field = table.get(number)
        if field is None:
            continue
        match field.form:
            case "text":
                found[field.name] = _text(value)
            case "flag":
                found[field.name] = bool(value)
            case "number":
                found[field.name] = _number(value)
            case "either":
                either = dict(_fields(_bytes(value)))
                found[field.name] = _text(either.get(3, b"")) if either.get(1) else _number(either.get(2, 0))
            case "texts":
                found.setdefault(field.name, []).append(_text(value))
            case "map" | "bytemap":
                entry = dict(_fields(_bytes(value)))
                content = _bytes(entry.get(2, b""))
                shown = content.decode() if field.form == "map" else base64.b64encode(content).decode()
                found.setdefault(field.name, {})[_text(entry.get(1, b""))] = shown
            case dict() as inner if 0 in inner:
                found.setdefault(field.name, []).append(_message(_bytes(value), inner))
            case dict() as inner:
                found[field.name] = _message(_bytes(value), inner)
    return found


def _fields(raw: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Number and value of each field in a message."""
    place = 0
    while place < len(raw):
        tag, place = _varint(raw, place)
        wire = tag & 7
        if wire == _LENGTH_DELIMITED:
            size, place = _varint(raw, place)
            if place + size > len(raw):
                raise IndexError(place)
            yield tag >> 3, raw[place : place + size]
            place += size
        elif wire == 0:
            value, place = _varint(raw, place)
            yield tag >> 3, value
        elif wire in (1, 5):
            place += 8 if wire == 1 else 4
        else:
            raise IndexError(place)


def _varint(raw: bytes, place: int) -> tuple[int, int]:
    value = shift = 0
    while raw[place] & 0x80:
        value |= (raw[place] & 0x7F) << shift
        shift, place = shift + 7, place + 1
        if shift > 63:
            raise IndexError(place)
    return value | raw[place] << shift, place + 1


def _bytes(value: int | bytes) -> bytes:
    if isinstance(value, int):
        raise TypeError(value)
    return value


def _number(value: int | bytes) -> int:
    if isinstance(value, bytes):
        raise TypeError(value)
    return value - (1 << 64) if value >> 63 else value


def _text(value: int | bytes) -> str:
    return _bytes(value).decode()
