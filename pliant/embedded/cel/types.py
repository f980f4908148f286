"""Static types of CEL, and their names in messages."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Final


@dataclass(frozen=True, slots=True)
class Type:
    """A type: its kind, its name, and its parameters, such as the key and value type of a map."""

    kind: str
    """`bool`, `int`, … for simple types; `list`, `map`, `type`, `struct`, `opaque`, `param`, `dyn` or `error`."""
    name: str
    params: tuple[Type, ...] = ()

    def __str__(self) -> str:
        text = _MESSAGE_NAMES.get(self.kind, self.name)
        return f"{text}({', '.join(map(str, self.params))})" if self.params else text

    @property
    def is_dyn(self) -> bool:
        return self.kind in ("dyn", "error")

    @property
    def is_optional(self) -> bool:
        return self.kind == "opaque" and self.name == "optional_type"


_MESSAGE_NAMES: Final = {"timestamp": "timestamp", "duration": "duration", "null": "null", "error": "!error!"}

BOOL: Final = Type("bool", "bool")
INT: Final = Type("int", "int")
UINT: Final = Type("uint", "uint")
DOUBLE: Final = Type("double", "double")
STRING: Final = Type("string", "string")
BYTES: Final = Type("bytes", "bytes")
NULL: Final = Type("null", "null_type")
DYN: Final = Type("dyn", "dyn")
ERROR: Final = Type("error", "!error!")
TIMESTAMP: Final = Type("timestamp", "google.protobuf.Timestamp")
DURATION: Final = Type("duration", "google.protobuf.Duration")
TYPE: Final = Type("type", "type")

QUANTITY: Final = Type("struct", "kubernetes.Quantity")
URL: Final = Type("struct", "kubernetes.URL")
SEMVER: Final = Type("struct", "kubernetes.Semver")
NAMED_FORMAT: Final = Type("struct", "kubernetes.NamedFormat")
IP: Final = Type("opaque", "net.IP")
CIDR: Final = Type("opaque", "net.CIDR")
AUTHORIZER: Final = Type("struct", "kubernetes.authorization.Authorizer")
PATH_CHECK: Final = Type("struct", "kubernetes.authorization.PathCheck")
GROUP_CHECK: Final = Type("struct", "kubernetes.authorization.GroupCheck")
RESOURCE_CHECK: Final = Type("struct", "kubernetes.authorization.ResourceCheck")
DECISION: Final = Type("struct", "kubernetes.authorization.Decision")


def list_of(element: Type) -> Type:
    return Type("list", "list", (element,))


def map_of(key: Type, value: Type) -> Type:
    return Type("map", "map", (key, value))


def optional_of(value: Type) -> Type:
    return Type("opaque", "optional_type", (value,))


def type_of(instance: Type) -> Type:
    return Type("type", "type", (instance,))


def param(name: str) -> Type:
    return Type("param", name)


NAMED_TYPES: Final[dict[str, Type]] = {
    **{each.name: each for each in (BOOL, INT, UINT, DOUBLE, STRING, BYTES, NULL, TIMESTAMP, DURATION, TYPE)},
    **{each.name: each for each in (QUANTITY, URL, SEMVER, NAMED_FORMAT, IP, CIDR)},
    **{each.name: each for each in (AUTHORIZER, PATH_CHECK, GROUP_CHECK, RESOURCE_CHECK, DECISION)},
    "list": list_of(param("A")),
    "map": map_of(param("A"), param("B")),
    "optional_type": optional_of(param("V")),
}
"""Types that expressions may use as values, as in `type(self) == int`."""

_SIGNATURE_NAMES: Final = {
    **NAMED_TYPES,
    "null": NULL,
    "timestamp": TIMESTAMP,
    "duration": DURATION,
    "dyn": DYN,
    "type": TYPE,
    "Quantity": QUANTITY,
    "URL": URL,
    "Semver": SEMVER,
    "NamedFormat": NAMED_FORMAT,
    "IP": IP,
    "CIDR": CIDR,
    "Authorizer": AUTHORIZER,
    "PathCheck": PATH_CHECK,
    "GroupCheck": GROUP_CHECK,
    "ResourceCheck": RESOURCE_CHECK,
    "Decision": DECISION,
}


@lru_cache(maxsize=256)
def parse_type(text: str) -> Type:
    """Return the type of a text such as `map<string, list<A>>`, in which capital letters are parameters."""
    text = text.strip()
    name, bracket, rest = text.partition("<")
    if not bracket:
        return param(name) if len(name) == 1 else _SIGNATURE_NAMES[name]
    params = tuple(parse_type(part) for part in split_types(rest[:-1]))
    kind = "opaque" if name == "optional_type" else name
    return Type(kind, name, params)


def split_types(text: str) -> list[str]:
    """Split a list of types at the commas that are outside of brackets."""
    parts, depth = [""], 0
    for character in text:
        depth += (character == "<") - (character == ">")
        if character == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += character
    return [part for part in parts if part.strip()]
