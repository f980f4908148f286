"""The built-in kinds, which are served without a CRD."""

from __future__ import annotations

from functools import cache
from typing import Any, Final

from pliant.embedded.registry import builtin_columns as columns
from pliant.embedded.registry.access_kinds import rbac_kinds, review_kinds
from pliant.embedded.registry.addon_kinds import metrics_kinds, pod_group_kinds
from pliant.embedded.registry.conversions import (
    ENDPOINTS_CONVERSION,
    EVENTS_CONVERSION,
    KindConversion,
    to_served_schema,
)
from pliant.embedded.registry.kinds import Kind
from pliant.embedded.registry.pod_columns import POD_COLUMNS
from pliant.embedded.registry.pod_schema_rules import PROTOCOL, pod_spec_rules
from pliant.embedded.registry.policy_kinds import policy_kinds
from pliant.embedded.registry.quota_kinds import quota_kinds
from pliant.embedded.registry.schema_rules import SchemaRules, add_schema_rules, drop_required
from pliant.embedded.registry.tables import TableColumn
from pliant.embedded.registry.unsupported_kinds import unsupported_kinds
from pliant.embedded.registry.workload_kinds import workload_kinds
from pliant.embedded.schema import Schema
from pliant.embedded.schema.metadata import DNS_LABEL_RULE, DNS_SUBDOMAIN_RULE, PATH_SEGMENT_RULE, NameRule
from pliant.schemas import load_kubernetes_schema

_BUDGET_STATUS_COUNTS: Final = ("disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods")

EXTRA_SCHEMA_KEYWORDS: Final[dict[str, SchemaRules]] = {
    "PersistentVolumeClaim": {
        **{f"spec.{field}.apiGroup": {"nullable": True} for field in ("dataSource", "dataSourceRef")},
        "spec.volumeMode": {"default": "Filesystem", "enum": ["Block", "Filesystem"]},
    },
    "Pod": {"spec.enableServiceLinks": {"default": True}, **pod_spec_rules("spec")},
    "Service": {
        "spec.internalTrafficPolicy": {"enum": ["Cluster", "Local"]},
        "spec.ports[].protocol": PROTOCOL,
        "spec.sessionAffinity": {"default": "None", "enum": ["None", "ClientIP"]},
        "spec.type": {"default": "ClusterIP", "enum": ["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"]},
    },
    "Secret": {"type": {"default": "Opaque"}},
    "PodDisruptionBudget": {"status": {"default": dict.fromkeys(_BUDGET_STATUS_COUNTS, 0)}},
    "Lease": {"spec.leaseDurationSeconds": {"minimum": 1}},
}
"""Keywords to add to the published schema, by kind and path; `[]` stands for the items of a list."""

_NAME_RULES: Final[dict[str, NameRule]] = {
    "Namespace": DNS_LABEL_RULE,
    "Service": DNS_LABEL_RULE,
    "Event": PATH_SEGMENT_RULE,
    "PodDisruptionBudget": PATH_SEGMENT_RULE,
}
_WITHOUT_REQUIRED_FIELDS: Final = ("EndpointSlice", "Event", "PersistentVolumeClaim")
"""Kinds that are validated only in code."""
_CLUSTER_SCOPED: Final = ("Namespace", "Node", "PriorityClass", "CustomResourceDefinition")
_POD_SUBRESOURCES: Final = (
    *("status", "log", "binding", "eviction", "exec", "attach", "portforward", "ephemeralcontainers"),
)
_REFERENCE_FIELDS: Final = ("apiVersion", "fieldPath", "kind", "name", "namespace", "resourceVersion", "uid")
_SELECTABLE_FIELDS: Final[dict[tuple[str, str], tuple[str, ...]]] = {
    ("", "Event"): (
        *(f"involvedObject.{field}" for field in _REFERENCE_FIELDS),
        *("reason", "reportingComponent", "source", "type"),
    ),
    ("", "Namespace"): ("status.phase",),
    ("", "Node"): ("spec.unschedulable",),
    ("", "Pod"): (
        *("spec.hostNetwork", "spec.nodeName", "spec.restartPolicy", "spec.schedulerName", "spec.serviceAccountName"),
        *("status.nominatedNodeName", "status.phase", "status.podIP"),
    ),
    ("", "Secret"): ("type",),
    ("", "Service"): ("spec.clusterIP", "spec.type"),
    ("events.k8s.io", "Event"): (
        *(f"regarding.{field}" for field in _REFERENCE_FIELDS),
        *("reason", "reportingController", "type"),
    ),
}


@cache
def builtin_kinds() -> tuple[Kind, ...]:
    status = ("status",)
    return (
        _builtin_kind("", "Binding", (), verbs=("create",)),
        _builtin_kind("", "ConfigMap", columns.CONFIG_MAP_COLUMNS, short_names=("cm",)),
        _builtin_kind("", "Endpoints", columns.ENDPOINTS_COLUMNS, short_names=("ep",), conversion=ENDPOINTS_CONVERSION),
        _builtin_kind("", "Event", columns.EVENT_COLUMNS, short_names=("ev",)),
        _builtin_kind(
            "", "Namespace", columns.NAMESPACE_COLUMNS, short_names=("ns",), subresources=("status", "finalize")
        ),
        _builtin_kind("", "Node", columns.NODE_COLUMNS, short_names=("no",), subresources=("status", "proxy")),
        _builtin_kind(
            "",
            "PersistentVolumeClaim",
            columns.PERSISTENT_VOLUME_CLAIM_COLUMNS,
            short_names=("pvc",),
            subresources=status,
        ),
        _builtin_kind(
            "",
            "Pod",
            POD_COLUMNS,
            short_names=("po",),
            categories=("all",),
            subresources=_POD_SUBRESOURCES,
            has_generation=True,
        ),
        _builtin_kind("", "Secret", columns.SECRET_COLUMNS),
        _builtin_kind(
            "", "ServiceAccount", columns.SERVICE_ACCOUNT_COLUMNS, short_names=("sa",), subresources=("token",)
        ),
        _builtin_kind(
            "", "Service", columns.SERVICE_COLUMNS, short_names=("svc",), categories=("all",), subresources=status
        ),
        _builtin_kind("coordination.k8s.io", "Lease", columns.LEASE_COLUMNS),
        _builtin_kind("discovery.k8s.io", "EndpointSlice", columns.ENDPOINT_SLICE_COLUMNS, has_generation=True),
        _builtin_kind(
            "events.k8s.io", "Event", columns.EVENT_COLUMNS, short_names=("ev",), conversion=EVENTS_CONVERSION
        ),
        _builtin_kind(
            "policy",
            "PodDisruptionBudget",
            columns.DISRUPTION_BUDGET_COLUMNS,
            short_names=("pdb",),
            subresources=status,
            has_generation=True,
        ),
        _builtin_kind("scheduling.k8s.io", "PriorityClass", columns.PRIORITY_CLASS_COLUMNS, short_names=("pc",)),
        *workload_kinds(),
        *quota_kinds(),
        *policy_kinds(),
        *rbac_kinds(),
        *review_kinds(),
        *pod_group_kinds(),
        *metrics_kinds(),
        *unsupported_kinds(),
        _builtin_kind(
            "apiextensions.k8s.io",
            "CustomResourceDefinition",
            columns.CRD_COLUMNS,
            short_names=("crd", "crds"),
            categories=("api-extensions",),
            subresources=status,
            has_generation=True,
        ),
    )


def _builtin_kind(group: str, kind: str, table_columns: tuple[TableColumn, ...], **kind_fields: Any) -> Kind:
    singular = kind.lower()
    return Kind(
        group=group,
        version="v1",
        plural={"endpoints": "endpoints", "priorityclass": "priorityclasses"}.get(singular, f"{singular}s"),
        singular=singular,
        kind=kind,
        namespaced=kind not in _CLUSTER_SCOPED,
        list_kind=f"{kind}List",
        schema=_builtin_schema(kind, kind_fields.get("conversion")),
        columns=table_columns,
        has_status="status" in kind_fields.get("subresources", ()),
        selectable_fields=_SELECTABLE_FIELDS.get((group, kind), ()),
        **kind_fields,
    )


def _builtin_schema(kind: str, conversion: KindConversion | None = None) -> Schema:
    """Return the published schema of a kind with the rules that Kubernetes has only in code."""
    openapi = (
        load_kubernetes_schema(kind)
        if conversion is None
        else to_served_schema(load_kubernetes_schema(kind), conversion)
    )
    if kind in _WITHOUT_REQUIRED_FIELDS:
        drop_required(openapi)
    if kind == "CustomResourceDefinition":  # validate_crd requires fields, with the causes of kube-apiserver
        drop_required(openapi["properties"]["spec"])
    add_schema_rules(openapi, EXTRA_SCHEMA_KEYWORDS.get(kind, {}), requires_spec=kind != "Pod")
    return Schema(openapi, _NAME_RULES.get(kind, DNS_SUBDOMAIN_RULE), is_builtin=True)
