"""The kinds LimitRange and ResourceQuota."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from functools import partial
from typing import Any, Final

from pliant.embedded.registry.kinds import Kind
from pliant.embedded.registry.tables import AGE_COLUMN, NAME_COLUMN, TableColumn, field_cell, make_column
from pliant.embedded.schema import Schema
from pliant.schemas import load_kubernetes_schema


def quota_kinds() -> tuple[Kind, ...]:
    return (
        _quota_kind("LimitRange", _LIMIT_RANGE_COLUMNS, short_names=("limits",)),
        _quota_kind(
            "ResourceQuota", _RESOURCE_QUOTA_COLUMNS, short_names=("quota",), subresources=("status",), has_status=True
        ),
    )


def _quota_kind(kind: str, columns: tuple[TableColumn, ...], **kind_fields: Any) -> Kind:
    return Kind(
        group="",
        version="v1",
        plural=f"{kind.lower()}s",
        singular=kind.lower(),
        kind=kind,
        namespaced=True,
        list_kind=f"{kind}List",
        schema=Schema(partial(_load_schema, kind), is_builtin=True),
        columns=columns,
        **kind_fields,
    )


def _load_schema(kind: str) -> dict[str, Any]:
    """Return the schema without the required fields of limits, which the validation reports in another way."""
    schema = load_kubernetes_schema(kind)
    if kind == "LimitRange":
        schema["properties"]["spec"].pop("required", None)
        schema["properties"]["spec"]["properties"]["limits"]["items"].pop("required", None)
    return schema


def _usage_cell(*, of_limits: bool) -> Any:
    """Return a renderer of `name: used/hard` of the limits of containers, or of all other resources."""

    def cell(quota: Mapping[str, Any], now: datetime) -> str:
        status = quota.get("status") or {}
        hard, used = status.get("hard") or {}, status.get("used") or {}
        names = [name for name in sorted(hard) if name.startswith("limits.") is of_limits]
        return ", ".join(f"{name}: {used.get(name, 0)}/{hard[name]}" for name in names)

    return cell


_LIMIT_RANGE_COLUMNS: Final = (
    NAME_COLUMN,
    make_column("Created At", field_cell("metadata.creationTimestamp", None), "Time of creation.", column_type="date"),
)
_RESOURCE_QUOTA_COLUMNS: Final = (
    NAME_COLUMN,
    make_column(
        "Request",
        _usage_cell(of_limits=False),
        "Request represents a minimum amount of cpu/memory that a container may consume.",
    ),
    make_column(
        "Limit",
        _usage_cell(of_limits=True),
        "Limits control the maximum amount of cpu/memory that a container may use independent of contention on the "
        "node.",
    ),
    AGE_COLUMN,
)
