"""Validation of the status of a pod, and its defaults."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator, Sequence

from pliant.embedded.apiserver.admission.validation import names
from pliant.embedded.apiserver.admission.validation.pods.container_statuses import validate_container_statuses
from pliant.embedded.apiserver.http.errors import duplicate_value, forbidden_field, invalid_field
from pliant.embedded.schema import FieldError
from pliant.embedded.storage.stored_objects import Object


def set_pod_addresses(status: Object) -> None:
    """Set `podIPs` to `podIP` where they differ: older kubelets write only the latter."""
    address, addresses = status.get("podIP"), status.get("podIPs") or []
    if address and (not addresses or addresses[0].get("ip") != address):
        status["podIPs"] = [{"ip": address}]
    elif addresses and addresses[0].get("ip"):
        status["podIP"] = addresses[0]["ip"]


def keep_observed_values(status: Object, old: Object) -> None:
    """Keep the class and the observed generations of a status that a write leaves out."""
    for field in ("qosClass", "observedGeneration"):
        if old.get(field) and not status.get(field):
            status[field] = old[field]
    generations: dict[str, list[int]] = {}
    for condition in old.get("conditions") or ():
        generations.setdefault(condition.get("type") or "", []).append(condition.get("observedGeneration") or 0)
    for condition in status.get("conditions") or ():
        known = generations.get(condition.get("type") or "")
        generation = known.pop(0) if known else 0
        if generation and not condition.get("observedGeneration"):
            condition["observedGeneration"] = generation


def validate_pod_status(pod: Object, old: Object) -> Iterator[FieldError]:
    """Yield the errors of the conditions, addresses and containers in the status of a pod."""
    status, before, spec = pod.get("status") or {}, old.get("status") or {}, old["spec"]
    for index, condition in enumerate(status.get("conditions") or ()):
        path, kind = f"status.conditions[{index}]", condition.get("type") or ""
        if (condition.get("observedGeneration") or 0) < 0:
            detail = "must be a non-negative integer"
            yield invalid_field(f"{path}.observedGeneration", condition["observedGeneration"], detail)
        for error in names.validate_qualified_name("", kind):
            yield invalid_field(f"{path}.Type", kind, error.message)
    nominated = status.get("nominatedNodeName")
    if nominated and nominated != before.get("nominatedNodeName"):
        yield from names.validate_name("status.nominatedNodeName", nominated)
        if spec.get("nodeName"):
            detail = "may not be set on pods that are already bound to a node"
            yield forbidden_field("status.nominatedNodeName", detail)
    if (status.get("observedGeneration") or 0) < 0:
        detail = "must be a non-negative integer"
        yield invalid_field("status.observedGeneration", status["observedGeneration"], detail)
    if status.get("qosClass") != before.get("qosClass"):
        yield invalid_field("status.qosClass", status.get("qosClass"), "field is immutable")
    yield from validate_container_statuses(status, before, spec)
    yield from _validate_claim_statuses(status, spec)
    hosts = status.get("hostIPs") or []
    if hosts and (status.get("hostIP") or "") != (hosts[0].get("ip") or ""):
        yield invalid_field("status.hostIPs[0].ip", hosts[0].get("ip"), "must be equal to `hostIP`")
    for field in ("podIPs", "hostIPs"):
        yield from _validate_addresses(status.get(field) or (), before.get(field) or (), f"status.{field}")


def _validate_addresses(entries: Sequence[Object], old: Sequence[Object], path: str) -> Iterator[FieldError]:
    before = [each.get("ip") for each in old]
    addresses = [each.get("ip") or "" for each in entries]
    for index, address in enumerate(addresses):
        if address not in before:
            yield from names.validate_ip_address(f"{path}[{index}]", address)
    if len(addresses) > 1:
        versions = {_ip_version(each) for each in addresses}
        if 0 in versions:
            yield FieldError(path, "InternalError", "Internal error: failed to check for dual stack")
        if len(addresses) > 2 or len(versions - {0}) < 2:
            yield invalid_field(path, addresses, "may specify no more than one IP for each IP family")


def _validate_claim_statuses(status: Object, spec: Object) -> Iterator[FieldError]:
    claims = {each.get("name") for each in spec.get("resourceClaims") or ()}
    known: set[str] = set()
    for index, each in enumerate(status.get("resourceClaimStatuses") or ()):
        path, name = f"status.resourceClaimStatuses[{index}]", each.get("name") or ""
        if name not in claims:
            yield invalid_field(f"{path}.name", name, "must match the name of an entry in `spec.resourceClaims`")
        if name in known:
            yield duplicate_value(f"{path}.name", name)
        known.add(name)
        if each.get("resourceClaimName") is not None:
            yield from names.validate_name(f"{path}.resourceClaimName", each["resourceClaimName"])


def _ip_version(address: str) -> int:
    try:
        return ipaddress.ip_address(address).version
    except ValueError:
        return 0
