"""Validation of the status of a pod, and its defaults."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator
from typing import Final

from pliant.embedded.apiserver.admission.validation import names
from pliant.embedded.apiserver.http.errors import invalid_field
from pliant.embedded.schema import FieldError
from pliant.embedded.storage.stored_objects import Object

_PATH: Final = "status.podIPs"


def set_pod_addresses(status: Object) -> None:
    """Set `podIPs` to `podIP` where they differ: older kubelets write only the latter."""
    address, addresses = status.get("podIP"), status.get("podIPs") or []
    if address and (not addresses or addresses[0].get("ip") != address):
        status["podIPs"] = [{"ip": address}]
    elif addresses and addresses[0].get("ip"):
        status["podIP"] = addresses[0]["ip"]


def validate_pod_status(status: Object, old: Object) -> Iterator[FieldError]:
    """Yield the errors of the types of conditions and of the addresses of a pod."""
    for index, condition in enumerate(status.get("conditions") or ()):
        for error in names.validate_qualified_name("", condition.get("type") or ""):
            yield invalid_field(f"status.conditions[{index}].Type", condition.get("type") or "", error.message)
    before = [each.get("ip") for each in old.get("podIPs") or ()]
    addresses = [each.get("ip") or "" for each in status.get("podIPs") or ()]
    for index, address in enumerate(addresses):
        if address not in before:
            yield from names.validate_ip_address(f"{_PATH}[{index}]", address)
    if len(addresses) > 1 and (len(addresses) > 2 or len({_ip_version(each) for each in addresses}) == 1):
        yield invalid_field(_PATH, addresses, "may specify no more than one IP for each IP family")


def _ip_version(address: str) -> int:
    try:
        return ipaddress.ip_address(address).version
    except ValueError:
        return 0
