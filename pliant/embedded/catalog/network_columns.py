"""The columns of what tells where services lead to, and of what protects pods from disruptions."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from pliant.embedded.catalog.columns import AGE, NAME, Cell, Column

Object = Mapping[str, Any]

_MOST = 3
"""More than so many are only counted."""


def _few(words: list[str]) -> str:
    if not words:
        return "<none>"
    more = f" + {len(words) - _MOST} more..." if len(words) > _MOST else ""
    return ",".join(words[:_MOST]) + more


def _slice_ports(piece: Object, now: datetime) -> str:
    return _few([str(each.get("port", "*")) for each in piece.get("ports") or ()]).replace("<none>", "<unset>")


def _slice_addresses(piece: Object, now: datetime) -> str:
    found = [address for each in piece.get("endpoints") or () for address in each.get("addresses") or ()]
    return _few(found).replace("<none>", "<unset>")


def _endpoints(kept: Object, now: datetime) -> str:
    nowhere: list[dict[str, Any]] = [{}]
    found = [
        f"{address}:{port['port']}" if port else address
        for each in kept.get("endpoints") or ()
        if (each.get("conditions") or {}).get("ready") is not False
        for address in each.get("addresses") or ()
        for port in kept.get("ports") or nowhere
    ]
    return _few(found)


def _bound(name: str) -> Cell:
    def cell(budget: Object, now: datetime) -> str:
        value = (budget.get("spec") or {}).get(name)
        return "N/A" if value is None else str(value)

    return cell


def _allowed(budget: Object, now: datetime) -> int:
    return int((budget.get("status") or {}).get("disruptionsAllowed") or 0)


def _column(name: str, cell: Cell, description: str, type: str = "string") -> Column:  # noqa: A002
    return Column(name=name, type=type, description=description, cell=cell)


SLICE: Final = (
    NAME,
    _column("AddressType", lambda piece, now: piece.get("addressType", ""), "What addresses are."),
    _column("Ports", _slice_ports, "Where they are reached."),
    _column("Endpoints", _slice_addresses, "Who is there."),
    AGE,
)
ENDPOINTS: Final = (NAME, _column("Endpoints", _endpoints, "Who is ready, and where."), AGE)
BUDGET: Final = (
    NAME,
    _column("Min Available", _bound("minAvailable"), "How many must stay."),
    _column("Max Unavailable", _bound("maxUnavailable"), "How many may go."),
    _column("Allowed Disruptions", _allowed, "How many may go now.", type="integer"),
    AGE,
)
