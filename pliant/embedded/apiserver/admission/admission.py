"""Defaulting and validation of objects beyond their schema; kinds with many rules have their own modules."""

from __future__ import annotations

import base64
from collections.abc import Callable, Sequence

from pliant.embedded.apiserver.admission import priority_classes
from pliant.embedded.apiserver.admission.cluster_ip_allocator import SERVICES_RESOURCE_KEY, ClusterIpAllocator
from pliant.embedded.apiserver.admission.custom_objects import validate_custom_object
from pliant.embedded.apiserver.admission.disruption_budgets import (
    DISRUPTION_BUDGETS_RESOURCE_KEY,
    validate_disruption_budget,
)
from pliant.embedded.apiserver.admission.pods import set_pod_defaults, set_qos_class, validate_pod
from pliant.embedded.apiserver.admission.rbac_objects import RBAC_DEFAULTERS, RBAC_VALIDATORS
from pliant.embedded.apiserver.admission.service_addresses import allocate_addresses, prepare_addresses
from pliant.embedded.apiserver.admission.services import set_service_defaults
from pliant.embedded.apiserver.admission.validation.claims import set_claim_defaults, validate_claim
from pliant.embedded.apiserver.admission.validation.configuration import validate_config_map, validate_secret
from pliant.embedded.apiserver.admission.validation.endpoint_slices import (
    ENDPOINT_SLICES_RESOURCE_KEY,
    set_endpoint_slice_defaults,
    validate_endpoint_slice,
)
from pliant.embedded.apiserver.admission.validation.events import validate_event
from pliant.embedded.apiserver.admission.validation.leases import drop_disabled_lease_fields, validate_lease
from pliant.embedded.apiserver.admission.validation.namespaces import set_namespace_defaults, validate_namespace
from pliant.embedded.apiserver.admission.validation.services import validate_service
from pliant.embedded.apiserver.admission.workloads import (
    DEFERRED_DEFAULTERS,
    DEFERRED_ERROR_FILTERS,
    DEFERRED_VALIDATORS,
)
from pliant.embedded.apiserver.handlers.object_lifecycle import FOREGROUND_FINALIZER, ORPHAN_FINALIZER
from pliant.embedded.apiserver.http.errors import forbidden_field, invalid_field
from pliant.embedded.apiserver.policies.deferred_rules import POLICY_DEFAULTERS, POLICY_VALIDATORS
from pliant.embedded.apiserver.protobuf.typed_objects import fill_zero_values
from pliant.embedded.apiserver.quota.limit_range_objects import set_limit_range_defaults, validate_limit_range
from pliant.embedded.apiserver.quota.resource_quota_objects import validate_resource_quota
from pliant.embedded.registry.crds import apply_crd_defaults, validate_crd
from pliant.embedded.registry.kinds import Kind
from pliant.embedded.schema import FieldError
from pliant.embedded.storage.store import Transaction
from pliant.embedded.storage.stored_objects import Object

CRDS_RESOURCE_KEY = "apiextensions.k8s.io/customresourcedefinitions"
MAX_CONFIG_BYTES = 1024 * 1024  # of the values of a ConfigMap or Secret
_STANDARD_FINALIZERS = frozenset({FOREGROUND_FINALIZER, ORPHAN_FINALIZER, "kubernetes"})
_VALIDATED_WITH_ERRORS = frozenset(
    {
        *("pods", "services", "secrets", "configmaps", "persistentvolumeclaims", "namespaces", "serviceaccounts"),
        *("limitranges", "resourcequotas"),
        *(
            "events",
            "events.events.k8s.io",
            "endpointslices.discovery.k8s.io",
            "poddisruptionbudgets.policy",
            "leases.coordination.k8s.io",
        ),
        *(f"{plural}.rbac.authorization.k8s.io" for plural in ("roles", "clusterroles")),
        *(f"{plural}.rbac.authorization.k8s.io" for plural in ("rolebindings", "clusterrolebindings")),
        *("deployments.apps", "replicasets.apps", "jobs.batch", "controllerrevisions.apps"),
        "validatingadmissionpolicies.admissionregistration.k8s.io",
        "validatingadmissionpolicybindings.admissionregistration.k8s.io",
        *("priorityclasses.scheduling.k8s.io", "customresourcedefinitions.apiextensions.k8s.io"),
    }
)
_WITHOUT_FINALIZER_NAMES = frozenset(
    {
        *(
            "customresourcedefinitions.apiextensions.k8s.io",
            "poddisruptionbudgets.policy",
            "leases.coordination.k8s.io",
        ),
        *("events", "validatingadmissionpolicies.admissionregistration.k8s.io"),
        "validatingadmissionpolicybindings.admissionregistration.k8s.io",
    }
)
"""Resources whose finalizers may have a name without a domain."""
_METADATA_LAST = frozenset({"events", "poddisruptionbudgets.policy"})
"""Resources whose new objects have their metadata validated only if their own fields are valid."""


class Admission:
    """Sets defaults in objects and validates them; `old` is the object to be replaced, None for a new one."""

    def __init__(self, cluster_ips: ClusterIpAllocator) -> None:
        self._cluster_ips = cluster_ips
        self._defaulters: dict[str, Callable[[Object, Object | None], None]] = {
            "/pods": set_pod_defaults,
            "/secrets": _merge_string_data,
            "/persistentvolumeclaims": set_claim_defaults,
            "/namespaces": set_namespace_defaults,
            "/serviceaccounts": _clean_secret_references,
            "coordination.k8s.io/leases": drop_disabled_lease_fields,
            "/limitranges": set_limit_range_defaults,
            "/services": set_service_defaults,
            ENDPOINT_SLICES_RESOURCE_KEY: set_endpoint_slice_defaults,
            priority_classes.PRIORITY_CLASSES_RESOURCE_KEY: priority_classes.set_priority_class_defaults,
            CRDS_RESOURCE_KEY: apply_crd_defaults,
            **RBAC_DEFAULTERS,
            **DEFERRED_DEFAULTERS,
            **POLICY_DEFAULTERS,
        }
        self._validators: dict[str, Callable[[Object, Object | None], list[FieldError]]] = {
            "/pods": validate_pod,
            "/secrets": validate_secret,
            "/configmaps": validate_config_map,
            "/events": validate_event,
            "/namespaces": validate_namespace,
            "coordination.k8s.io/leases": validate_lease,
            "/persistentvolumeclaims": validate_claim,
            "/limitranges": validate_limit_range,
            "/resourcequotas": validate_resource_quota,
            DISRUPTION_BUDGETS_RESOURCE_KEY: validate_disruption_budget,
            "/services": validate_service,
            "discovery.k8s.io/endpointslices": validate_endpoint_slice,
            priority_classes.PRIORITY_CLASSES_RESOURCE_KEY: priority_classes.validate_priority_class,
            CRDS_RESOURCE_KEY: validate_crd,
            **RBAC_VALIDATORS,
            **DEFERRED_VALIDATORS,
            **POLICY_VALIDATORS,
        }

    def set_defaults_and_validate(
        self,
        kind: Kind,
        obj: Object,
        old: Object | None,
        mutate: Callable[[], None] = lambda: None,
        *,
        found: Sequence[FieldError] = (),
        is_dry_run: bool = False,
    ) -> list[FieldError]:
        """Set the defaults of an object in place, and return its errors; `mutate` may change the object in between.

        `found` are errors that the request has besides.

        Most validators run only if the schema finds no errors. Those of `_VALIDATED_WITH_ERRORS` can rely on the types
        of all fields, because such objects have been read as typed objects, but not on required fields.
        """
        errors: list[FieldError] = []
        if kind.resource_key in DEFERRED_DEFAULTERS and not obj.get("spec"):
            obj["spec"] = {}  # the schema sets defaults of fields only where their object exists
        if kind.schema is not None:
            if not kind.is_custom and "default" not in kind.schema.openapi["properties"].get("spec", {"default": None}):
                obj.setdefault("spec", {})  # a struct in Go, whose fields have defaults
            kind.schema.default(obj)
            if not kind.is_custom:
                errors = kind.schema.validate(obj)
            elif errors := validate_custom_object(kind, kind.schema, obj, old, found):
                return [*found, *_validate_metadata(obj["metadata"], old), *errors]
        if errors and not kind.is_custom and kind.qualified_name not in _VALIDATED_WITH_ERRORS:
            return [*found, *errors]
        if not kind.is_custom:
            fill_zero_values(kind.api_version, kind.kind, obj)
        if (set_defaults := self._defaulters.get(kind.resource_key)) is not None:
            set_defaults(obj, old)
        mutate()
        if kind.resource_key == "/pods" and old is None:
            set_qos_class(obj)
        if kind.resource_key == SERVICES_RESOURCE_KEY:
            address_errors = prepare_addresses(self._cluster_ips, obj, old, is_dry_run=is_dry_run)
            if address_errors:  # they hide all others: API servers allocate addresses first
                return address_errors
        errors = self._validate_fields(kind, obj, old, [*found, *errors])
        select = DEFERRED_ERROR_FILTERS.get(kind.resource_key)
        return errors if select is None or not errors else select(obj, errors)

    def _validate_fields(
        self, kind: Kind, obj: Object, old: Object | None, errors: list[FieldError]
    ) -> list[FieldError]:
        """Return the errors of the schema, and those that it does not find."""
        errors += _validate_metadata(obj["metadata"], old)
        if not kind.is_custom and kind.qualified_name not in _WITHOUT_FINALIZER_NAMES:
            errors += _validate_finalizer_names(obj["metadata"])
        validate = self._validators.get(kind.resource_key)
        found = validate(obj, old) if validate is not None else []
        if found and old is None and kind.qualified_name in _METADATA_LAST:
            errors = [error for error in errors if not error.field.startswith("metadata")]
        return errors + found

    def allocate_service_addresses(
        self, transaction: Transaction, kind: Kind, obj: Object, old: Object | None
    ) -> list[FieldError]:
        """Allocate the cluster IP and the node ports of a service; return the errors of ports that it cannot have."""
        if kind.resource_key != SERVICES_RESOURCE_KEY:
            return []
        others = (each.decode() for each in transaction.committed.list_objects(SERVICES_RESOURCE_KEY))
        return allocate_addresses(self._cluster_ips, obj, old, others, is_dry_run=transaction.is_dry_run)


def _merge_string_data(secret: Object, old: Object | None) -> None:
    merge_string_data(secret)


def merge_string_data(secret: Object) -> None:
    """Move the texts of a secret to its data."""
    plain = secret.pop("stringData", None)
    if plain:
        encoded = {name: base64.b64encode(text.encode()).decode() for name, text in plain.items()}
        secret["data"] = {**(secret.get("data") or {}), **encoded}


def _clean_secret_references(account: Object, old: Object | None) -> None:
    for secret in account.get("secrets") or ():
        for field in secret.keys() - {"name"}:
            del secret[field]


def _validate_metadata(metadata: Object, old: Object | None) -> list[FieldError]:
    if old is None:
        return []
    errors = [
        invalid_field(f"metadata.{field}", metadata.get(field), "field is immutable")
        for field in ("deletionTimestamp", "deletionGracePeriodSeconds")
        if metadata.get(field) != old["metadata"].get(field)
    ]
    if old["metadata"].get("deletionTimestamp"):
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
