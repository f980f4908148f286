"""Reads the few protobuf bodies kubectl sends: small objects it creates, and options of deletions."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from pliant.embedded.apiserver.http.errors import bad_request

PROTOBUF_MEDIA_TYPE = "application/vnd.kubernetes.protobuf"

_KUBERNETES_MAGIC = b"k8s\x00"
_WIRE_LENGTH_DELIMITED = 2


@dataclass(frozen=True, slots=True)
class _ProtobufField:
    """Where a field of a message goes in JSON.

    `form` is text, number, flag, texts, map, bytemap, either (a number or a text), or a message.
    """

    name: str
    value_type: str | dict[int, _ProtobufField]


_OWNER_REFERENCE_FIELDS = {
    1: _ProtobufField("kind", "text"),
    3: _ProtobufField("name", "text"),
    4: _ProtobufField("uid", "text"),
    5: _ProtobufField("apiVersion", "text"),
    6: _ProtobufField("controller", "flag"),
    7: _ProtobufField("blockOwnerDeletion", "flag"),
}
_METADATA_FIELD = _ProtobufField(
    "metadata",
    {
        1: _ProtobufField("name", "text"),
        2: _ProtobufField("generateName", "text"),
        3: _ProtobufField("namespace", "text"),
        11: _ProtobufField("labels", "map"),
        12: _ProtobufField("annotations", "map"),
        13: _ProtobufField("ownerReferences", {0: _ProtobufField("", "list"), **_OWNER_REFERENCE_FIELDS}),
        14: _ProtobufField("finalizers", "texts"),
    },
)
_DELETE_OPTIONS_FIELDS = {
    1: _ProtobufField("gracePeriodSeconds", "number"),
    2: _ProtobufField(
        "preconditions", {1: _ProtobufField("uid", "text"), 2: _ProtobufField("resourceVersion", "text")}
    ),
    4: _ProtobufField("propagationPolicy", "text"),
    5: _ProtobufField("dryRun", "texts"),
}
_LABEL_SELECTOR_FIELDS = {
    1: _ProtobufField("matchLabels", "map"),
    2: _ProtobufField(
        "matchExpressions",
        {
            0: _ProtobufField("", "list"),
            1: _ProtobufField("key", "text"),
            2: _ProtobufField("operator", "text"),
            3: _ProtobufField("values", "texts"),
        },
    ),
}
_DISRUPTION_BUDGET_SPEC_FIELDS = {
    1: _ProtobufField("minAvailable", "either"),
    2: _ProtobufField("selector", _LABEL_SELECTOR_FIELDS),
    3: _ProtobufField("maxUnavailable", "either"),
    4: _ProtobufField("unhealthyPodEvictionPolicy", "text"),
}
_API_VERSIONS_BY_KIND = {
    "PodDisruptionBudget": ("policy/v1",),
    "Eviction": ("policy/v1",),
    "PriorityClass": ("scheduling.k8s.io/v1",),
    "TokenRequest": ("authentication.k8s.io/v1",),
    "DeleteOptions": ("v1", "policy/v1", "meta.k8s.io/v1"),
}
"""The versions in which a kind is sent, where that is not `v1` alone."""
_FIELDS_BY_KIND: dict[str, dict[int, _ProtobufField]] = {
    "Namespace": {1: _METADATA_FIELD},
    "ConfigMap": {
        1: _METADATA_FIELD,
        2: _ProtobufField("data", "map"),
        3: _ProtobufField("binaryData", "bytemap"),
        4: _ProtobufField("immutable", "flag"),
    },
    "Secret": {
        1: _METADATA_FIELD,
        2: _ProtobufField("data", "bytemap"),
        3: _ProtobufField("type", "text"),
        4: _ProtobufField("stringData", "map"),
        5: _ProtobufField("immutable", "flag"),
    },
    "ServiceAccount": {1: _METADATA_FIELD, 4: _ProtobufField("automountServiceAccountToken", "flag")},
    "PriorityClass": {
        1: _METADATA_FIELD,
        2: _ProtobufField("value", "number"),
        3: _ProtobufField("globalDefault", "flag"),
        4: _ProtobufField("description", "text"),
        5: _ProtobufField("preemptionPolicy", "text"),
    },
    "DeleteOptions": _DELETE_OPTIONS_FIELDS,
    "TokenRequest": {
        1: _METADATA_FIELD,
        2: _ProtobufField(
            "spec",
            {
                1: _ProtobufField("audiences", "texts"),
                3: _ProtobufField(
                    "boundObjectRef",
                    {
                        1: _ProtobufField("kind", "text"),
                        2: _ProtobufField("apiVersion", "text"),
                        3: _ProtobufField("name", "text"),
                    },
                ),
                4: _ProtobufField("expirationSeconds", "number"),
            },
        ),
    },
    "PodDisruptionBudget": {1: _METADATA_FIELD, 2: _ProtobufField("spec", _DISRUPTION_BUDGET_SPEC_FIELDS)},
    "Eviction": {1: _METADATA_FIELD, 2: _ProtobufField("deleteOptions", _DELETE_OPTIONS_FIELDS)},
}


def decode_protobuf(body: bytes) -> dict[str, Any]:
    """The object in a Kubernetes protobuf envelope; raises `BadRequest` for kinds read only as JSON."""
    if not body.startswith(_KUBERNETES_MAGIC):
        raise bad_request("the body of the request is not Kubernetes protobuf")
    try:
        envelope = dict(_iter_fields(body[len(_KUBERNETES_MAGIC) :]))
        about = {number: _as_text(value) for number, value in _iter_fields(_as_bytes(envelope[1]))}
        version, kind = about.get(1, ""), about.get(2, "")
        if kind not in _FIELDS_BY_KIND or version not in _API_VERSIONS_BY_KIND.get(kind, ("v1",)):
            raise bad_request(
                f"{kind or 'this kind'} is not read as protobuf here: send JSON, for example by `apply -f`"
            )
        return {
            "apiVersion": version,
            "kind": kind,
            **_decode_message(_as_bytes(envelope.get(2, b"")), _FIELDS_BY_KIND[kind]),
        }
    except (KeyError, IndexError, TypeError, UnicodeDecodeError):
        raise bad_request("the body of the request is damaged protobuf") from None


def _decode_message(raw: bytes, fields_by_number: dict[int, _ProtobufField]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for number, value in _iter_fields(raw):
        field = fields_by_number.get(number)
        if field is None:
            continue
        match field.value_type:
            case "text":
                found[field.name] = _as_text(value)
            case "flag":
                found[field.name] = bool(value)
            case "number":
                found[field.name] = _as_signed_int(value)
            case "either":
                either = dict(_iter_fields(_as_bytes(value)))
                found[field.name] = _as_text(either.get(3, b"")) if either.get(1) else _as_signed_int(either.get(2, 0))
            case "texts":
                found.setdefault(field.name, []).append(_as_text(value))
            case "map" | "bytemap":
                entry = dict(_iter_fields(_as_bytes(value)))
                content = _as_bytes(entry.get(2, b""))
                shown = content.decode() if field.value_type == "map" else base64.b64encode(content).decode()
                found.setdefault(field.name, {})[_as_text(entry.get(1, b""))] = shown
            case dict() as inner if 0 in inner:
                found.setdefault(field.name, []).append(_decode_message(_as_bytes(value), inner))
            case dict() as inner:
                found[field.name] = _decode_message(_as_bytes(value), inner)
    return found


def _iter_fields(raw: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Number and value of each field in a message."""
    place = 0
    while place < len(raw):
        tag, place = _decode_varint(raw, place)
        wire = tag & 7
        if wire == _WIRE_LENGTH_DELIMITED:
            size, place = _decode_varint(raw, place)
            if place + size > len(raw):
                raise IndexError(place)
            yield tag >> 3, raw[place : place + size]
            place += size
        elif wire == 0:
            value, place = _decode_varint(raw, place)
            yield tag >> 3, value
        elif wire in (1, 5):
            place += 8 if wire == 1 else 4
        else:
            raise IndexError(place)


def _decode_varint(raw: bytes, offset: int) -> tuple[int, int]:
    value = shift = 0
    while raw[offset] & 0x80:
        value |= (raw[offset] & 0x7F) << shift
        shift, offset = shift + 7, offset + 1
        if shift > 63:
            raise IndexError(offset)
    return value | raw[offset] << shift, offset + 1


def _as_bytes(value: int | bytes) -> bytes:
    if isinstance(value, int):
        raise TypeError(value)
    return value


def _as_signed_int(value: int | bytes) -> int:
    if isinstance(value, bytes):
        raise TypeError(value)
    return value - (1 << 64) if value >> 63 else value


def _as_text(value: int | bytes) -> str:
    return _as_bytes(value).decode()
