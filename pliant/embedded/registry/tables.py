"""Tables as kubectl prints them: columns, ages and meta.k8s.io/v1 Table responses."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

import msgspec

from pliant.embedded.registry.jsonpath import JsonPath
from pliant.errors import BadRequest

if TYPE_CHECKING:
    from pliant.embedded.registry.kinds import Kind

CellRenderer = Callable[[Mapping[str, Any], datetime], Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class TableColumn:
    """A column; kubectl shows one with a priority above 0 only with `-o wide`."""

    name: str
    type: str = "string"
    format: str = ""
    description: str = ""
    priority: int = 0
    cell: CellRenderer

    def to_definition(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in ("name", "type", "format", "description", "priority")}


def make_column(
    name: str, cell: CellRenderer, description: str, *, wide: bool = False, column_type: str = "string"
) -> TableColumn:
    return TableColumn(name=name, type=column_type, description=description, priority=int(wide), cell=cell)


def field_cell(path: str, default: Any = "") -> CellRenderer:
    """Return a renderer of the field at a dotted path; `default` if it is empty or absent."""
    names = path.split(".")

    def cell(obj: Any, now: datetime) -> Any:
        for name in names:
            obj = obj.get(name) or {}
        return obj or default

    return cell


def _age_cell(obj: Mapping[str, Any], now: datetime) -> Any:
    return format_age(obj["metadata"].get("creationTimestamp"), now)


_AGE_DESCRIPTION = "Time since CreationTimestamp, the server time when this object was created."
NAME_COLUMN: Final = TableColumn(
    name="Name", format="name", description="Name must be unique within a namespace.", cell=field_cell("metadata.name")
)
AGE_COLUMN: Final = make_column("Age", _age_cell, _AGE_DESCRIPTION)
DATE_AGE_COLUMN: Final = make_column("Age", _age_cell, _AGE_DESCRIPTION, column_type="date")
DEFAULT_COLUMNS: Final = (NAME_COLUMN, DATE_AGE_COLUMN)


def parse_printer_column(definition: Mapping[str, Any]) -> TableColumn:
    """Parse an entry of additionalPrinterColumns; raise InvalidSpec if its jsonPath is invalid."""
    path = JsonPath.parse(definition["jsonPath"])

    def cell(obj: Mapping[str, Any], now: datetime) -> Any:
        value = path.find_first(obj)
        return None if value is None else _convert_cell(value, definition["type"], now)

    return TableColumn(
        name=definition["name"],
        type=definition["type"],
        format=definition.get("format", ""),
        description=definition.get("description", ""),
        priority=definition.get("priority", 0),
        cell=cell,
    )


def _convert_cell(value: Any, column_type: str, now: datetime) -> Any:
    if column_type == "date":
        return format_age(value, now) if isinstance(value, str) else None
    if column_type == "boolean":
        return value if isinstance(value, bool) else None
    if column_type in ("integer", "number"):
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        return (int(value) if column_type == "integer" else value) if is_number else None
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


_MINUTE, _HOUR, _DAY, _YEAR = 60, 3_600, 86_400, 31_536_000


def format_duration(duration: timedelta) -> str:
    """Return a duration as kubectl prints it: `90s`, `5m30s`, `42m`, `3h10m`, `30h`, `3d2h`, `45d`, `2y40d`."""
    seconds = int(duration.total_seconds())
    if seconds < -1:
        return "<invalid>"
    for limit, unit, smaller_unit in _DURATION_FORMATS:
        if seconds < limit:
            return _format_units(max(seconds, 0), unit, smaller_unit)
    return _format_units(seconds, _YEAR, None)


def format_age(timestamp: Any, now: datetime) -> str:
    """Return the time since a timestamp; `<unknown>` if it is empty, `<invalid>` if it cannot be parsed."""
    if not timestamp:
        return "<unknown>"
    created = parse_timestamp(timestamp)
    return format_duration(now - created) if created is not None else "<invalid>"


def parse_timestamp(timestamp: Any) -> datetime | None:
    """Parse a Kubernetes timestamp, in UTC by default; return None if it is invalid."""
    if not isinstance(timestamp, str):
        return None
    try:
        parsed = datetime.fromisoformat(timestamp)
    except ValueError:
        return None
    return parsed if parsed.tzinfo is not None else parsed.replace(tzinfo=UTC)


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
"""Upper limit in seconds, unit, and smaller unit to add."""
_UNIT_LETTERS = {1: "s", _MINUTE: "m", _HOUR: "h", _DAY: "d", _YEAR: "y"}


def _format_units(seconds: int, unit: int, smaller_unit: int | None) -> str:
    count, remainder = divmod(seconds, unit)
    text = f"{count}{_UNIT_LETTERS[unit]}"
    if smaller_unit is None or remainder < smaller_unit:
        return text
    return f"{text}{remainder // smaller_unit}{_UNIT_LETTERS[smaller_unit]}"


ALLOWED_INCLUDE_OBJECT_VALUES: Final = ("None", "Metadata", "Object")


def build_table(
    kind: Kind,
    objects: Sequence[Mapping[str, Any]],
    now: datetime,
    *,
    include_object: str = "Metadata",
    resource_version: str = "",
    include_headers: bool = True,
) -> dict[str, Any]:
    """Return a Table with one row per object.

    A watch sends each event as a Table of one row; only the first one needs `include_headers`.
    """
    if (include_object or "Metadata") not in ALLOWED_INCLUDE_OBJECT_VALUES:
        raise BadRequest(400, "BadRequest", f'unrecognized includeObject value: "{include_object}"')
    columns = kind.columns or DEFAULT_COLUMNS
    return {
        "kind": "Table",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": {"resourceVersion": resource_version},
        "columnDefinitions": [column.to_definition() for column in columns] if include_headers else [],
        "rows": [
            {"cells": [column.cell(obj, now) for column in columns], **_row_object(obj, include_object or "Metadata")}
            for obj in objects
        ],
    }


def _row_object(obj: Mapping[str, Any], include: str) -> dict[str, Any]:
    if include == "None":
        return {}
    if include == "Object":
        return {"object": obj}
    partial = {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": obj["metadata"]}
    return {"object": partial}
