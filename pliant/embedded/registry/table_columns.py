"""Columns of a table: what heads them, and how a cell is found in an object."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import msgspec

from pliant.embedded.registry.jsonpath import JsonPath

CellRenderer = Callable[[Mapping[str, Any], datetime], Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class TableColumn:
    """One column; `priority` above 0 shows only in wide tables."""

    name: str
    type: str = "string"
    format: str = ""
    description: str = ""
    priority: int = 0
    cell: CellRenderer

    def to_definition(self) -> dict[str, Any]:
        """The column as a Table's columnDefinitions have it."""
        return {
            "name": self.name,
            "type": self.type,
            "format": self.format,
            "description": self.description,
            "priority": self.priority,
        }


def _name_cell(obj: Mapping[str, Any], now: datetime) -> Any:
    return obj["metadata"].get("name", "")


def _age_cell(obj: Mapping[str, Any], now: datetime) -> Any:
    return format_age(obj["metadata"].get("creationTimestamp"), now)


NAME_COLUMN: Final = TableColumn(
    name="Name", format="name", description="Name of the object, unique in its namespace.", cell=_name_cell
)
AGE_COLUMN: Final = TableColumn(name="Age", description="Time since the object was created.", cell=_age_cell)
CREATED_COLUMN: Final = TableColumn(
    name="Age",
    type="date",
    description="Time since the object was created.",
    cell=lambda obj, now: format_age(obj["metadata"].get("creationTimestamp"), now),
)


def parse_printer_column(definition: Mapping[str, Any]) -> TableColumn:
    """A column as a CRD's additionalPrinterColumns states it; InvalidSpec when its path cannot be read."""
    path = JsonPath.parse(definition["jsonPath"])
    show = _CELL_CONVERTERS.get(definition["type"], _as_text)

    def cell(obj: Mapping[str, Any], now: datetime) -> Any:
        value = path.find_first(obj)
        return None if value is None else show(value, now)

    return TableColumn(
        name=definition["name"],
        type=definition["type"],
        format=definition.get("format", ""),
        description=definition.get("description", ""),
        priority=definition.get("priority", 0),
        cell=cell,
    )


def _as_text(value: Any, now: datetime) -> Any:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def _as_integer(value: Any, now: datetime) -> Any:
    return int(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _as_number(value: Any, now: datetime) -> Any:
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def _as_boolean(value: Any, now: datetime) -> Any:
    return value if isinstance(value, bool) else None


def _as_age(value: Any, now: datetime) -> Any:
    return format_age(value, now) if isinstance(value, str) else None


_CELL_CONVERTERS: Final[dict[str, Callable[[Any, datetime], Any]]] = {
    "string": _as_text,
    "integer": _as_integer,
    "number": _as_number,
    "boolean": _as_boolean,
    "date": _as_age,
}


_MINUTE, _HOUR, _DAY, _YEAR = 60, 3_600, 86_400, 31_536_000


def format_duration(duration: timedelta) -> str:
    """`90s`, `5m30s`, `42m`, `3h10m`, `30h`, `3d2h`, `45d`, `2y40d`."""
    seconds = int(duration.total_seconds())
    if seconds < -1:
        return "<invalid>"
    for limit, unit, part in _DURATION_FORMATS:
        if seconds < limit:
            return _format_units(max(seconds, 0), unit, part)
    return _format_units(seconds, _YEAR, None)


def format_age(timestamp: Any, now: datetime) -> str:
    """How long ago a timestamp was; `<unknown>` without one, `<invalid>` for nonsense."""
    if not timestamp:
        return "<unknown>"
    moment = parse_timestamp(timestamp)
    return format_duration(now - moment) if moment is not None else "<invalid>"


def parse_timestamp(timestamp: Any) -> datetime | None:
    """A Kubernetes timestamp as a moment in UTC, or None when it is none."""
    if not isinstance(timestamp, str):
        return None
    try:
        moment = datetime.fromisoformat(timestamp)
    except ValueError:
        return None
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)


_DURATION_FORMATS: tuple[tuple[int, int, int | None], ...] = (
    (2 * _MINUTE, 1, None),
    (10 * _MINUTE, _MINUTE, 1),
    (3 * _HOUR, _MINUTE, None),
    (8 * _HOUR, _HOUR, _MINUTE),
    (48 * _HOUR, _HOUR, None),
    (8 * _DAY, _DAY, _HOUR),
    (2 * _YEAR, _DAY, None),
    (8 * _YEAR, _YEAR, _DAY),
)
"""Below each limit: the unit to count in, and the finer one to add."""
_UNIT_LETTERS = {1: "s", _MINUTE: "m", _HOUR: "h", _DAY: "d", _YEAR: "y"}


def _format_units(seconds: int, unit: int, smaller_unit: int | None) -> str:
    whole, rest = divmod(seconds, unit)
    text = f"{whole}{_UNIT_LETTERS[unit]}"
    if smaller_unit is None or rest < smaller_unit:
        return text
    return f"{text}{rest // smaller_unit}{_UNIT_LETTERS[smaller_unit]}"
