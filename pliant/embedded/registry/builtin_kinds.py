"""The built-in kinds, which are served without a CRD."""

from __future__ import annotations

from functools import cache
from typing import Any, Final

from pliant.embedded.registry import builtin_columns as columns
from pliant.embedded.registry.addon_kinds import metrics_kinds, pod_group_kinds, rbac_kinds
from pliant.embedded.registry.builtin_schema_rules import SCHEMA_RULES
from pliant.embedded.registry.conversions import ENDPOINTS_CONVERSION, EVENTS_CONVERSION, Conversion, convert_schema
from pliant.embedded.registry.kinds import Kind
from pliant.embedded.registry.pod_columns import POD_COLUMNS
from pliant.embedded.registry.tables import TableColumn
from pliant.embedded.schema import Schema
from pliant.embedded.schema.metadata import DNS_1035_LABEL, DNS_LABEL, DNS_SUBDOMAIN, NameRule
from pliant.schemas import load_definition

_NAME_RULES: Final[dict[str, NameRule]] = {"Namespace": DNS_LABEL, "Service": DNS_1035_LABEL}


@cache
def builtin_kinds() -> tuple[Kind, ...]:
    return (
        _core_kind("Binding", "bindings", (), verbs=("create",)),
        _core_kind("ConfigMap", "configmaps", columns.CONFIG_MAP, short_names=("cm",)),
        _core_kind("Endpoints", "endpoints", columns.ENDPOINTS, short_names=("ep",), conversion=ENDPOINTS_CONVERSION),
        _core_kind("Event", "events", columns.EVENT, short_names=("ev",), selectable_fields=_EVENT_SELECTABLE_FIELDS),
        _core_kind(
            "Namespace",
            "namespaces",
            columns.NAMESPACE,
            namespaced=False,
            short_names=("ns",),
            subresources=("status", "finalize"),
            selectable_fields=("status.phase",),
        ),
        _core_kind(
            "Node",
            "nodes",
            columns.NODE,
            namespaced=False,
            short_names=("no",),
            subresources=("status",),
            selectable_fields=("spec.unschedulable",),
        ),
        _core_kind(
            "PersistentVolumeClaim",
            "persistentvolumeclaims",
            columns.PERSISTENT_VOLUME_CLAIM,
            short_names=("pvc",),
            subresources=("status",),
        ),
        _core_kind(
            "Pod",
            "pods",
            POD_COLUMNS,
            short_names=("po",),
            categories=("all",),
            subresources=("status", "log", "binding", "eviction", "exec", "attach", "portforward"),
            has_generation=True,
            selectable_fields=_POD_SELECTABLE_FIELDS,
        ),
        _core_kind("Secret", "secrets", columns.SECRET, selectable_fields=("type",)),
        _core_kind(
            "ServiceAccount", "serviceaccounts", columns.SERVICE_ACCOUNT, short_names=("sa",), subresources=("token",)
        ),
        _core_kind(
            "Service",
            "services",
            columns.SERVICE,
            short_names=("svc",),
            categories=("all",),
            subresources=("status",),
            selectable_fields=("spec.clusterIP", "spec.type"),
        ),
        _builtin_kind("coordination.k8s.io", "Lease", "leases", columns.LEASE),
        _builtin_kind(
            "discovery.k8s.io", "EndpointSlice", "endpointslices", columns.ENDPOINT_SLICE, has_generation=True
        ),
        _builtin_kind(
            "events.k8s.io",
            "Event",
            "events",
            columns.EVENT,
            short_names=("ev",),
            selectable_fields=_EVENTS_V1_SELECTABLE_FIELDS,
            conversion=EVENTS_CONVERSION,
        ),
        _builtin_kind(
            "policy",
            "PodDisruptionBudget",
            "poddisruptionbudgets",
            columns.POD_DISRUPTION_BUDGET,
            short_names=("pdb",),
            subresources=("status",),
            has_generation=True,
        ),
        _builtin_kind(
            "scheduling.k8s.io",
            "PriorityClass",
            "priorityclasses",
            columns.PRIORITY_CLASS,
            namespaced=False,
            short_names=("pc",),
        ),
        *rbac_kinds(),
        *pod_group_kinds(),
        *metrics_kinds(),
        _builtin_kind(
            "apiextensions.k8s.io",
            "CustomResourceDefinition",
            "customresourcedefinitions",
            columns.CRD,
            namespaced=False,
            short_names=("crd", "crds"),
            categories=("api-extensions",),
            subresources=("status",),
            has_generation=True,
        ),
    )


_POD_SELECTABLE_FIELDS: Final = (
    *("spec.hostNetwork", "spec.nodeName", "spec.restartPolicy", "spec.schedulerName", "spec.serviceAccountName"),
    *("status.nominatedNodeName", "status.phase", "status.podIP"),
)
_REFERENCE_FIELDS: Final = ("apiVersion", "fieldPath", "kind", "name", "namespace", "resourceVersion", "uid")
_EVENT_SELECTABLE_FIELDS: Final = (
    *(f"involvedObject.{field}" for field in _REFERENCE_FIELDS),
    *("reason", "reportingComponent", "source", "type"),
)
_EVENTS_V1_SELECTABLE_FIELDS: Final = (
    *(f"regarding.{field}" for field in _REFERENCE_FIELDS),
    *("reason", "reportingController", "type"),
)


def _core_kind(kind: str, plural: str, table_columns: tuple[TableColumn, ...], **kind_fields: Any) -> Kind:
    return _builtin_kind("", kind, plural, table_columns, **kind_fields)


def _builtin_kind(
    group: str, kind: str, plural: str, table_columns: tuple[TableColumn, ...], **kind_fields: Any
) -> Kind:
    kind_fields.setdefault("namespaced", True)
    return Kind(
        group=group,
        version="v1",
        plural=plural,
        singular=kind.lower(),
        kind=kind,
        list_kind=f"{kind}List",
        schema=_builtin_schema(kind, kind_fields.get("conversion")),
        columns=table_columns,
        has_status="status" in kind_fields.get("subresources", ()),
        **kind_fields,
    )


def _builtin_schema(kind: str, conversion: Conversion | None = None) -> Schema:
    """Return the published schema of a kind with the rules that Kubernetes has only in code."""
    openapi = load_definition(kind) if conversion is None else convert_schema(load_definition(kind), conversion)
    for path, keywords in SCHEMA_RULES.get(kind, {}).items():
        _schema_node_at(openapi, path).update(keywords)
    _drop_required(openapi["properties"].get("status", {}))
    return Schema(openapi, _NAME_RULES.get(kind, DNS_SUBDOMAIN))


def _drop_required(schema: dict[str, Any]) -> None:
    """Make all fields of a status optional: the API server decodes absent ones as zero values."""
    schema.pop("required", None)
    for inner in (*schema.get("properties", {}).values(), schema.get("items"), schema.get("additionalProperties")):
        if isinstance(inner, dict):
            _drop_required(inner)


def _schema_node_at(schema: dict[str, Any], path: str) -> dict[str, Any]:
    """Return the schema of a path such as `spec.containers[].name`."""
    node = schema
    for part in path.split("."):
        name = part.removesuffix("[]")
        node = node["properties"][name]
        if name != part:
            node = node["items"]
    return node
