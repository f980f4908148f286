"""The columns of what tells where services lead to, and of what protects pods from disruptions."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from pliant.embedded.registry.table_columns import AGE_COLUMN, NAME_COLUMN, CellRenderer, TableColumn

Object = Mapping[str, Any]

_MAX_SHOWN = 3
"""More than so many are only counted."""


def _join_first(values: list[str]) -> str:
    if not values:
        return "<none>"
    more = f" + {len(values) - _MAX_SHOWN} more..." if len(values) > _MAX_SHOWN else ""
    return ",".join(values[:_MAX_SHOWN]) + more


def _slice_ports(endpoint_slice: Object, now: datetime) -> str:
    return _join_first([str(each.get("port", "*")) for each in endpoint_slice.get("ports") or ()]).replace(
        "<none>", "<unset>"
    )


def _slice_addresses(endpoint_slice: Object, now: datetime) -> str:
    found = [address for each in endpoint_slice.get("endpoints") or () for address in each.get("addresses") or ()]
    return _join_first(found).replace("<none>", "<unset>")


def _endpoints_cell(endpoint_slice: Object, now: datetime) -> str:
    nowhere: list[dict[str, Any]] = [{}]
    found = [
        f"{address}:{port['port']}" if port else address
        for each in endpoint_slice.get("endpoints") or ()
        if (each.get("conditions") or {}).get("ready") is not False
        for address in each.get("addresses") or ()
        for port in endpoint_slice.get("ports") or nowhere
    ]
    return _join_first(found)


def _budget_field_cell(field: str) -> CellRenderer:
    def cell(budget: Object, now: datetime) -> str:
        value = (budget.get("spec") or {}).get(field)
        return "N/A" if value is None else str(value)

    return cell


def _allowed_disruptions(budget: Object, now: datetime) -> int:
    return int((budget.get("status") or {}).get("disruptionsAllowed") or 0)


def _column(name: str, cell: CellRenderer, description: str, type: str = "string") -> TableColumn:  # noqa: A002
    return TableColumn(name=name, type=type, description=description, cell=cell)


ENDPOINT_SLICE: Final = (
    NAME_COLUMN,
    _column("AddressType", lambda piece, now: piece.get("addressType", ""), "What addresses are."),
    _column("Ports", _slice_ports, "Where they are reached."),
    _column("Endpoints", _slice_addresses, "Who is there."),
    AGE_COLUMN,
)
ENDPOINTS: Final = (NAME_COLUMN, _column("Endpoints", _endpoints_cell, "Who is ready, and where."), AGE_COLUMN)
POD_DISRUPTION_BUDGET: Final = (
    NAME_COLUMN,
    _column("Min Available", _budget_field_cell("minAvailable"), "How many must stay."),
    _column("Max Unavailable", _budget_field_cell("maxUnavailable"), "How many may go."),
    _column("Allowed Disruptions", _allowed_disruptions, "How many may go now.", type="integer"),
    AGE_COLUMN,
)
