"""The kinds that are served without a CRD."""

from __future__ import annotations

from functools import cache
from typing import Any, Final

from pliant.embedded.catalog import builtin_columns as columns
from pliant.embedded.catalog import network_columns
from pliant.embedded.catalog.access_kinds import access_kinds
from pliant.embedded.catalog.builtin_rules import RULES
from pliant.embedded.catalog.columns import Column
from pliant.embedded.catalog.endpoint_form import ENDPOINTS
from pliant.embedded.catalog.forms import EVENTS, Form, renamed_schema
from pliant.embedded.catalog.gang_kinds import gang_kinds
from pliant.embedded.catalog.kinds import Kind
from pliant.embedded.catalog.measured_kinds import measured_kinds
from pliant.embedded.catalog.pod_columns import POD_COLUMNS
from pliant.embedded.schema import Schema
from pliant.embedded.schema.metadata import DNS_LABEL, SERVICE_LABEL, SUBDOMAIN, NameRule
from pliant.schemas import definition

_NAME_RULES: Final[dict[str, NameRule]] = {"Namespace": DNS_LABEL, "Service": SERVICE_LABEL}


@cache
def builtin_kinds() -> tuple[Kind, ...]:
    """Every built-in kind, in the order discovery lists them."""
    return (
        _core("Binding", "bindings", (), verbs=("create",)),
        _core("ConfigMap", "configmaps", columns.CONFIG_MAP, short_names=("cm",)),
        _core("Endpoints", "endpoints", network_columns.ENDPOINTS, short_names=("ep",), form=ENDPOINTS),
        _core("Event", "events", columns.EVENT, short_names=("ev",), selectable_fields=_EVENT_FIELDS),
        _core(
            "Namespace",
            "namespaces",
            columns.NAMESPACE,
            namespaced=False,
            short_names=("ns",),
            subresources=("status", "finalize"),
            selectable_fields=("status.phase",),
        ),
        _core(
            "Node",
            "nodes",
            columns.NODE,
            namespaced=False,
            short_names=("no",),
            subresources=("status",),
            selectable_fields=("spec.unschedulable",),
        ),
        _core(
            "PersistentVolumeClaim",
            "persistentvolumeclaims",
            columns.CLAIM,
            short_names=("pvc",),
            subresources=("status",),
        ),
        _core(
            "Pod",
            "pods",
            POD_COLUMNS,
            short_names=("po",),
            categories=("all",),
            subresources=("status", "log", "binding", "eviction", "exec", "attach", "portforward"),
            has_generation=True,
            selectable_fields=_POD_FIELDS,
        ),
        _core("Secret", "secrets", columns.SECRET, selectable_fields=("type",)),
        _core(
            "ServiceAccount",
            "serviceaccounts",
            columns.SERVICE_ACCOUNT,
            short_names=("sa",),
            subresources=("token",),
        ),
        _core(
            "Service",
            "services",
            columns.SERVICE,
            short_names=("svc",),
            categories=("all",),
            subresources=("status",),
            selectable_fields=("spec.clusterIP", "spec.type"),
        ),
        _builtin("coordination.k8s.io", "Lease", "leases", columns.LEASE),
        _builtin(
            "discovery.k8s.io", "EndpointSlice", "endpointslices", network_columns.SLICE, has_generation=True
        ),
        _builtin(
            "events.k8s.io",
            "Event",
            "events",
            columns.EVENT,
            short_names=("ev",),
            selectable_fields=_EVENT_FORM_FIELDS,
            form=EVENTS,
        ),
        _builtin(
            "policy",
            "PodDisruptionBudget",
            "poddisruptionbudgets",
            network_columns.BUDGET,
            short_names=("pdb",),
            subresources=("status",),
            has_generation=True,
        ),
        _builtin(
            "scheduling.k8s.io",
            "PriorityClass",
            "priorityclasses",
            columns.PRIORITY_CLASS,
            namespaced=False,
            short_names=("pc",),
        ),
        *access_kinds(),
        *gang_kinds(),
        *measured_kinds(),
        _builtin(
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


_POD_FIELDS: Final = (
    "spec.hostNetwork",
    "spec.nodeName",
    "spec.restartPolicy",
    "spec.schedulerName",
    "spec.serviceAccountName",
    "status.nominatedNodeName",
    "status.phase",
    "status.podIP",
)
_EVENT_FIELDS: Final = (
    "involvedObject.apiVersion",
    "involvedObject.fieldPath",
    "involvedObject.kind",
    "involvedObject.name",
    "involvedObject.namespace",
    "involvedObject.resourceVersion",
    "involvedObject.uid",
    "reason",
    "reportingComponent",
    "source",
    "type",
)
_EVENT_FORM_FIELDS: Final = (
    "reason",
    "regarding.apiVersion",
    "regarding.fieldPath",
    "regarding.kind",
    "regarding.name",
    "regarding.namespace",
    "regarding.resourceVersion",
    "regarding.uid",
    "reportingController",
    "type",
)


def _core(kind: str, plural: str, shown: tuple[Column, ...], **traits: Any) -> Kind:
    return _builtin("", kind, plural, shown, **traits)


def _builtin(group: str, kind: str, plural: str, shown: tuple[Column, ...], **traits: Any) -> Kind:
    traits.setdefault("namespaced", True)
    return Kind(
        group=group,
        version="v1",
        plural=plural,
        singular=kind.lower(),
        kind=kind,
        list_kind=f"{kind}List",
        schema=_schema(kind, traits.get("form")),
        columns=shown,
        has_status="status" in traits.get("subresources", ()),
        **traits,
    )


def _schema(kind: str, form: Form | None = None) -> Schema:
    """What Kubernetes publishes of a kind, plus what its server knows beyond that."""
    openapi = definition(kind) if form is None else renamed_schema(definition(kind), form)
    for path, keywords in RULES.get(kind, {}).items():
        node = _node_at(openapi, path)
        node.update(keywords)
    _require_nothing(openapi["properties"].get("status", {}))
    return Schema(openapi, _NAME_RULES.get(kind, SUBDOMAIN))


def _require_nothing(schema: dict[str, Any]) -> None:
    """Whoever reports a status may leave out what is empty: the server decodes it into zero values."""
    schema.pop("required", None)
    for inner in (*schema.get("properties", {}).values(), schema.get("items"), schema.get("additionalProperties")):
        if isinstance(inner, dict):
            _require_nothing(inner)


def _node_at(schema: dict[str, Any], path: str) -> dict[str, Any]:
    """The node of `spec.containers[].name`."""
    node = schema
    for part in path.split("."):
        name = part.removesuffix("[]")
        node = node["properties"][name]
        if name != part:
            node = node["items"]
    return node
