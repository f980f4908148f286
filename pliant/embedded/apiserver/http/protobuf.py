"""A decoder for the protobuf bodies that kubectl sends: the small objects it creates, and DeleteOptions."""

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
    """A field of a message: its name in JSON, and how to decode its value."""

    name: str
    value_type: str
    message: _Message | None = None


_Message = dict[int, _ProtobufField]
"""The fields of a protobuf message by their numbers."""


def _message(**names_by_type: dict[int, str]) -> _Message:
    """Return the fields of a message, given as `value_type={number: name}`."""
    return {
        number: _ProtobufField(name, value_type)
        for value_type, names in names_by_type.items()
        for number, name in names.items()
    }


def _nested(name: str, message: _Message, *, is_list: bool = False) -> _ProtobufField:
    return _ProtobufField(name, "messages" if is_list else "message", message)


_OWNER_REFERENCE = _message(
    string={1: "kind", 3: "name", 4: "uid", 5: "apiVersion"}, bool={6: "controller", 7: "blockOwnerDeletion"}
)
_METADATA = {
    **_message(
        string={1: "name", 2: "generateName", 3: "namespace"},
        map={11: "labels", 12: "annotations"},
        strings={14: "finalizers"},
    ),
    13: _nested("ownerReferences", _OWNER_REFERENCE, is_list=True),
}
_DELETE_OPTIONS = {
    **_message(int={1: "gracePeriodSeconds"}, string={4: "propagationPolicy"}, strings={5: "dryRun"}),
    2: _nested("preconditions", _message(string={1: "uid", 2: "resourceVersion"})),
}
_LABEL_SELECTOR = {
    **_message(map={1: "matchLabels"}),
    2: _nested("matchExpressions", _message(string={1: "key", 2: "operator"}, strings={3: "values"}), is_list=True),
}
_DISRUPTION_BUDGET_SPEC = {
    **_message(int_or_string={1: "minAvailable", 3: "maxUnavailable"}, string={4: "unhealthyPodEvictionPolicy"}),
    2: _nested("selector", _LABEL_SELECTOR),
}
_TOKEN_REQUEST_SPEC = {
    **_message(strings={1: "audiences"}, int={4: "expirationSeconds"}),
    3: _nested("boundObjectRef", _message(string={1: "kind", 2: "apiVersion", 3: "name"})),
}
_POLICY_RULES = _nested(
    "rules",
    _message(strings={1: "verbs", 2: "apiGroups", 3: "resources", 4: "resourceNames", 5: "nonResourceURLs"}),
    is_list=True,
)
_BINDING = {
    2: _nested("subjects", _message(string={1: "kind", 2: "apiGroup", 3: "name", 4: "namespace"}), is_list=True),
    3: _nested("roleRef", _message(string={1: "apiGroup", 2: "kind", 3: "name"})),
}
_RESOURCE_ATTRIBUTES = {
    **_message(
        string={1: "namespace", 2: "verb", 3: "group", 4: "version", 5: "resource", 6: "subresource", 7: "name"}
    ),
    8: _nested("fieldSelector", _message(string={1: "rawSelector"})),
    9: _nested("labelSelector", _message(string={1: "rawSelector"})),
}
_ACCESS_REVIEW_SPEC = {
    1: _nested("resourceAttributes", _RESOURCE_ATTRIBUTES),
    2: _nested("nonResourceAttributes", _message(string={1: "path", 2: "verb"})),
    **_message(string={3: "user", 6: "uid"}, strings={4: "groups"}),
}
_ACCESS_REVIEW_KINDS = ("LocalSubjectAccessReview", "SelfSubjectAccessReview", "SubjectAccessReview")
_ACCESS_REVIEW = {2: _nested("spec", _ACCESS_REVIEW_SPEC)}
_MESSAGES_BY_KIND: dict[str, _Message] = {
    "Namespace": {},
    "ConfigMap": _message(map={2: "data"}, bytes_map={3: "binaryData"}, bool={4: "immutable"}),
    "Secret": _message(bytes_map={2: "data"}, string={3: "type"}, map={4: "stringData"}, bool={5: "immutable"}),
    "ServiceAccount": _message(bool={4: "automountServiceAccountToken"}),
    "PriorityClass": _message(
        int={2: "value"}, bool={3: "globalDefault"}, string={4: "description", 5: "preemptionPolicy"}
    ),
    "DeleteOptions": _DELETE_OPTIONS,
    "TokenRequest": {2: _nested("spec", _TOKEN_REQUEST_SPEC)},
    "PodDisruptionBudget": {2: _nested("spec", _DISRUPTION_BUDGET_SPEC)},
    "Eviction": {2: _nested("deleteOptions", _DELETE_OPTIONS)},
    "Role": {2: _POLICY_RULES},
    "ClusterRole": {
        2: _POLICY_RULES,
        3: _nested("aggregationRule", {1: _nested("clusterRoleSelectors", _LABEL_SELECTOR, is_list=True)}),
    },
    "RoleBinding": _BINDING,
    "ClusterRoleBinding": _BINDING,
    "SelfSubjectReview": {},
    "SelfSubjectRulesReview": {2: _nested("spec", _message(string={1: "namespace"}))},
    **dict.fromkeys(_ACCESS_REVIEW_KINDS, _ACCESS_REVIEW),
}
_API_VERSIONS_BY_KIND = {
    "PodDisruptionBudget": ("policy/v1",),
    "Eviction": ("policy/v1",),
    "PriorityClass": ("scheduling.k8s.io/v1",),
    "TokenRequest": ("authentication.k8s.io/v1",),
    "DeleteOptions": ("v1", "policy/v1", "meta.k8s.io/v1"),
    "SelfSubjectReview": ("authentication.k8s.io/v1",),
    **dict.fromkeys(("SelfSubjectRulesReview", *_ACCESS_REVIEW_KINDS), ("authorization.k8s.io/v1",)),
    **dict.fromkeys(("Role", "ClusterRole", "RoleBinding", "ClusterRoleBinding"), ("rbac.authorization.k8s.io/v1",)),
}
"""The accepted API versions of a kind, if they are not `v1` alone."""


def decode_protobuf(body: bytes) -> dict[str, Any]:
    """Decode an object in a Kubernetes protobuf envelope; raise `BadRequest` for kinds that must be sent as JSON."""
    if not body.startswith(_KUBERNETES_MAGIC):
        raise bad_request("the body of the request is not Kubernetes protobuf")
    try:
        envelope = dict(_iter_fields(body[len(_KUBERNETES_MAGIC) :]))
        type_meta = {number: _as_text(value) for number, value in _iter_fields(_as_bytes(envelope[1]))}
        version, kind = type_meta.get(1, ""), type_meta.get(2, "")
        if kind not in _MESSAGES_BY_KIND or version not in _API_VERSIONS_BY_KIND.get(kind, ("v1",)):
            raise bad_request(
                f"{kind or 'this kind'} is not supported as protobuf: send JSON, for example with `kubectl apply -f`"
            )
        message = _MESSAGES_BY_KIND[kind]
        if kind != "DeleteOptions":
            message = {**message, 1: _nested("metadata", _METADATA)}
        return {"apiVersion": version, "kind": kind, **_decode_message(_as_bytes(envelope.get(2, b"")), message)}
    except (KeyError, IndexError, TypeError, UnicodeDecodeError):
        raise bad_request("the body of the request is not valid protobuf") from None


def _decode_message(raw: bytes, message: _Message) -> dict[str, Any]:
    decoded: dict[str, Any] = {}
    for number, value in _iter_fields(raw):
        field = message.get(number)
        if field is None:
            continue
        match field.value_type:
            case "string":
                decoded[field.name] = _as_text(value)
            case "bool":
                decoded[field.name] = bool(value)
            case "int":
                decoded[field.name] = _as_signed_int(value)
            case "int_or_string":
                parts = dict(_iter_fields(_as_bytes(value)))
                is_string = bool(parts.get(1))
                decoded[field.name] = _as_text(parts.get(3, b"")) if is_string else _as_signed_int(parts.get(2, 0))
            case "strings":
                decoded.setdefault(field.name, []).append(_as_text(value))
            case "map" | "bytes_map":
                entry = dict(_iter_fields(_as_bytes(value)))
                content = _as_bytes(entry.get(2, b""))
                text = content.decode() if field.value_type == "map" else base64.b64encode(content).decode()
                decoded.setdefault(field.name, {})[_as_text(entry.get(1, b""))] = text
            case "messages":
                decoded.setdefault(field.name, []).append(_decode_message(_as_bytes(value), field.message or {}))
            case "message":
                decoded[field.name] = _decode_message(_as_bytes(value), field.message or {})
    return decoded


def _iter_fields(raw: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Yield the number and the value of each field in a message; fixed-width fields are skipped."""
    offset = 0
    while offset < len(raw):
        tag, offset = _decode_varint(raw, offset)
        wire_type = tag & 7
        if wire_type == _WIRE_LENGTH_DELIMITED:
            size, offset = _decode_varint(raw, offset)
            if offset + size > len(raw):
                raise IndexError(offset)
            yield tag >> 3, raw[offset : offset + size]
            offset += size
        elif wire_type == 0:
            value, offset = _decode_varint(raw, offset)
            yield tag >> 3, value
        elif wire_type in (1, 5):
            offset += 8 if wire_type == 1 else 4
        else:
            raise IndexError(offset)


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
