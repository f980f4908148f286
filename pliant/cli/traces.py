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

from pliant.cli.yamltext import Written, documents
from pliant.errors import UserError
from pliant.simulation.reading import FIELDS, Row, read_jobs, read_nodes, read_services, read_windows
from pliant.simulation.trace import Trace

TABLES = ("nodes", "jobs", "services", "windows")
TIMES = ("until", "period", "gap")
_SIGNS = {"jobs": "submit", "services": "number", "windows": "end", "nodes": "count"}
"""The column by which a table in a CSV file is known, the first that is there: jobs may have a count as well."""


@dataclass(slots=True)
class Tables:
    """Rows of every kind, from all files."""

    rows: dict[str, list[Row]] = field(default_factory=lambda: {table: [] for table in TABLES})
    times: dict[str, Row] = field(default_factory=dict)


def read_trace(files: Sequence[str]) -> Trace:
    """The trace that these files hold together; raises `UserError` naming file, line and field."""
    tables = Tables()
    for name in files:
        data = _content(name)
        if name.endswith((".yaml", ".yml", ".json")):
            _read_yaml(name, data, tables)
        else:
            _read_csv(name, data, tables)
    trace = Trace(
        nodes=tuple(read_nodes(tables.rows["nodes"])),
        jobs=tuple(read_jobs(tables.rows["jobs"])),
        services=tuple(read_services(tables.rows["services"])),
        windows=tuple(read_windows(tables.rows["windows"])),
        **{name: row.seconds(name, math.inf) for name, row in tables.times.items()},
    )
    if not trace.nodes:
        raise UserError(f"{', '.join(files)}: there are no nodes; add a table of them: name, count, cpu, memory")
    if not trace.jobs and not trace.services:
        raise UserError(f"{', '.join(files)}: there are neither jobs nor services, so nothing would happen")
    _check_names(tables.rows["jobs"])
    return trace


def _check_names(rows: Iterable[Row]) -> None:
    seen: dict[tuple[str, str], str] = {}
    for row in rows:
        key = (row.text("namespace", "default"), row.name())
        if key in seen:
            row.refuse("name", f"`{row.name()}` is the name of another job, too ({seen[key]})")
        seen[key] = row.where("name")


def _content(name: str) -> bytes:
    if name == "-":
        return sys.stdin.buffer.read()
    try:
        return Path(name).read_bytes()
    except OSError as error:
        raise UserError(f"{name}: {error.strerror}; name CSV or YAML files, or an --experiment") from None


def _read_csv(name: str, data: bytes, tables: Tables) -> None:
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
    table = _table_of(f"{name}:{number}", titles)
    for line, cells in rest:
        where = f"{name}:{line}"
        if len(cells) > len(titles):
            raise UserError(f"{where}: has {len(cells)} cells, and there are only {len(titles)} columns")
        values = {title: cell for title, cell in zip(titles, cells, strict=False) if cell}
        tables.rows[table].append(Row(values, _line(where)))


def _table_of(where: str, titles: Sequence[str]) -> str:
    if twice := [title for title in titles if titles.count(title) > 1]:
        raise UserError(f"{where}: column `{twice[0]}` is there twice")
    if "steps" in titles:
        return "services"
    for table, sign in _SIGNS.items():
        if sign in titles:
            return table
    known = "; ".join(f"{table}: {', '.join(FIELDS[table])}" for table in TABLES)
    signs = ", ".join(f"`{sign}` for {table}" for table, sign in _SIGNS.items())
    raise UserError(
        f"{where}: nobody can tell what table this is; it needs a column {signs}. Columns are: {known}"
    )


def _read_yaml(name: str, data: bytes, tables: Tables) -> None:
    for written in documents(name, data):
        value = written.value
        if not isinstance(value, dict):
            raise UserError(f"{written.place()}: must hold {', '.join(TABLES)}, not {type(value).__name__}")
        for key, content in value.items():
            if key in TABLES:
                tables.rows[key] += _yaml_rows(written, key, content)
            elif key in TIMES:
                tables.times[key] = Row({key: content}, _spot(written, ""))
            else:
                known = ", ".join((*TABLES, *TIMES))
                raise UserError(
                    f"{written.place(key)}: {key}: there is no such part of a trace; there are {known}"
                )


def _yaml_rows(written: Written, table: str, content: Any) -> Iterable[Row]:
    if not isinstance(content, list) or not all(isinstance(item, dict) for item in content):
        raise UserError(f"{written.place(table)}: {table}: must be a list of mappings, one for each of them")
    for number, item in enumerate(content):
        values = {key: value for key, value in item.items() if value is not None}
        yield Row(values, _spot(written, f"{table}[{number}]."))


def _line(where: str) -> Callable[[str], str]:
    return lambda field: where


def _spot(written: Written, path: str) -> Callable[[str], str]:
    return lambda field: str(written.place(path + field))
