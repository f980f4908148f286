"""Descriptors of the protobuf messages of Kubernetes.

`scripts/update-descriptors` generates the data file from the sources of Kubernetes.
"""

from __future__ import annotations

import pkgutil
from dataclasses import dataclass
from functools import cache
from typing import Final

import msgspec

_DOTTED_GROUPS = (
    *("admissionregistration.k8s.io", "apiextensions.k8s.io", "authentication.k8s.io", "authorization.k8s.io"),
    *("coordination.k8s.io", "discovery.k8s.io", "events.k8s.io", "meta.k8s.io", "metrics.k8s.io"),
    *("networking.k8s.io", "rbac.authorization.k8s.io", "scheduling.k8s.io"),
)
_PACKAGES: Final = {
    **{group: group.partition(".")[0] for group in _DOTTED_GROUPS},
    **{group: group for group in ("apps", "autoscaling", "batch", "policy")},
    "": "core",
}
"""The package of the messages of an API group. Custom groups have none, whatever their names are."""

_META_KINDS: Final = frozenset(
    {"APIGroup", "APIGroupList", "APIResourceList", "APIVersions", "DeleteOptions", "ListOptions", "Status"}
)
"""Kinds of the package meta.v1 that exist in every API version."""


@dataclass(frozen=True, slots=True)
class FieldDescriptor:
    """A field of a message."""

    number: int
    json_name: str
    """Empty if the fields of the value are fields of the outer object."""
    type_name: str
    """A scalar type, a type with a form of its own in JSON, or the name of a message."""
    is_repeated: bool
    is_map: bool
    keeps_zero: bool
    """Whether JSON contains the field if its value is zero; otherwise Go omits it."""
    is_pointer: bool
    """Whether Go tells an absent value from a zero value."""
    omits_empty_struct: bool
    is_wide: bool
    """Whether an integer has 64 bits instead of 32."""


@dataclass(frozen=True, slots=True)
class MessageDescriptor:
    name: str
    by_number: dict[int, FieldDescriptor]
    by_json_name: dict[str, FieldDescriptor]
    inline_fields: tuple[FieldDescriptor, ...]

    @property
    def is_union(self) -> bool:
        """Whether the value is that of one of the fields, as for JSONSchemaPropsOrBool."""
        return len(self.inline_fields) == len(self.by_number) > 1


@cache
def find_message(name: str) -> MessageDescriptor | None:
    """Return a message such as `core.v1.Pod`; None if the data file does not contain it."""
    raw = _load_messages().get(name)
    if raw is None:
        return None
    fields = [
        FieldDescriptor(int(number), json_name, type_name, *(flag in flags for flag in "rmzpow"))
        for number, (json_name, type_name, flags) in raw.items()
    ]
    return MessageDescriptor(
        name=name,
        by_number={field.number: field for field in fields},
        by_json_name={field.json_name: field for field in fields if field.json_name},
        inline_fields=tuple(field for field in fields if not field.json_name),
    )


def require_message(name: str) -> MessageDescriptor:
    """Return a message to which another one refers; raise KeyError if it does not exist."""
    message = find_message(name)
    if message is None:
        raise KeyError(name)
    return message


def find_kind(api_version: str, kind: str) -> MessageDescriptor | None:
    """Return the message of a kind; None if the kind has no protobuf representation, as custom kinds."""
    group, _, version = api_version.rpartition("/")
    message = find_message(f"{_PACKAGES[group]}.{version}.{kind}") if group in _PACKAGES else None
    return find_message(f"meta.v1.{kind}") if message is None and kind in _META_KINDS else message


def has_messages(api_version: str) -> bool:
    """Whether the kinds of a group have protobuf representations; those of custom groups do not."""
    return api_version.rpartition("/")[0] in _PACKAGES


@cache
def _load_messages() -> dict[str, dict[str, tuple[str, str, str]]]:
    text = pkgutil.get_data("pliant.schemas", "protobuf.json") or b""
    return msgspec.json.decode(text, type=_DataFile).messages


class _DataFile(msgspec.Struct):
    messages: dict[str, dict[str, tuple[str, str, str]]]
