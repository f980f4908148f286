"""Defaults and validation of EndpointSlices."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from pliant.embedded.apiserver.admission.validation import names
from pliant.embedded.apiserver.admission.validation.service_addresses import parse_ip_version
from pliant.embedded.apiserver.http.errors import duplicate_value, invalid_field, required_field, unsupported_value
from pliant.embedded.schema import FieldError, FieldErrorType
from pliant.embedded.schema.metadata import DNS_LABEL_RULE, DNS_SUBDOMAIN_RULE, label_value_problem, name_problem
from pliant.embedded.storage.stored_objects import Object

ENDPOINT_SLICES_RESOURCE_KEY: Final = "discovery.k8s.io/endpointslices"
_ADDRESS_TYPES: Final = ("FQDN", "IPv4", "IPv6")
_PROTOCOLS: Final = ("SCTP", "TCP", "UDP")
_MAX_ADDRESSES: Final = 100
_MAX_ENDPOINTS: Final = 1000
_MAX_HINTS: Final = 8
_MAX_LABEL_BYTES: Final = 63


def set_endpoint_slice_defaults(endpoint_slice: Object, old: Object | None) -> None:
    for port in endpoint_slice.get("ports") or ():  # Endpoints have none at this level
        port.setdefault("name", "")
        port.setdefault("protocol", "TCP")
    for endpoint in endpoint_slice.get("endpoints") or ():
        endpoint.pop("deprecatedTopology", None)  # a field of v1beta1


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
    endpoints = endpoint_slice.get("endpoints") or []
    if old is None or endpoints != (old.get("endpoints") or []):
        errors += _validate_endpoints(endpoints, kind)
    known: set[str] = set()
    for index, port in enumerate(endpoint_slice.get("ports") or ()):
        errors += _validate_port(port, f"ports[{index}]", known)
        known.add(port.get("name") or "")
    return errors


def _validate_endpoints(endpoints: Sequence[Object], kind: str) -> Iterator[FieldError]:
    if len(endpoints) > _MAX_ENDPOINTS:
        yield _too_many("endpoints", endpoints, _MAX_ENDPOINTS)
        return
    for index, endpoint in enumerate(endpoints):
        path = f"endpoints[{index}]"
        yield from _validate_addresses(endpoint.get("addresses") or [], f"{path}.addresses", kind)
        if endpoint.get("nodeName") is not None:
            yield from names.validate_name(f"{path}.nodeName", endpoint["nodeName"])
        if endpoint.get("hostname") is not None:
            yield from names.validate_name(f"{path}.hostname", endpoint["hostname"], DNS_LABEL_RULE)
        yield from _validate_hints(endpoint.get("hints") or {}, f"{path}.hints")


def _validate_addresses(addresses: Sequence[str], path: str, kind: str) -> Iterator[FieldError]:
    if not addresses:
        yield required_field(path, "must contain at least 1 address")
    elif len(addresses) > _MAX_ADDRESSES:
        yield _too_many(path, addresses, _MAX_ADDRESSES)
    for index, address in enumerate(addresses):
        if kind in ("IPv4", "IPv6"):
            yield from _validate_ip_address(address, path, index, kind)
        elif kind == "FQDN":
            yield from _validate_domain_name(address, f"{path}[{index}]")


def _validate_ip_address(address: str, path: str, index: int, kind: str) -> Iterator[FieldError]:
    version = parse_ip_version(address)
    if not version:
        yield from names.validate_ip_address(f"{path}[{index}]", address)
        return
    if kind != f"IPv{version}":
        yield invalid_field(path, address, f"must be an {kind} address")
    yield from names.validate_endpoint_address(f"{path}[{index}]", address)


def _validate_domain_name(name: str, path: str) -> Iterator[FieldError]:
    if not name:
        yield required_field(path)
        return
    domain = name.removesuffix(".")
    yield from names.validate_name(path, domain)
    if not name_problem(domain, DNS_SUBDOMAIN_RULE) and domain.count(".") < 1:
        yield invalid_field(path, name, "should be a domain with at least two segments separated by dots")
    for label in domain.split(".") if not name_problem(domain, DNS_SUBDOMAIN_RULE) else ():
        if len(label) > _MAX_LABEL_BYTES:
            yield invalid_field(path, label, f"must be no more than {_MAX_LABEL_BYTES} bytes")


def _validate_hints(hints: Object, path: str) -> Iterator[FieldError]:
    for field in ("forZones", "forNodes"):
        targets = hints.get(field) or []
        if len(targets) > _MAX_HINTS:
            yield _too_many(f"{path}.{field}", targets, _MAX_HINTS)
            return
        known: set[str] = set()
        for index, target in enumerate(targets):
            name, name_path = target.get("name") or "", f"{path}.{field}[{index}].name"
            if name in known:
                yield duplicate_value(name_path, name)
            known.add(name)
            if field == "forNodes":
                yield from names.validate_name(name_path, name)
            elif problem := label_value_problem(name):
                yield invalid_field(name_path, name, problem)


def _validate_port(port: Object, path: str, known: set[str]) -> Iterator[FieldError]:
    name, protocol = port.get("name") or "", port.get("protocol")
    if name:
        yield from names.validate_name(f"{path}.name", name, DNS_LABEL_RULE)
    if name in known:
        yield duplicate_value(f"{path}.name", name)
    if protocol not in _PROTOCOLS:
        yield unsupported_value(f"{path}.protocol", protocol or "", _PROTOCOLS)
    if port.get("appProtocol") is not None:
        yield from names.validate_qualified_name(f"{path}.appProtocol", port["appProtocol"])


def _too_many(path: str, items: Sequence[object], most: int) -> FieldError:
    return FieldError.of(path, FieldErrorType.TOO_MANY, len(items), f"must have at most {most} items")
