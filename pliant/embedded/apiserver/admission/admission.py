"""What the server adds to objects and refuses of them beyond their schema, kind by kind."""

from __future__ import annotations

import base64
import binascii
import ipaddress
from collections.abc import Callable, Sequence
from typing import Any

from pliant.embedded.apiserver.admission.cluster_ip_allocator import SERVICE_CIDR, ClusterIpAllocator
from pliant.embedded.apiserver.admission.disruption_budgets import DISRUPTION_BUDGETS, validate_disruption_budget
from pliant.embedded.apiserver.admission.persistent_volume_claims import (
    PERSISTENT_VOLUME_CLAIMS,
    set_pvc_defaults,
    validate_pvc,
)
from pliant.embedded.apiserver.admission.pods import set_pod_defaults, validate_pod
from pliant.embedded.apiserver.admission.priority_classes import (
    PRIORITY_CLASSES,
    set_priority_class_defaults,
    validate_priority_class,
)
from pliant.embedded.apiserver.handlers.object_lifecycle import FOREGROUND_FINALIZER, ORPHAN_FINALIZER
from pliant.embedded.registry.conversions import EVENTS_CONVERSION
from pliant.embedded.registry.crds import apply_crd_defaults, validate_crd
from pliant.embedded.registry.kinds import Kind
from pliant.embedded.schema import FieldError, FieldErrorType
from pliant.embedded.storage.stored_objects import Object

CRDS = "apiextensions.k8s.io/customresourcedefinitions"
_STANDARD_FINALIZERS = frozenset({FOREGROUND_FINALIZER, ORPHAN_FINALIZER, "kubernetes"})

Defaulter = Callable[[Object, Object | None], None]
Validator = Callable[[Object, Object | None], list[FieldError]]


class Admission:
    """Completes objects and finds their problems; `old` is what they replace, None for new ones."""

    def __init__(self, cluster_ips: ClusterIpAllocator) -> None:
        self._cluster_ips = cluster_ips
        self._defaulters: dict[str, Defaulter] = {
            "/pods": set_pod_defaults,
            "/secrets": _merge_string_data,
            PERSISTENT_VOLUME_CLAIMS: set_pvc_defaults,
            "/namespaces": _add_namespace_name_label,
            "/services": self._set_service_defaults,
            PRIORITY_CLASSES: set_priority_class_defaults,
            CRDS: apply_crd_defaults,
        }
        self._validators: dict[str, Validator] = {
            "/pods": validate_pod,
            "/secrets": _validate_secret_or_config_map,
            "/configmaps": _validate_secret_or_config_map,
            "/events": validate_event,
            PERSISTENT_VOLUME_CLAIMS: validate_pvc,
            DISRUPTION_BUDGETS: validate_disruption_budget,
            "/services": self._validate_service,
            PRIORITY_CLASSES: validate_priority_class,
            CRDS: validate_crd,
        }

    def admit(self, kind: Kind, obj: Object, old: Object | None) -> list[FieldError]:
        """Complete an object in place and tell everything wrong with it.

        Rules between fields are read only when each field is sound by itself, so they may trust its type.
        """
        if kind.schema is not None:
            kind.schema.default(obj)
            if problems := kind.schema.validate(obj):
                return problems
        if (completes := self._defaulters.get(kind.resource_key)) is not None:
            completes(obj, old)
        problems = _validate_metadata(obj["metadata"], old)
        if not kind.is_custom and kind.resource_key != CRDS:
            problems += _validate_finalizer_names(obj["metadata"])
        if (finds := self._validators.get(kind.resource_key)) is not None:
            problems += finds(obj, old)
        return problems

    def allocate_cluster_ip(self, kind: Kind, obj: Object) -> None:
        """Give a new object what only one object can have; not for dry runs."""
        spec = obj.get("spec") or {}
        if kind.resource_key == "/services" and spec.get("type") != "ExternalName" and not spec.get("clusterIP"):
            spec["clusterIP"] = self._cluster_ips.allocate()
            _set_ip_family_defaults(spec)

    def _set_service_defaults(self, service: Object, old: Object | None) -> None:
        spec = service.setdefault("spec", {})
        for port in spec.get("ports") or ():
            port.setdefault("targetPort", port["port"])
        if old is not None and spec.get("type") != "ExternalName" and not spec.get("clusterIP"):
            spec["clusterIP"] = (old.get("spec") or {}).get("clusterIP", "")
        _set_ip_family_defaults(spec)

    def _validate_service(self, service: Object, old: Object | None) -> list[FieldError]:
        spec = service.get("spec") or {}
        address = spec.get("clusterIP") or ""
        if old is not None:
            before = (old.get("spec") or {}).get("clusterIP") or ""
            changed = before and address != before and spec.get("type") != "ExternalName"
            return [_invalid_field("spec.clusterIPs[0]", address, "may not change once set")] if changed else []
        if not spec.get("ports") and address != "None" and spec.get("type") != "ExternalName":
            return [FieldError("spec.ports", FieldErrorType.REQUIRED.cause, FieldErrorType.REQUIRED.message_prefix)]
        return _validate_port_names(spec.get("ports") or ()) + self._validate_cluster_ip(address)

    def _validate_cluster_ip(self, cluster_ip: str) -> list[FieldError]:
        if cluster_ip in ("", "None"):
            return []
        try:
            inside = ipaddress.ip_address(cluster_ip) in SERVICE_CIDR
        except ValueError:
            return [_invalid_field("spec.clusterIPs[0]", cluster_ip, "must be a valid IP address")]
        if not inside:
            why = f"failed to allocate IP {cluster_ip}: the provided IP is not in the valid range {SERVICE_CIDR}"
            return [_invalid_field("spec.clusterIPs", [cluster_ip], why)]
        if self._cluster_ips.is_allocated(cluster_ip):
            why = f"failed to allocate IP {cluster_ip}: provided IP is already allocated"
            return [_invalid_field("spec.clusterIPs", [cluster_ip], why)]
        return []


def _set_ip_family_defaults(spec: Object) -> None:
    if not spec.get("clusterIP"):
        return
    spec["clusterIPs"] = [spec["clusterIP"]]
    spec.setdefault("ipFamilies", ["IPv4"])
    spec.setdefault("ipFamilyPolicy", "SingleStack")


def _merge_string_data(secret: Object, old: Object | None) -> None:
    plain = secret.pop("stringData", None)
    if plain:
        encoded = {name: base64.b64encode(text.encode()).decode() for name, text in plain.items()}
        secret["data"] = {**(secret.get("data") or {}), **encoded}


def _add_namespace_name_label(namespace: Object, old: Object | None) -> None:
    metadata = namespace["metadata"]
    metadata["labels"] = {**(metadata.get("labels") or {}), "kubernetes.io/metadata.name": metadata["name"]}


def _validate_secret_or_config_map(obj: Object, old: Object | None) -> list[FieldError]:
    if obj.get("kind") == "Secret":
        for name, value in (obj.get("data") or {}).items():
            try:
                base64.b64decode(value, validate=True)
            except (binascii.Error, ValueError):
                return [_invalid_field(f"data[{name}]", "<secret contents redacted>", "illegal base64 data")]
    if old is not None and old.get("immutable"):
        parts = ("data", "binaryData", "immutable")
        if any(obj.get(part) != old.get(part) for part in parts):
            return [
                FieldError(
                    "data", FieldErrorType.FORBIDDEN.cause, "Forbidden: field is immutable when `immutable` is set"
                )
            ]
    return []


def _validate_metadata(metadata: Object, old: Object | None) -> list[FieldError]:
    problems = []
    controllers = [owner["name"] for owner in metadata.get("ownerReferences") or () if owner.get("controller")]
    if len(controllers) > 1:
        why = f"Only one reference can have Controller set to true. Found: {', '.join(controllers)}"
        problems.append(_invalid_field("metadata.ownerReferences", controllers, why))
    if old is not None and metadata.get("deletionTimestamp"):
        new = set(metadata.get("finalizers") or ()) - set(old["metadata"].get("finalizers") or ())
        if new:
            why = "Forbidden: no new finalizers can be added if the object is being deleted, found new finalizers "
            problems.append(
                FieldError("metadata.finalizers", FieldErrorType.FORBIDDEN.cause, why + ", ".join(sorted(new)))
            )
    return problems


def _validate_finalizer_names(metadata: Object) -> list[FieldError]:
    return [
        _invalid_field(
            f"metadata.finalizers[{index}]", name, "name is neither a standard finalizer name nor is it fully qualified"
        )
        for index, name in enumerate(metadata.get("finalizers") or ())
        if "/" not in name and name not in _STANDARD_FINALIZERS
    ]


def _validate_port_names(ports: Sequence[Object]) -> list[FieldError]:
    """Where there are several ports each needs a name of its own."""
    problems, seen = [], set()
    for index, port in enumerate(ports):
        name = port.get("name")
        if not name and len(ports) > 1:
            problems.append(
                FieldError(
                    f"spec.ports[{index}].name", FieldErrorType.REQUIRED.cause, FieldErrorType.REQUIRED.message_prefix
                )
            )
        elif name and name in seen:
            problems.append(FieldError.of(f"spec.ports[{index}].name", FieldErrorType.DUPLICATE, name, ""))
        seen.add(name)
    return problems


def _invalid_field(field: str, value: Any, detail: str) -> FieldError:
    return FieldError.of(field, FieldErrorType.INVALID, value, detail)


_REQUIRED_EVENT_FIELDS = ("eventTime", "reportingController", "reportingInstance", "action", "reason")
_MAX_EVENT_FIELD_BYTES = {"reportingInstance": 128, "action": 128, "reason": 128, "note": 1024}
_DEPRECATED_EVENT_FIELDS = (
    "deprecatedSource",
    "deprecatedFirstTimestamp",
    "deprecatedLastTimestamp",
    "deprecatedCount",
)
_EVENT_TYPES = ("Normal", "Warning")
_MIN_EVENT_SERIES_COUNT = 2


def validate_event(event: Object, old: Object | None) -> list[FieldError]:
    """Everything wrong with an event of the newer form; the older one must only be about its own namespace."""
    if event.get("apiVersion") != EVENTS_CONVERSION.api_version:
        place = (event.get("involvedObject") or {}).get("namespace")
        return [_namespace_mismatch(place)] if place and place != event["metadata"].get("namespace") else []
    return (
        _validate_new_event(event) if old is None else _validate_event_update(event, EVENTS_CONVERSION.to_served(old))
    )


def _validate_new_event(event: Object) -> list[FieldError]:
    problems = [
        FieldError(field, FieldErrorType.REQUIRED.cause, FieldErrorType.REQUIRED.message_prefix)
        for field in _REQUIRED_EVENT_FIELDS
        if not event.get(field)
    ]
    for field, longest in _MAX_EVENT_FIELD_BYTES.items():
        if len(str(event.get(field) or "").encode()) > longest:
            problems.append(FieldError.of(field, FieldErrorType.INVALID, "", f"can have at most {longest} characters"))
    problems += [
        FieldError.of(field, FieldErrorType.INVALID, event[field], "needs to be unset")
        for field in _DEPRECATED_EVENT_FIELDS
        if event.get(field)
    ]
    if event.get("type") not in _EVENT_TYPES:
        problems.append(
            FieldError.of("type", FieldErrorType.INVALID, event.get("type") or "", "must be Normal or Warning")
        )
    if _regarding_namespace(event) != event["metadata"].get("namespace"):
        problems.append(_namespace_mismatch(_regarding_namespace(event)))
    return problems + _validate_event_series(event)


def _namespace_mismatch(namespace: str) -> FieldError:
    return FieldError.of(
        "involvedObject.namespace", FieldErrorType.INVALID, namespace, "does not match event.namespace"
    )


def _validate_event_series(event: Object) -> list[FieldError]:
    series = event.get("series")
    if not series:
        return []
    problems = []
    if (series.get("count") or 0) < _MIN_EVENT_SERIES_COUNT:
        why = f"should be at least {_MIN_EVENT_SERIES_COUNT}"
        problems.append(FieldError.of("series.count", FieldErrorType.INVALID, series.get("count") or 0, why))
    if not series.get("lastObservedTime"):
        problems.append(
            FieldError("series.lastObservedTime", FieldErrorType.REQUIRED.cause, FieldErrorType.REQUIRED.message_prefix)
        )
    return problems


def _validate_event_update(event: Object, old: Object) -> list[FieldError]:
    """Only how often an event happened may change, and what is written on every object."""
    free = {"apiVersion", "kind", "metadata", "series"}
    changed = [field for field in sorted({*event, *old} - free) if event.get(field) != old.get(field)]
    problems = [
        FieldError.of(field, FieldErrorType.INVALID, event.get(field), "field is immutable") for field in changed
    ]
    return problems + _validate_event_series(event)


def _regarding_namespace(event: Object) -> str:
    """Where an event belongs: to the namespace of what it is about, or to the one for things without."""
    return (event.get("regarding") or {}).get("namespace") or "default"
