"""Reads traces for the simulator: a CSV file has one table, a YAML file any number."""

from __future__ import annotations

import csv
import io
import math
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pliant.cli.input.yaml_reader import YamlDocument, parse_documents
from pliant.errors import UserError
from pliant.simulation.trace import SimulationTrace
from pliant.simulation.trace_reader import (
    TRACE_TABLE_FIELDS,
    TraceRow,
    read_jobs,
    read_measurement_windows,
    read_nodes,
    read_services,
)

TRACE_TABLE_NAMES = ("nodes", "jobs", "services", "windows")
TRACE_TIME_FIELDS = {"until": "end_at", "period": "period", "urgent_period": "urgent_period"}
# the column that identifies each table of a CSV file; the first match counts
_TABLE_COLUMNS = {"jobs": "submit", "services": "replicas", "windows": "end", "nodes": "count"}


@dataclass(slots=True)
class TraceTables:
    """The rows of all files, by table."""

    rows: dict[str, list[TraceRow]] = field(default_factory=lambda: {table: [] for table in TRACE_TABLE_NAMES})
    times: dict[str, TraceRow] = field(default_factory=dict)


def read_trace(files: Sequence[str]) -> SimulationTrace:
    """Read the trace in these files; raise UserError with file, line and field."""
    tables = TraceTables()
    for name in files:
        data = _read_file(name)
        if name.endswith((".yaml", ".yml", ".json")):
            _read_yaml(name, data, tables)
        else:
            _read_csv(name, data, tables)
    trace = SimulationTrace(
        nodes=tuple(read_nodes(tables.rows["nodes"])),
        jobs=tuple(read_jobs(tables.rows["jobs"])),
        services=tuple(read_services(tables.rows["services"])),
        windows=tuple(read_measurement_windows(tables.rows["windows"])),
        **{TRACE_TIME_FIELDS[name]: row.duration_seconds(name, math.inf) for name, row in tables.times.items()},
    )
    if not trace.nodes:
        raise UserError(f"{', '.join(files)}: no nodes; add a table with the columns name, count, cpu, memory")
    if not trace.jobs and not trace.services:
        raise UserError(f"{', '.join(files)}: neither jobs nor services; add a table of one of them")
    _check_unique_names(tables.rows["jobs"])
    return trace


def _check_unique_names(rows: Iterable[TraceRow]) -> None:
    seen: dict[tuple[str, str], str] = {}
    for row in rows:
        key = (row.text("namespace", "default"), row.name())
        if key in seen:
            row.raise_error("name", f"another job is named `{row.name()}` ({seen[key]})")
        seen[key] = row.locate("name")


def _read_file(name: str) -> bytes:
    if name == "-":
        return sys.stdin.buffer.read()
    try:
        return Path(name).read_bytes()
    except OSError as error:
        raise UserError(f"{name}: {error.strerror}; specify CSV or YAML files, or an --experiment") from None


def _read_csv(name: str, data: bytes, tables: TraceTables) -> None:
    try:
        lines = csv.reader(io.StringIO(data.decode("utf-8-sig")), strict=True)
        rows = [(lines.line_num, [cell.strip() for cell in cells]) for cells in lines]
    except UnicodeDecodeError:
        raise UserError(f"{name}: not UTF-8 text") from None
    except csv.Error as error:
        raise UserError(f"{name}:{lines.line_num}: not valid CSV: {error}") from None
    rows = [(number, cells) for number, cells in rows if any(cells) and not cells[0].startswith("#")]
    if not rows:
        raise UserError(f"{name}: the file is empty; the first line must name the columns")
    (number, titles), *rest = rows
    table = _detect_table(f"{name}:{number}", titles)
    for line, cells in rest:
        location = f"{name}:{line}"
        if len(cells) > len(titles):
            raise UserError(f"{location}: {len(cells)} cells, but only {len(titles)} columns")
        values = {title: cell for title, cell in zip(titles, cells, strict=False) if cell}
        tables.rows[table].append(TraceRow(values, _fixed_location(location)))


def _detect_table(location: str, columns: Sequence[str]) -> str:
    if duplicates := [title for title in columns if columns.count(title) > 1]:
        raise UserError(f"{location}: duplicate column `{duplicates[0]}`")
    if "steps" in columns:
        return "services"
    for table, column in _TABLE_COLUMNS.items():
        if column in columns:
            return table
    known = "; ".join(f"{table}: {', '.join(TRACE_TABLE_FIELDS[table])}" for table in TRACE_TABLE_NAMES)
    required = ", ".join(f"`{column}` for {table}" for table, column in _TABLE_COLUMNS.items())
    raise UserError(f"{location}: unknown table; it needs a column {required}. Columns: {known}")


def _read_yaml(name: str, data: bytes, tables: TraceTables) -> None:
    for document in parse_documents(name, data):
        value = document.value
        if not isinstance(value, dict):
            tables_text = ", ".join(TRACE_TABLE_NAMES)
            raise UserError(f"{document.location_of()}: must be a mapping with {tables_text}")
        for key, content in value.items():
            if key in TRACE_TABLE_NAMES:
                tables.rows[key] += _parse_yaml_rows(document, key, content)
            elif key in TRACE_TIME_FIELDS:
                tables.times[key] = TraceRow({key: content}, _field_location(document, ""))
            else:
                known = ", ".join((*TRACE_TABLE_NAMES, *TRACE_TIME_FIELDS))
                raise UserError(f"{document.location_of(key)}: unknown field `{key}`; known fields: {known}")


def _parse_yaml_rows(document: YamlDocument, table: str, content: Any) -> Iterable[TraceRow]:
    if not isinstance(content, list) or not all(isinstance(item, dict) for item in content):
        raise UserError(f"{document.location_of(table)}: {table}: must be a list of mappings")
    for number, item in enumerate(content):
        values = {key: value for key, value in item.items() if value is not None}
        yield TraceRow(values, _field_location(document, f"{table}[{number}]."))


def _fixed_location(location: str) -> Callable[[str], str]:
    return lambda field: location


def _field_location(document: YamlDocument, path: str) -> Callable[[str], str]:
    return lambda field: str(document.location_of(path + field))
