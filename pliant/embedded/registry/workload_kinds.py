"""The kinds of workloads: Deployment, ReplicaSet, ControllerRevision and Job."""

from __future__ import annotations

from functools import partial
from typing import Any, Final

from pliant.embedded.registry import workload_columns as columns
from pliant.embedded.registry.kinds import Kind, ScaleFieldPaths
from pliant.embedded.registry.pod_schema_rules import pod_spec_rules
from pliant.embedded.registry.schema_rules import SchemaRules, add_schema_rules
from pliant.embedded.registry.tables import TableColumn
from pliant.embedded.schema import Schema
from pliant.schemas import load_kubernetes_schema

_NOT_NEGATIVE: Final = {"minimum": 0}
_EMPTY: Final[dict[str, Any]] = {"default": {}}
_TEMPLATE_RULES: Final[SchemaRules] = {
    "spec.template": _EMPTY,
    "spec.template.metadata": _EMPTY,
    "spec.template.spec": _EMPTY,
    **pod_spec_rules("spec.template.spec"),
}
_RULES: Final[dict[str, SchemaRules]] = {
    "Deployment": {
        **_TEMPLATE_RULES,
        "spec.minReadySeconds": _NOT_NEGATIVE,
        "spec.progressDeadlineSeconds": {"default": 600, **_NOT_NEGATIVE},
        "spec.replicas": {"default": 1, **_NOT_NEGATIVE},
        "spec.revisionHistoryLimit": {"default": 10, **_NOT_NEGATIVE},
        "spec.strategy": _EMPTY,
        "spec.strategy.type": {"default": "RollingUpdate"},
        "status": _EMPTY,
    },
    "ReplicaSet": {
        **_TEMPLATE_RULES,
        "spec.minReadySeconds": _NOT_NEGATIVE,
        "spec.replicas": {"default": 1, **_NOT_NEGATIVE},
        "status": _EMPTY,
        "status.replicas": {"default": 0},
    },
    "ControllerRevision": {},
    "Job": {
        **_TEMPLATE_RULES,
        **{
            f"spec.{field}": _NOT_NEGATIVE
            for field in (
                *("activeDeadlineSeconds", "backoffLimit", "backoffLimitPerIndex", "completions"),
                *("maxFailedIndexes", "parallelism", "ttlSecondsAfterFinished"),
            )
        },
        "spec.completionMode": {"default": "NonIndexed", "enum": ["NonIndexed", "Indexed"]},
        "spec.manualSelector": {"default": False},
        "spec.podFailurePolicy.rules[].onPodConditions[].status": {"default": "True"},
        "spec.suspend": {"default": False},
        "status": _EMPTY,
    },
}
_SCALE: Final = ScaleFieldPaths(
    spec_replicas=".spec.replicas", status_replicas=".status.replicas", label_selector=".spec.selector"
)


def workload_kinds() -> tuple[Kind, ...]:
    return (
        _workload_kind("apps", "ControllerRevision", columns.CONTROLLER_REVISION_COLUMNS),
        _workload_kind(
            "apps",
            "Deployment",
            columns.DEPLOYMENT_COLUMNS,
            short_names=("deploy",),
            categories=("all",),
            subresources=("scale", "status"),
            scale=_SCALE,
            has_generation=True,
            counts_annotations=True,
        ),
        _workload_kind(
            "apps",
            "ReplicaSet",
            columns.REPLICA_SET_COLUMNS,
            short_names=("rs",),
            categories=("all",),
            subresources=("scale", "status"),
            scale=_SCALE,
            has_generation=True,
        ),
        _workload_kind(
            "batch",
            "Job",
            columns.JOB_COLUMNS,
            categories=("all",),
            subresources=("status",),
            has_generation=True,
            selectable_fields=("status.successful",),
        ),
    )


def _workload_kind(group: str, kind: str, table_columns: tuple[TableColumn, ...], **kind_fields: Any) -> Kind:
    singular = kind.lower()
    return Kind(
        group=group,
        version="v1",
        plural=f"{singular}s",
        singular=singular,
        kind=kind,
        namespaced=True,
        list_kind=f"{kind}List",
        schema=Schema(partial(_load_schema, kind), is_builtin=True),
        columns=table_columns,
        has_status="status" in kind_fields.get("subresources", ()),
        **kind_fields,
    )


def _load_schema(kind: str) -> dict[str, Any]:
    openapi = load_kubernetes_schema(kind)
    add_schema_rules(openapi, _RULES[kind], requires_spec=False)
    if kind == "ControllerRevision":
        openapi["properties"]["data"] = {"x-kubernetes-preserve-unknown-fields": True}  # any value; code validates it
    return openapi
