"""Defaults and validation of EndpointSlices."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator
from typing import Final

from pliant.embedded.apiserver.admission.validation import names
from pliant.embedded.apiserver.http.errors import duplicate_value, invalid_field, required_field, unsupported_value
from pliant.embedded.schema import FieldError, FieldErrorType
from pliant.embedded.schema.metadata import DNS_LABEL_RULE
from pliant.embedded.storage.stored_objects import Object

_ADDRESS_TYPES: Final = ("FQDN", "IPv4", "IPv6")
_PROTOCOLS: Final = ("SCTP", "TCP", "UDP")
_MAX_ADDRESSES: Final = 100


def set_endpoint_slice_defaults(endpoint_slice: Object, old: Object | None) -> None:
    for port in endpoint_slice.get("ports") or ():  # Endpoints have none at this level
        port.setdefault("name", "")
        port.setdefault("protocol", "TCP")


def validate_endpoint_slice(endpoint_slice: Object, old: Object | None) -> list[FieldError]:
    if endpoint_slice.get("kind") != "EndpointSlice":
        return []  # Endpoints, which are stored as slices
    kind = endpoint_slice.get("addressType") or ""
    errors: list[FieldError] = []
    if not kind:
        errors.append(required_field("addressType"))
    elif kind not in _ADDRESS_TYPES:
        errors.append(unsupported_value("addressType", kind, _ADDRESS_TYPES))
    if old is not None and kind != old.get("addressType"):
        errors.append(invalid_field("addressType", kind, "field is immutable"))
    for index, endpoint in enumerate(endpoint_slice.get("endpoints") or ()):
        errors += _validate_endpoint(endpoint, f"endpoints[{index}]", kind)
    known: set[str] = set()
    for index, port in enumerate(endpoint_slice.get("ports") or ()):
        errors += _validate_port(port, f"ports[{index}]", known)
        known.add(port.get("name") or "")
    return errors


def _validate_endpoint(endpoint: Object, path: str, kind: str) -> Iterator[FieldError]:
    addresses = endpoint.get("addresses") or []
    if not addresses:
        yield required_field(f"{path}.addresses", "must contain at least 1 address")
    elif len(addresses) > _MAX_ADDRESSES:
        detail = f"must have at most {_MAX_ADDRESSES} items"
        yield FieldError.of(f"{path}.addresses", FieldErrorType.TOO_MANY, len(addresses), detail)
    for index, address in enumerate(addresses):
        address_path = f"{path}.addresses[{index}]"
        if kind in ("IPv4", "IPv6") and not _is_address(address, 4 if kind == "IPv4" else 6):
            yield invalid_field(address_path, address, f"must be a valid {kind} address")
        elif kind == "FQDN":
            yield from names.validate_name(address_path, address)
    if endpoint.get("nodeName") is not None:
        yield from names.validate_name(f"{path}.nodeName", endpoint["nodeName"])
    if endpoint.get("hostname") is not None:
        yield from names.validate_name(f"{path}.hostname", endpoint["hostname"], DNS_LABEL_RULE)


def _validate_port(port: Object, path: str, known: set[str]) -> Iterator[FieldError]:
    name, protocol = port.get("name") or "", port.get("protocol")
    if name:
        yield from names.validate_name(f"{path}.name", name, DNS_LABEL_RULE)
    if name in known:
        yield duplicate_value(f"{path}.name", name)
    if protocol not in _PROTOCOLS:
        yield unsupported_value(f"{path}.protocol", protocol or "", _PROTOCOLS)


def _is_address(text: str, version: int) -> bool:
    try:
        return ipaddress.ip_address(text).version == version
    except ValueError:
        return False
