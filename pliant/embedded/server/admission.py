"""What the server adds to objects and refuses of them beyond their schema, kind by kind."""

from __future__ import annotations

import base64
import binascii
import ipaddress
from collections.abc import Callable, Sequence
from typing import Any

from pliant.embedded.catalog.crdrules import complete_crd, crd_problems
from pliant.embedded.catalog.kinds import Kind
from pliant.embedded.schema import Problem, Reason
from pliant.embedded.server.addresses import NETWORK, Addresses
from pliant.embedded.server.budgets import BUDGETS, budget_problems
from pliant.embedded.server.claimrules import CLAIMS, claim_problems, complete_claim
from pliant.embedded.server.eventrules import event_problems
from pliant.embedded.server.lifecycle import FOREGROUND, ORPHAN
from pliant.embedded.server.podrules import complete_pod, pod_problems
from pliant.embedded.server.priorities import CLASSES, class_problems, complete_class
from pliant.embedded.storage.records import Object

CRDS = "apiextensions.k8s.io/customresourcedefinitions"
_STANDARD_FINALIZERS = frozenset({FOREGROUND, ORPHAN, "kubernetes"})

Completes = Callable[[Object, Object | None], None]
Finds = Callable[[Object, Object | None], list[Problem]]


class Admission:
    """Completes objects and finds their problems; `old` is what they replace, None for new ones."""

    def __init__(self, addresses: Addresses) -> None:
        self._addresses = addresses
        self._completing: dict[str, Completes] = {
            "/pods": complete_pod,
            "/secrets": _complete_secret,
            CLAIMS: complete_claim,
            "/namespaces": _complete_namespace,
            "/services": self._complete_service,
            CLASSES: complete_class,
            CRDS: complete_crd,
        }
        self._finding: dict[str, Finds] = {
            "/pods": pod_problems,
            "/secrets": _kept_data_problems,
            "/configmaps": _kept_data_problems,
            "/events": event_problems,
            CLAIMS: claim_problems,
            BUDGETS: budget_problems,
            "/services": self._service_problems,
            CLASSES: class_problems,
            CRDS: crd_problems,
        }

    def admit(self, kind: Kind, obj: Object, old: Object | None) -> list[Problem]:
        """Complete an object in place and tell everything wrong with it.

        Rules between fields are read only when each field is sound by itself, so they may trust its type.
        """
        if kind.schema is not None:
            kind.schema.default(obj)
            if problems := kind.schema.validate(obj):
                return problems
        if (completes := self._completing.get(kind.key)) is not None:
            completes(obj, old)
        problems = _metadata_problems(obj["metadata"], old)
        if not kind.is_custom and kind.key != CRDS:
            problems += _finalizer_problems(obj["metadata"])
        if (finds := self._finding.get(kind.key)) is not None:
            problems += finds(obj, old)
        return problems

    def assign(self, kind: Kind, obj: Object) -> None:
        """Give a new object what only one object can have; not for dry runs."""
        spec = obj.get("spec") or {}
        if kind.key == "/services" and spec.get("type") != "ExternalName" and not spec.get("clusterIP"):
            spec["clusterIP"] = self._addresses.take()
            _complete_addresses(spec)

    def _complete_service(self, service: Object, old: Object | None) -> None:
        spec = service.setdefault("spec", {})
        for port in spec.get("ports") or ():
            port.setdefault("targetPort", port["port"])
        if old is not None and spec.get("type") != "ExternalName" and not spec.get("clusterIP"):
            spec["clusterIP"] = (old.get("spec") or {}).get("clusterIP", "")
        _complete_addresses(spec)

    def _service_problems(self, service: Object, old: Object | None) -> list[Problem]:
        spec = service.get("spec") or {}
        address = spec.get("clusterIP") or ""
        if old is not None:
            before = (old.get("spec") or {}).get("clusterIP") or ""
            changed = before and address != before and spec.get("type") != "ExternalName"
            return [_invalid("spec.clusterIPs[0]", address, "may not change once set")] if changed else []
        if not spec.get("ports") and address != "None" and spec.get("type") != "ExternalName":
            return [Problem("spec.ports", Reason.REQUIRED.cause, Reason.REQUIRED.words)]
        return _port_problems(spec.get("ports") or ()) + self._address_problems(address)

    def _address_problems(self, address: str) -> list[Problem]:
        if address in ("", "None"):
            return []
        try:
            inside = ipaddress.ip_address(address) in NETWORK
        except ValueError:
            return [_invalid("spec.clusterIPs[0]", address, "must be a valid IP address")]
        if not inside:
            why = f"failed to allocate IP {address}: the provided IP is not in the valid range {NETWORK}"
            return [_invalid("spec.clusterIPs", [address], why)]
        if self._addresses.is_taken(address):
            why = f"failed to allocate IP {address}: provided IP is already allocated"
            return [_invalid("spec.clusterIPs", [address], why)]
        return []


def _complete_addresses(spec: Object) -> None:
    if not spec.get("clusterIP"):
        return
    spec["clusterIPs"] = [spec["clusterIP"]]
    spec.setdefault("ipFamilies", ["IPv4"])
    spec.setdefault("ipFamilyPolicy", "SingleStack")


def _complete_secret(secret: Object, old: Object | None) -> None:
    plain = secret.pop("stringData", None)
    if plain:
        encoded = {name: base64.b64encode(text.encode()).decode() for name, text in plain.items()}
        secret["data"] = {**(secret.get("data") or {}), **encoded}


def _complete_namespace(namespace: Object, old: Object | None) -> None:
    metadata = namespace["metadata"]
    metadata["labels"] = {**(metadata.get("labels") or {}), "kubernetes.io/metadata.name": metadata["name"]}


def _kept_data_problems(obj: Object, old: Object | None) -> list[Problem]:
    if obj.get("kind") == "Secret":
        for name, value in (obj.get("data") or {}).items():
            try:
                base64.b64decode(value, validate=True)
            except (binascii.Error, ValueError):
                return [_invalid(f"data[{name}]", "<secret contents redacted>", "illegal base64 data")]
    if old is not None and old.get("immutable"):
        parts = ("data", "binaryData", "immutable")
        if any(obj.get(part) != old.get(part) for part in parts):
            return [
                Problem("data", Reason.FORBIDDEN.cause, "Forbidden: field is immutable when `immutable` is set")
            ]
    return []


def _metadata_problems(metadata: Object, old: Object | None) -> list[Problem]:
    problems = []
    controllers = [owner["name"] for owner in metadata.get("ownerReferences") or () if owner.get("controller")]
    if len(controllers) > 1:
        why = f"Only one reference can have Controller set to true. Found: {', '.join(controllers)}"
        problems.append(_invalid("metadata.ownerReferences", controllers, why))
    if old is not None and metadata.get("deletionTimestamp"):
        new = set(metadata.get("finalizers") or ()) - set(old["metadata"].get("finalizers") or ())
        if new:
            why = "Forbidden: no new finalizers can be added if the object is being deleted, found new finalizers "
            problems.append(Problem("metadata.finalizers", Reason.FORBIDDEN.cause, why + ", ".join(sorted(new))))
    return problems


def _finalizer_problems(metadata: Object) -> list[Problem]:
    return [
        _invalid(
            f"metadata.finalizers[{index}]",
            name,
            "name is neither a standard finalizer name nor is it fully qualified",
        )
        for index, name in enumerate(metadata.get("finalizers") or ())
        if "/" not in name and name not in _STANDARD_FINALIZERS
    ]


def _port_problems(ports: Sequence[Object]) -> list[Problem]:
    """Where there are several ports each needs a name of its own."""
    problems, seen = [], set()
    for index, port in enumerate(ports):
        name = port.get("name")
        if not name and len(ports) > 1:
            problems.append(Problem(f"spec.ports[{index}].name", Reason.REQUIRED.cause, Reason.REQUIRED.words))
        elif name and name in seen:
            problems.append(Problem.of(f"spec.ports[{index}].name", Reason.DUPLICATE, name, ""))
        seen.add(name)
    return problems


def _invalid(field: str, value: Any, why: str) -> Problem:
    return Problem.of(field, Reason.INVALID, value, why)
