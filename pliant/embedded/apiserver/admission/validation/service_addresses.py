"""Validation of the addresses of services."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator
from typing import Final

from pliant.embedded.apiserver.http.errors import duplicate_value, invalid_field, required_field, unsupported_value
from pliant.embedded.schema import FieldError
from pliant.embedded.storage.stored_objects import Object

_IP_FAMILIES: Final = ("IPv4", "IPv6")
_IP_FAMILY_POLICIES: Final = ("PreferDualStack", "RequireDualStack", "SingleStack")
_MAX_ADDRESSES: Final = 2


def validate_address_fields(spec: Object) -> Iterator[FieldError]:
    """Yield the errors of cluster IPs, families and their policy."""
    path = "spec.clusterIPs"
    address, addresses = spec.get("clusterIP") or "", spec.get("clusterIPs") or []
    if address and not addresses:
        yield required_field(path)
    elif address != (addresses or [""])[0]:
        yield invalid_field(path, addresses, "first value must match `clusterIP`")
    families = spec.get("ipFamilies") or []
    for index, family in enumerate(families):
        if family not in _IP_FAMILIES:
            yield unsupported_value(f"spec.ipFamilies[{index}]", family, _IP_FAMILIES)
        if family in families[:index]:
            yield duplicate_value(f"spec.ipFamilies[{index}]", family)
    policy = spec.get("ipFamilyPolicy")
    if policy is not None and policy not in _IP_FAMILY_POLICIES:
        yield unsupported_value("spec.ipFamilyPolicy", policy, _IP_FAMILY_POLICIES)
    if addresses[:1] == ["None"]:
        if len(addresses) > 1:
            yield invalid_field(path, addresses, "'None' must be the first and only value")
        return
    yield from _validate_addresses(addresses, families)


def _validate_addresses(addresses: list[str], families: list[str]) -> Iterator[FieldError]:
    path = "spec.clusterIPs"
    versions = [parse_ip_version(address) for address in addresses]
    for index, version in enumerate(versions):
        if not version:
            detail = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"
            yield invalid_field(f"{path}[{index}]", addresses[index], detail)
    if len(addresses) > _MAX_ADDRESSES:
        yield invalid_field(path, addresses, "may only hold up to 2 values")
    if 0 in versions:
        return
    if len(addresses) > 1 and len(set(versions)) < 2:
        yield invalid_field(path, addresses, "may specify no more than one IP for each IP family")
    for index, (version, family) in enumerate(zip(versions, families, strict=False)):
        if family in _IP_FAMILIES and family != f"IPv{version}":
            detail = f"expected an {family} value as indicated by `ipFamilies[{index}]`"
            yield invalid_field(f"{path}[{index}]", addresses[index], detail)


def parse_ip_version(text: str) -> int:
    """Return 4 or 6, or 0 for a text that is no IP address."""
    try:
        return ipaddress.ip_address(text).version
    except ValueError:
        return 0
