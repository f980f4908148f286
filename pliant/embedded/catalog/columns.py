"""Columns of a table: what heads them, and how a cell is found in an object."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

import msgspec

from pliant.embedded.catalog.durations import age
from pliant.embedded.catalog.jsonpath import JsonPath

Cell = Callable[[Mapping[str, Any], datetime], Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """One column; `priority` above 0 shows only in wide tables."""

    name: str
    type: str = "string"
    format: str = ""
    description: str = ""
    priority: int = 0
    cell: Cell

    def heading(self) -> dict[str, Any]:
        """The column as a Table's columnDefinitions have it."""
        return {
            "name": self.name,
            "type": self.type,
            "format": self.format,
            "description": self.description,
            "priority": self.priority,
        }


def _name(obj: Mapping[str, Any], now: datetime) -> Any:
    return obj["metadata"].get("name", "")


def _age(obj: Mapping[str, Any], now: datetime) -> Any:
    return age(obj["metadata"].get("creationTimestamp"), now)


NAME: Final = Column(
    name="Name", format="name", description="Name of the object, unique in its namespace.", cell=_name
)
AGE: Final = Column(name="Age", description="Time since the object was created.", cell=_age)
CREATED: Final = Column(
    name="Age",
    type="date",
    description="Time since the object was created.",
    cell=lambda obj, now: age(obj["metadata"].get("creationTimestamp"), now),
)


def printer_column(stated: Mapping[str, Any]) -> Column:
    """A column as a CRD's additionalPrinterColumns states it; InvalidSpec when its path cannot be read."""
    path = JsonPath.parse(stated["jsonPath"])
    show = _SHOWN.get(stated["type"], _as_text)

    def cell(obj: Mapping[str, Any], now: datetime) -> Any:
        value = path.first(obj)
        return None if value is None else show(value, now)

    return Column(
        name=stated["name"],
        type=stated["type"],
        format=stated.get("format", ""),
        description=stated.get("description", ""),
        priority=stated.get("priority", 0),
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
    return age(value, now) if isinstance(value, str) else None


_SHOWN: Final[dict[str, Callable[[Any, datetime], Any]]] = {
    "string": _as_text,
    "integer": _as_integer,
    "number": _as_number,
    "boolean": _as_boolean,
    "date": _as_age,
}
