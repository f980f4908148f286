"""Reads traces for the simulator: CSV files that hold one table each, YAML files that hold any number."""

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
from pliant.simulation.trace_reader import TABLE_FIELDS, TraceRow, read_jobs, read_nodes, read_services, read_windows

TRACE_TABLES = ("nodes", "jobs", "services", "windows")
TIME_FIELDS = {"until": "end_at", "period": "period", "urgent_period": "urgent_period"}
_TABLE_COLUMNS = {"jobs": "submit", "services": "replicas", "windows": "end", "nodes": "count"}
"""The column by which a table in a CSV file is known, the first that is there: jobs may have a count as well."""


@dataclass(slots=True)
class TraceTables:
    """Rows of every kind, from all files."""

    rows: dict[str, list[TraceRow]] = field(default_factory=lambda: {table: [] for table in TRACE_TABLES})
    times: dict[str, TraceRow] = field(default_factory=dict)


def read_trace(files: Sequence[str]) -> SimulationTrace:
    """The trace that these files hold together; raises `UserError` naming file, line and field."""
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
        windows=tuple(read_windows(tables.rows["windows"])),
        **{TIME_FIELDS[name]: row.duration_seconds(name, math.inf) for name, row in tables.times.items()},
    )
    if not trace.nodes:
        raise UserError(f"{', '.join(files)}: there are no nodes; add a table of them: name, count, cpu, memory")
    if not trace.jobs and not trace.services:
        raise UserError(f"{', '.join(files)}: there are neither jobs nor services, so nothing would happen")
    _check_unique_names(tables.rows["jobs"])
    return trace


def _check_unique_names(rows: Iterable[TraceRow]) -> None:
    seen: dict[tuple[str, str], str] = {}
    for row in rows:
        key = (row.text("namespace", "default"), row.name())
        if key in seen:
            row.raise_error("name", f"`{row.name()}` is the name of another job, too ({seen[key]})")
        seen[key] = row.locate("name")


def _read_file(name: str) -> bytes:
    if name == "-":
        return sys.stdin.buffer.read()
    try:
        return Path(name).read_bytes()
    except OSError as error:
        raise UserError(f"{name}: {error.strerror}; name CSV or YAML files, or an --experiment") from None


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
        raise UserError(f"{name}: is empty; its first line names the columns")
    (number, titles), *rest = rows
    table = _detect_table(f"{name}:{number}", titles)
    for line, cells in rest:
        where = f"{name}:{line}"
        if len(cells) > len(titles):
            raise UserError(f"{where}: has {len(cells)} cells, and there are only {len(titles)} columns")
        values = {title: cell for title, cell in zip(titles, cells, strict=False) if cell}
        tables.rows[table].append(TraceRow(values, _fixed_location(where)))


def _detect_table(location: str, columns: Sequence[str]) -> str:
    if twice := [title for title in columns if columns.count(title) > 1]:
        raise UserError(f"{location}: column `{twice[0]}` is there twice")
    if "steps" in columns:
        return "services"
    for table, sign in _TABLE_COLUMNS.items():
        if sign in columns:
            return table
    known = "; ".join(f"{table}: {', '.join(TABLE_FIELDS[table])}" for table in TRACE_TABLES)
    signs = ", ".join(f"`{sign}` for {table}" for table, sign in _TABLE_COLUMNS.items())
    raise UserError(f"{location}: nobody can tell what table this is; it needs a column {signs}. Columns are: {known}")


def _read_yaml(name: str, data: bytes, tables: TraceTables) -> None:
    for written in parse_documents(name, data):
        value = written.value
        if not isinstance(value, dict):
            raise UserError(f"{written.location_of()}: must hold {', '.join(TRACE_TABLES)}, not {type(value).__name__}")
        for key, content in value.items():
            if key in TRACE_TABLES:
                tables.rows[key] += _parse_yaml_rows(written, key, content)
            elif key in TIME_FIELDS:
                tables.times[key] = TraceRow({key: content}, _field_location(written, ""))
            else:
                known = ", ".join((*TRACE_TABLES, *TIME_FIELDS))
                raise UserError(
                    f"{written.location_of(key)}: {key}: there is no such part of a trace; there are {known}"
                )


def _parse_yaml_rows(document: YamlDocument, table: str, content: Any) -> Iterable[TraceRow]:
    if not isinstance(content, list) or not all(isinstance(item, dict) for item in content):
        raise UserError(f"{document.location_of(table)}: {table}: must be a list of mappings, one for each of them")
    for number, item in enumerate(content):
        values = {key: value for key, value in item.items() if value is not None}
        yield TraceRow(values, _field_location(document, f"{table}[{number}]."))


def _fixed_location(location: str) -> Callable[[str], str]:
    return lambda field: location


def _field_location(document: YamlDocument, path: str) -> Callable[[str], str]:
    return lambda field: str(document.location_of(path + field))
