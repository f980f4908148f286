"""Builds traces from tables: rows of named fields, read from files by the caller."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from fractions import Fraction
from typing import Any, NoReturn

from pliant.autoscale.model import PodShape
from pliant.errors import UserError
from pliant.schemas.quantity import parse_quantity
from pliant.simulation.delays import parse_duration_seconds
from pliant.simulation.experiments import MAX_PODS_PER_NODE
from pliant.simulation.trace import (
    FixedReplicas,
    MeasurementWindow,
    NodeClass,
    TraceJob,
    TraceService,
    parse_throughput_model,
)

GPU_RESOURCE = "nvidia.com/gpu"
MAX_COUNT_PER_ROW = (
    1_000_000  # the limit on nodes of a class, replicas of a job and pods of a service; it protects the memory
)
_RESOURCE_FIELDS = ("cpu", "memory", "gpu")
TRACE_TABLE_FIELDS: Mapping[str, tuple[str, ...]] = {
    "nodes": ("name", "count", *_RESOURCE_FIELDS, "pods"),
    "jobs": (
        "name", "namespace", "submit", "priority", "min_size", "max_size", "initial_size", "static_size",
        *_RESOURCE_FIELDS, "servers",
        "server_cpu", "server_memory", "server_gpu", "fixed_replicas", "work", "throughput",
        "resize_pause", "count", "interval",
    ),
    "services": ("name", "namespace", "priority", *_RESOURCE_FIELDS, "time", "replicas", "steps"),
    "windows": ("name", "start", "end"),
    "fixed_replicas": ("name", "count", *_RESOURCE_FIELDS),
}  # fmt: skip
"""The fields of each table; a field with a `/` in its name is a device resource."""


@dataclass(frozen=True, slots=True)
class TraceRow:
    """One row of a table; empty fields are missing."""

    values: Mapping[str, Any]
    locate: Callable[[str], str]  # returns the location of a field in its file, for error messages

    def raise_error(self, field: str, problem: str) -> NoReturn:
        raise UserError(f"{self.locate(field)}: {field}: {problem}")

    def check_fields(self, table: str) -> None:
        known = TRACE_TABLE_FIELDS[table]
        for field in self.values:
            if field not in known and "/" not in field:
                close = get_close_matches(field, known, n=1)
                hint = f"did you mean `{close[0]}`?" if close else f"there are {', '.join(known)}"
                self.raise_error(field, f"{table} have no such field; {hint}")

    def name(self) -> str:
        parsed = str(self.values.get("name", "")).strip()
        return parsed or self.raise_error("name", "is required")

    def text(self, field: str, default: str) -> str:
        return str(self.values.get(field, default))

    def priority(self) -> int:
        """Return the priority, within the limits of Kubernetes."""
        return self.integer("priority", 0, -2_000_000_000, 2_000_000_000)

    def integer(self, field: str, default: int, minimum: int = 0, maximum: int = MAX_COUNT_PER_ROW) -> int:
        value = self.values.get(field, default)
        try:
            number = int(str(value))
        except ValueError:
            self.raise_error(field, f"`{value}` is not an integer")
        if number > maximum:
            self.raise_error(field, f"must be at most {maximum:,}, not {value}")
        return number if number >= minimum else self.raise_error(field, f"must be at least {minimum}, not {number}")

    def duration_seconds(self, field: str, default: float) -> float:
        return self._parse_field(field, parse_duration_seconds, default) if field in self.values else default

    def _parse_field(self, field: str, parse: Callable[[str], Any], default: Any) -> Any:
        try:
            return parse(str(self.values.get(field, default)))
        except ValueError as error:
            self.raise_error(field, str(error))

    def throughput_model(self) -> Any:
        return self._parse_field("throughput", parse_throughput_model, "linear")

    def resource_amounts(self, prefix: str = "") -> dict[str, int]:
        parsed = {
            "cpu": self._resource_amount(f"{prefix}cpu", 1000),
            "memory": self._resource_amount(f"{prefix}memory", 1),
            GPU_RESOURCE: self._resource_amount(f"{prefix}gpu", 1),
        }
        if not prefix:
            parsed.update({field: self._resource_amount(field, 1) for field in self.values if "/" in field})
        return {name: amount for name, amount in parsed.items() if amount}

    def _resource_amount(self, field: str, unit: int) -> int:
        value: Fraction = self._parse_field(field, parse_quantity, "0")
        if value < 0:
            self.raise_error(field, f"must not be negative, but is {value}")
        return math.ceil(value * unit)

    def pod_shape(self, prefix: str = "") -> PodShape:
        return PodShape.of({**self.resource_amounts(prefix), "pods": 1})


def read_nodes(rows: Iterable[TraceRow]) -> list[NodeClass]:
    parsed = []
    for row in rows:
        row.check_fields("nodes")
        allocatable = {**row.resource_amounts(), "pods": row.integer("pods", MAX_PODS_PER_NODE, minimum=1)}
        if "cpu" not in allocatable:
            row.raise_error("cpu", "is required: the number of cores of such a node")
        parsed.append(NodeClass(name=row.name(), count=row.integer("count", 1, minimum=1), allocatable=allocatable))
    return parsed


def read_jobs(rows: Iterable[TraceRow]) -> list[TraceJob]:
    parsed = [job for row in rows for job in _parse_jobs(row)]
    return sorted(parsed, key=lambda job: job.submitted_at)


def _parse_jobs(row: TraceRow) -> Iterable[TraceJob]:
    row.check_fields("jobs")
    template = _parse_job(row)
    count, interval = row.integer("count", 1, minimum=1), row.duration_seconds("interval", 0.0)
    if count == 1:
        return [template]
    width = len(str(count - 1))
    return [
        _delayed_copy(template, f"{template.name}-{number:0{width}d}", interval * number) for number in range(count)
    ]


def _delayed_copy(job: TraceJob, name: str, delay: float) -> TraceJob:
    return replace(job, name=name, submitted_at=job.submitted_at + delay)


def _parse_job(row: TraceRow) -> TraceJob:
    min_size = row.integer("min_size", 1)
    max_size = row.integer("max_size", max(min_size, 1), minimum=1)
    if max_size < min_size:
        row.raise_error("max_size", f"must be at least min_size ({min_size}), not {max_size}")
    work = row.duration_seconds("work", math.inf)
    if work <= 0:
        row.raise_error("work", "must be above 0; omit it for a job that never finishes")
    return TraceJob(
        name=row.name(),
        namespace=row.text("namespace", "default"),
        submitted_at=row.duration_seconds("submit", 0.0),
        priority=row.priority(),
        min_size=min_size,
        max_size=max_size,
        initial_size=_parse_size(row, "initial_size", min_size, (min_size, max_size)),
        static_size=_parse_size(row, "static_size", max_size, (1, max_size)),
        shape=row.pod_shape(),
        fixed_replicas=_parse_fixed_replicas(row),
        total_work=work,
        throughput=row.throughput_model(),
        resize_pause=row.duration_seconds("resize_pause", 0.0),
    )


def _parse_size(row: TraceRow, field: str, default: int, bounds: tuple[int, int]) -> int:
    min_size, max_size = bounds
    size = row.integer(field, default)
    if not min_size <= size <= max_size:
        row.raise_error(field, f"must be from {min_size} to {max_size}, not {size}")
    return size


def _parse_fixed_replicas(row: TraceRow) -> tuple[FixedReplicas, ...]:
    servers = row.integer("servers", 0)
    fixed_replicas = [FixedReplicas(name="server", count=servers, shape=row.pod_shape("server_"))] if servers else []
    listed = row.values.get("fixed_replicas", [])
    if not isinstance(listed, list) or not all(isinstance(values, Mapping) for values in listed):
        row.raise_error("fixed_replicas", "must be a list of groups, each with name, count, cpu and memory")
    for values in listed:
        group = TraceRow(values, lambda field: row.locate("fixed_replicas"))
        group.check_fields("fixed_replicas")
        fixed_replicas.append(
            FixedReplicas(name=group.name(), count=group.integer("count", 1), shape=group.pod_shape())
        )
    return tuple(fixed_replicas)


def read_services(rows: Iterable[TraceRow]) -> list[TraceService]:
    """Return services; rows of the same name are steps of one service."""
    by_name: dict[tuple[str, str], list[TraceRow]] = {}
    for row in rows:
        row.check_fields("services")
        by_name.setdefault((row.text("namespace", "default"), row.name()), []).append(row)
    return [_parse_service(namespace, name, service_rows) for (namespace, name), service_rows in by_name.items()]


def _parse_service(namespace: str, name: str, rows: Sequence[TraceRow]) -> TraceService:
    template = rows[0]
    steps = sorted(step for row in rows for step in _parse_steps(row))
    return TraceService(
        name=name,
        namespace=namespace,
        priority=template.priority(),
        shape=template.pod_shape(),
        replica_steps=tuple(steps),
    )


def _parse_steps(row: TraceRow) -> list[tuple[float, int]]:
    if "steps" not in row.values:
        if "replicas" not in row.values:
            row.raise_error("replicas", "is required: the number of pods from `time` on; or use `steps`")
        return [(row.duration_seconds("time", 0.0), row.integer("replicas", 0))]
    text = row.text("steps", "")
    try:
        pairs = [word.split("=") for word in text.split()]
        parsed = [(parse_duration_seconds(time), int(number)) for time, number in pairs]
    except ValueError:
        row.raise_error("steps", f"`{text}` is not a list of steps such as `0=400 90=300`")
    return parsed or row.raise_error("steps", "must not be empty; for example `0=400 90=300`")


def read_measurement_windows(rows: Iterable[TraceRow]) -> list[MeasurementWindow]:
    parsed = []
    for row in rows:
        row.check_fields("windows")
        window = MeasurementWindow(
            name=row.name(), start=row.duration_seconds("start", 0.0), end=row.duration_seconds("end", 0.0)
        )
        if window.end <= window.start:
            row.raise_error("end", f"must be after start ({window.start:g})")
        parsed.append(window)
    return parsed
