"""Defaulting and validation of objects beyond their schema; kinds with many rules have their own modules."""

from __future__ import annotations

import base64
import binascii
import ipaddress
import re
from collections.abc import Callable, Sequence

from pliant.embedded.apiserver.admission import priority_classes
from pliant.embedded.apiserver.admission.cluster_ip_allocator import SERVICE_CIDR, ClusterIpAllocator
from pliant.embedded.apiserver.admission.disruption_budgets import (
    DISRUPTION_BUDGETS_RESOURCE_KEY,
    validate_disruption_budget,
)
from pliant.embedded.apiserver.admission.pods import set_pod_defaults, set_qos_class, validate_pod
from pliant.embedded.apiserver.admission.rbac_objects import RBAC_DEFAULTERS, RBAC_VALIDATORS
from pliant.embedded.apiserver.admission.workloads import DEFERRED_DEFAULTERS, DEFERRED_VALIDATORS
from pliant.embedded.apiserver.handlers.object_lifecycle import FOREGROUND_FINALIZER, ORPHAN_FINALIZER
from pliant.embedded.apiserver.http.errors import (
    duplicate_value,
    forbidden_field,
    invalid_field,
    required_field,
    unsupported_value,
)
from pliant.embedded.apiserver.protobuf.typed_objects import fill_zero_values
from pliant.embedded.apiserver.quota.limit_range_objects import set_limit_range_defaults, validate_limit_range
from pliant.embedded.apiserver.quota.resource_quota_objects import validate_resource_quota
from pliant.embedded.registry.conversions import EVENTS_CONVERSION
from pliant.embedded.registry.crds import apply_crd_defaults, validate_crd
from pliant.embedded.registry.kinds import Kind
from pliant.embedded.schema import FieldError, Schema
from pliant.embedded.schema.field_errors import FieldErrorType
from pliant.embedded.schema.metadata import config_key_problem
from pliant.embedded.storage.stored_objects import Object
from pliant.schemas.quantity import parse_quantity

CRDS_RESOURCE_KEY = "apiextensions.k8s.io/customresourcedefinitions"
MAX_CONFIG_BYTES = 1024 * 1024  # of the values of a ConfigMap or Secret
_STANDARD_FINALIZERS = frozenset({FOREGROUND_FINALIZER, ORPHAN_FINALIZER, "kubernetes"})
PVC_PROTECTION_FINALIZER = "kubernetes.io/pvc-protection"
_CAUSES_THAT_PREVENT_RULES = frozenset(
    each.cause
    for each in (
        FieldErrorType.UNSUPPORTED,
        FieldErrorType.REQUIRED,
        FieldErrorType.TOO_LONG,
        FieldErrorType.TOO_MANY,
        FieldErrorType.TYPE,
    )
)
_RULES_NOT_EVALUATED = (
    "Invalid value: null: some validation rules were not checked because the object was invalid; correct the existing "
    "errors to complete validation"
)
_ACCESS_MODES = ("ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod")
_REQUIRED_EVENT_FIELDS = ("eventTime", "reportingController", "reportingInstance", "action", "reason")
_MAX_EVENT_FIELD_BYTES = {"reportingInstance": 128, "action": 128, "reason": 128, "note": 1024}
_DEPRECATED_EVENT_SUFFIXES = ("Source", "FirstTimestamp", "LastTimestamp", "Count")


class Admission:
    """Sets defaults in objects and validates them; `old` is the object to be replaced, None for a new one."""

    def __init__(self, cluster_ips: ClusterIpAllocator) -> None:
        self._cluster_ips = cluster_ips
        self._defaulters: dict[str, Callable[[Object, Object | None], None]] = {
            "/pods": set_pod_defaults,
            "/secrets": _merge_string_data,
            "/persistentvolumeclaims": _set_pvc_defaults,
            "/namespaces": _add_namespace_name_label,
            "/limitranges": set_limit_range_defaults,
            "/services": self._set_service_defaults,
            priority_classes.PRIORITY_CLASSES_RESOURCE_KEY: priority_classes.set_priority_class_defaults,
            CRDS_RESOURCE_KEY: apply_crd_defaults,
            **RBAC_DEFAULTERS,
            **DEFERRED_DEFAULTERS,
        }
        self._validators: dict[str, Callable[[Object, Object | None], list[FieldError]]] = {
            "/pods": validate_pod,
            "/secrets": _validate_secret_or_config_map,
            "/configmaps": _validate_secret_or_config_map,
            "/events": _validate_event,
            "/persistentvolumeclaims": _validate_pvc,
            "/limitranges": validate_limit_range,
            "/resourcequotas": validate_resource_quota,
            DISRUPTION_BUDGETS_RESOURCE_KEY: validate_disruption_budget,
            "/services": self._validate_service,
            priority_classes.PRIORITY_CLASSES_RESOURCE_KEY: priority_classes.validate_priority_class,
            CRDS_RESOURCE_KEY: validate_crd,
            **RBAC_VALIDATORS,
            **DEFERRED_VALIDATORS,
        }

    def set_defaults_and_validate(
        self, kind: Kind, obj: Object, old: Object | None, mutate: Callable[[], None] = lambda: None
    ) -> list[FieldError]:
        """Set the defaults of an object in place, and return its errors; `mutate` may change the object in between.

        The validators of custom kinds run only if the schema finds no errors. Built-in kinds have been read as typed
        objects, so that their validators can rely on the types of all fields.
        """
        errors: list[FieldError] = []
        if kind.resource_key in DEFERRED_DEFAULTERS and not obj.get("spec"):
            obj["spec"] = {}  # the schema sets defaults of fields only where their object exists
        if kind.schema is not None:
            kind.schema.default(obj)
            errors = kind.schema.validate(obj)
            if kind.is_custom and (errors := _validate_custom_object(kind.schema, obj, old, errors)):
                return errors
        if not kind.is_custom:
            fill_zero_values(kind.api_version, kind.kind, obj)
        if (set_defaults := self._defaulters.get(kind.resource_key)) is not None:
            set_defaults(obj, old)
        mutate()
        if kind.resource_key == "/pods" and old is None:
            set_qos_class(obj)
        errors += _validate_metadata(obj["metadata"], old)
        if not kind.is_custom and kind.resource_key != CRDS_RESOURCE_KEY:
            errors += _validate_finalizer_names(obj["metadata"])
        if (validate := self._validators.get(kind.resource_key)) is not None:
            errors += validate(obj, old)
        return errors

    def assign_service_cluster_ip(self, kind: Kind, obj: Object) -> None:
        """Allocate the cluster IP of a new service; dry runs skip this."""
        spec = obj.get("spec") or {}
        if kind.resource_key == "/services" and spec.get("type") != "ExternalName" and not spec.get("clusterIP"):
            spec["clusterIP"] = self._cluster_ips.allocate()
            _set_ip_family_defaults(spec)

    def _set_service_defaults(self, service: Object, old: Object | None) -> None:
        spec = service.setdefault("spec", {})
        for port in spec.get("ports") or ():
            port["targetPort"] = port.get("targetPort") or port["port"]
        if old is not None and spec.get("type") != "ExternalName" and not spec.get("clusterIP"):
            spec["clusterIP"] = (old.get("spec") or {}).get("clusterIP", "")
        _set_ip_family_defaults(spec)

    def _validate_service(self, service: Object, old: Object | None) -> list[FieldError]:
        spec = service.get("spec") or {}
        address = spec.get("clusterIP") or ""
        if old is not None:
            before = (old.get("spec") or {}).get("clusterIP") or ""
            changed = before and address != before and spec.get("type") != "ExternalName"
            return [invalid_field("spec.clusterIPs[0]", address, "may not change once set")] if changed else []
        if not spec.get("ports") and address != "None" and spec.get("type") != "ExternalName":
            return [required_field("spec.ports")]
        return _validate_port_names(spec.get("ports") or ()) + self._validate_cluster_ip(address)

    def _validate_cluster_ip(self, cluster_ip: str) -> list[FieldError]:
        if cluster_ip in ("", "None"):
            return []
        try:
            is_in_range = ipaddress.ip_address(cluster_ip) in SERVICE_CIDR
        except ValueError:
            return [invalid_field("spec.clusterIPs[0]", cluster_ip, "must be a valid IP address")]
        if not is_in_range:
            cause = f"the provided IP ({cluster_ip}) is not in the valid range. "
            cause += f"The range of valid IPs is {SERVICE_CIDR}"
        elif self._cluster_ips.is_allocated(cluster_ip):
            cause = "provided IP is already allocated"
        else:
            return []
        return [invalid_field("spec.clusterIPs", [cluster_ip], f"failed to allocate IP {cluster_ip}: {cause}")]


def _set_ip_family_defaults(spec: Object) -> None:
    if spec.get("clusterIP"):
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
    if errors := _validate_config_keys(obj):
        return errors
    if obj.get("kind") == "Secret":
        for name, value in (obj.get("data") or {}).items():
            try:
                base64.b64decode(value, validate=True)
            except (binascii.Error, ValueError):
                return [invalid_field(f"data[{name}]", "<secret contents redacted>", "illegal base64 data")]
    fields = ("data", "binaryData", "immutable")
    if old is not None and old.get("immutable") and any(obj.get(field) != old.get(field) for field in fields):
        return [forbidden_field("data", "field is immutable when `immutable` is set")]
    return []


def _validate_config_keys(obj: Object) -> list[FieldError]:
    """Return the errors of the keys, which become file names, and of the total size."""
    data, binary_data = obj.get("data") or {}, obj.get("binaryData") or {}
    keys = [("data", key) for key in data] + [("binaryData", key) for key in binary_data]
    errors = [
        invalid_field(f"{field}[{key}]", key, message) for field, key in keys if (message := config_key_problem(key))
    ]
    detail = "duplicate of key present in binaryData"
    errors += [invalid_field(f"data[{key}]", key, detail) for key in data if key in binary_data]
    size = sum(len(value.encode()) for value in data.values()) + sum(map(len, binary_data.values()))
    # base64 is a third longer than what it encodes.
    encoded = [*binary_data.values(), *(data.values() if obj.get("kind") == "Secret" else ())]
    size -= sum(map(len, encoded)) // 4
    if size > MAX_CONFIG_BYTES:
        field = "data" if obj.get("kind") == "Secret" else ""
        limit = f"may not be more than {MAX_CONFIG_BYTES} bytes"
        errors.append(FieldError.of(field, FieldErrorType.TOO_LONG, "", limit))
    return errors


def _validate_custom_object(
    schema: Schema, obj: Object, old: Object | None, errors: Sequence[FieldError]
) -> list[FieldError]:
    """Return the errors of the schema and of its rules; objects of a wrong type or size are not passed to rules."""
    found = list(errors) if old is None else _without_unchanged_fields(errors, obj, old)
    if not any(error.reason in _CAUSES_THAT_PREVENT_RULES for error in found):
        return found + schema.validate_rules(obj, old)
    return (
        [*found, FieldError("<nil>", FieldErrorType.INVALID.cause, _RULES_NOT_EVALUATED)] if schema.has_rules else found
    )


def _without_unchanged_fields(errors: Sequence[FieldError], obj: Object, old: Object) -> list[FieldError]:
    """Return the errors of the top-level fields that an update changes: a CRD may be stricter than stored objects.

    Otherwise the status of such an object could not be written. API servers compare every field.
    """
    return [error for error in errors if obj.get(name := re.split(r"[.\[]", error.field)[0]) != old.get(name)]


def _validate_metadata(metadata: Object, old: Object | None) -> list[FieldError]:
    errors = []
    if old is not None and metadata.get("deletionTimestamp"):
        added = set(metadata.get("finalizers") or ()) - set(old["metadata"].get("finalizers") or ())
        if added:
            detail = "no new finalizers can be added if the object is being deleted, found new finalizers "
            errors.append(forbidden_field("metadata.finalizers", detail + ", ".join(sorted(added))))
    return errors


def _validate_finalizer_names(metadata: Object) -> list[FieldError]:
    detail = "name is neither a standard finalizer name nor is it fully qualified"
    return [
        invalid_field(f"metadata.finalizers[{index}]", name, detail)
        for index, name in enumerate(metadata.get("finalizers") or ())
        if "/" not in name and name not in _STANDARD_FINALIZERS
    ]


def _validate_port_names(ports: Sequence[Object]) -> list[FieldError]:
    """Require a unique name for each port if there are several."""
    errors, names = [], set()
    for index, port in enumerate(ports):
        path, name = f"spec.ports[{index}].name", port.get("name")
        if not name and len(ports) > 1:
            errors.append(required_field(path))
        elif name and name in names:
            errors.append(duplicate_value(path, name))
        names.add(name)
    return errors


def _set_pvc_defaults(claim: Object, old: Object | None) -> None:
    if old is None:
        finalizers = claim["metadata"].setdefault("finalizers", [])
        if PVC_PROTECTION_FINALIZER not in finalizers:
            finalizers.append(PVC_PROTECTION_FINALIZER)
        claim.setdefault("status", {}).setdefault("phase", "Pending")


def _validate_pvc(claim: Object, old: Object | None) -> list[FieldError]:
    if old is not None:
        return []
    spec = claim.get("spec") or {}
    modes = spec.get("accessModes") or []
    errors = [] if modes else [required_field("spec.accessModes", "at least 1 access mode is required")]
    errors += [
        unsupported_value("spec.accessModes", mode, _ACCESS_MODES) for mode in modes if mode not in _ACCESS_MODES
    ]
    size = ((spec.get("resources") or {}).get("requests") or {}).get("storage")
    if size is None:
        errors.append(required_field("spec.resources[storage]"))
    elif parse_quantity(size) <= 0:
        errors.append(invalid_field("spec.resources[storage]", size, "must be greater than zero"))
    return errors


def _validate_event(event: Object, old: Object | None) -> list[FieldError]:
    """Validate an events.k8s.io/v1 Event, or the namespace of a core/v1 Event."""
    if event.get("apiVersion") != EVENTS_CONVERSION.api_version:
        namespace = (event.get("involvedObject") or {}).get("namespace")
        if namespace and namespace != event["metadata"].get("namespace"):
            return [_namespace_mismatch(namespace)]
        return []
    if old is None:
        return _validate_new_event(event) + _validate_event_series(event)
    old = EVENTS_CONVERSION.to_served(old)
    fields = sorted({*event, *old} - {"apiVersion", "kind", "metadata", "series"})
    # Clients in Go leave out empty values that others send.
    changed = [field for field in fields if (event.get(field) or None) != (old.get(field) or None)]
    errors = [invalid_field(field, event.get(field), "field is immutable") for field in changed]
    return errors + _validate_event_series(event)


def _validate_new_event(event: Object) -> list[FieldError]:
    errors = [required_field(field) for field in _REQUIRED_EVENT_FIELDS if not event.get(field)]
    for field, limit in _MAX_EVENT_FIELD_BYTES.items():
        if len(str(event.get(field) or "").encode()) > limit:
            errors.append(invalid_field(field, "", f"can have at most {limit} characters"))
    deprecated = [field for suffix in _DEPRECATED_EVENT_SUFFIXES if event.get(field := f"deprecated{suffix}")]
    errors += [invalid_field(field, event[field], "needs to be unset") for field in deprecated]
    if event.get("type") not in ("Normal", "Warning"):
        errors.append(invalid_field("type", event.get("type") or "", "must be Normal or Warning"))
    # Events about objects without a namespace belong to the namespace default.
    namespace = (event.get("regarding") or {}).get("namespace") or "default"
    if namespace != event["metadata"].get("namespace"):
        errors.append(_namespace_mismatch(namespace))
    return errors


def _namespace_mismatch(namespace: str) -> FieldError:
    return invalid_field("involvedObject.namespace", namespace, "does not match event.namespace")


def _validate_event_series(event: Object) -> list[FieldError]:
    series = event.get("series")
    errors = []
    if series and (series.get("count") or 0) < 2:
        errors.append(invalid_field("series.count", series.get("count") or 0, "should be at least 2"))
    if series and not series.get("lastObservedTime"):
        errors.append(required_field("series.lastObservedTime"))
    return errors
