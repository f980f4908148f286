"""Makes traces of what people write in tables: rows of named fields, wherever they came from."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from fractions import Fraction
from typing import Any, NoReturn

from pliant.autoscale.model import PodShape
from pliant.errors import UserError
from pliant.kube.quantity import parse_quantity
from pliant.simulation.delays import parse_seconds
from pliant.simulation.experiments import MAX_PODS_PER_NODE
from pliant.simulation.throughput import parse_throughput_model
from pliant.simulation.trace import FixedReplicas, MeasurementWindow, NodeClass, TraceJob, TraceService

GPU_RESOURCE = "nvidia.com/gpu"
MAX_COUNT = 1_000_000
"""Nodes of a class, members of a job, pods of a service; more would only fill the memory."""
_RESOURCE_FIELDS = ("cpu", "memory", "gpu")
TABLE_FIELDS: Mapping[str, tuple[str, ...]] = {
    "nodes": ("name", "count", *_RESOURCE_FIELDS, "pods"),
    "jobs": (
        "name", "namespace", "submit", "priority", "least", "most", "start", "fixed", *_RESOURCE_FIELDS, "servers",
        "server_cpu", "server_memory", "server_gpu", "staff", "work", "speed", "pause", "count", "every",
    ),
    "services": ("name", "namespace", "priority", *_RESOURCE_FIELDS, "time", "number", "steps"),
    "windows": ("name", "start", "end"),
    "staff": ("name", "number", *_RESOURCE_FIELDS),
}  # fmt: skip
"""The fields of each table; one with a `/` in its name is a device, too."""


@dataclass(frozen=True, slots=True)
class TraceRow:
    """One line of a table; fields that are empty are not there."""

    values: Mapping[str, Any]
    locate: Callable[[str], str]
    """The place of a field in its file, to be named in errors."""

    def raise_error(self, field: str, problem: str) -> NoReturn:
        """Say where, what and how to mend it."""
        raise UserError(f"{self.locate(field)}: {field}: {problem}")

    def check_fields(self, table: str) -> None:
        """Refuse fields that the table does not have."""
        known = TABLE_FIELDS[table]
        for field in self.values:
            if field not in known and "/" not in field:
                close = get_close_matches(field, known, n=1)
                hint = f"did you mean `{close[0]}`?" if close else f"there are {', '.join(known)}"
                self.raise_error(field, f"{table} have no such field; {hint}")

    def name(self) -> str:
        """What it is called."""
        found = str(self.values.get("name", "")).strip()
        return found or self.raise_error("name", "is missing; everything in a trace has a name")

    def text(self, field: str, default: str) -> str:
        """A field as text."""
        return str(self.values.get(field, default))

    def priority(self) -> int:
        """How important it is, within what Kubernetes knows."""
        return self.integer("priority", 0, -2_000_000_000, 2_000_000_000)

    def integer(self, field: str, default: int, minimum: int = 0, maximum: int = MAX_COUNT) -> int:
        """A whole number within bounds."""
        value = self.values.get(field, default)
        try:
            number = int(str(value))
        except ValueError:
            self.raise_error(field, f"`{value}` is not a whole number")
        if number > maximum:
            self.raise_error(field, f"must be {maximum:,} or less, not {value}")
        return number if number >= minimum else self.raise_error(field, f"must be {minimum} or more, not {number}")

    def duration_seconds(self, field: str, default: float) -> float:
        """A time or a span, as 90, 90s, 5m or 1.5h."""
        return self._parse_field(field, parse_seconds, default) if field in self.values else default

    def _parse_field(self, field: str, parse: Callable[[str], Any], default: Any) -> Any:
        try:
            return parse(str(self.values.get(field, default)))
        except ValueError as error:
            self.raise_error(field, str(error))

    def throughput_model(self) -> Any:
        """How fast it is."""
        return self._parse_field("speed", parse_throughput_model, "linear")

    def resource_amounts(self, prefix: str = "") -> dict[str, int]:
        """CPU, memory and devices: what they are of, and how much."""
        found = {
            "cpu": self._resource_amount(f"{prefix}cpu", 1000),
            "memory": self._resource_amount(f"{prefix}memory", 1),
            GPU_RESOURCE: self._resource_amount(f"{prefix}gpu", 1),
        }
        if not prefix:
            found.update({field: self._resource_amount(field, 1) for field in self.values if "/" in field})
        return {name: amount for name, amount in found.items() if amount}

    def _resource_amount(self, field: str, unit: int) -> int:
        value: Fraction = self._parse_field(field, parse_quantity, "0")
        return (
            math.ceil(value * unit) if value >= 0 else self.raise_error(field, f"must not be below 0, and is {value}")
        )

    def pod_shape(self, prefix: str = "") -> PodShape:
        """What a pod of it takes up."""
        return PodShape.of({**self.resource_amounts(prefix), "pods": 1})


def read_nodes(rows: Iterable[TraceRow]) -> list[NodeClass]:
    """Classes of nodes."""
    found = []
    for row in rows:
        row.check_fields("nodes")
        room = {**row.resource_amounts(), "pods": row.integer("pods", MAX_PODS_PER_NODE, minimum=1)}
        if "cpu" not in room:
            row.raise_error("cpu", "is missing; say how many cores such a node has")
        found.append(NodeClass(name=row.name(), count=row.integer("count", 1, minimum=1), allocatable=room))
    return found


def read_jobs(rows: Iterable[TraceRow]) -> list[TraceJob]:
    """Jobs, in the order in which they are submitted."""
    found = [job for row in rows for job in _parse_jobs(row)]
    return sorted(found, key=lambda job: job.submitted_at)


def _parse_jobs(row: TraceRow) -> Iterable[TraceJob]:
    row.check_fields("jobs")
    first = _parse_job(row)
    count, every = row.integer("count", 1, minimum=1), row.duration_seconds("every", 0.0)
    if count == 1:
        return [first]
    width = len(str(count - 1))
    return [_delayed_copy(first, f"{first.name}-{number:0{width}d}", every * number) for number in range(count)]


def _delayed_copy(job: TraceJob, name: str, delay: float) -> TraceJob:
    return replace(job, name=name, submitted_at=job.submitted_at + delay)


def _parse_job(row: TraceRow) -> TraceJob:
    least = row.integer("least", 1)
    most = row.integer("most", max(least, 1), minimum=1)
    if most < least:
        row.raise_error("most", f"must not be below `least`, which is {least}; it is {most}")
    work = row.duration_seconds("work", math.inf)
    return TraceJob(
        name=row.name(),
        namespace=row.text("namespace", "default"),
        submitted_at=row.duration_seconds("submit", 0.0),
        priority=row.priority(),
        min_size=least,
        max_size=most,
        initial_size=_parse_size(row, "start", least, (least, most)),
        static_size=_parse_size(row, "fixed", most, (1, most)),
        shape=row.pod_shape(),
        fixed_replicas=_parse_fixed_replicas(row),
        total_work=work
        if work > 0
        else row.raise_error("work", "must be above 0; leave it out for a job that never ends"),
        throughput=row.throughput_model(),
        resize_pause=row.duration_seconds("pause", 0.0),
    )


def _parse_size(row: TraceRow, field: str, default: int, bounds: tuple[int, int]) -> int:
    least, most = bounds
    size = row.integer(field, default)
    return size if least <= size <= most else row.raise_error(field, f"must lie within {least} and {most}, not {size}")


def _parse_fixed_replicas(row: TraceRow) -> tuple[FixedReplicas, ...]:
    servers = row.integer("servers", 0)
    staff = [FixedReplicas(name="server", count=servers, shape=row.pod_shape("server_"))] if servers else []
    listed = row.values.get("staff", [])
    if not isinstance(listed, list) or not all(isinstance(values, Mapping) for values in listed):
        row.raise_error("staff", "is a list of groups, each with name, number, cpu and memory")
    for values in listed:
        group = TraceRow(values, lambda field: row.locate("staff"))
        group.check_fields("staff")
        staff.append(FixedReplicas(name=group.name(), count=group.integer("number", 1), shape=group.pod_shape()))
    return tuple(staff)


def read_services(rows: Iterable[TraceRow]) -> list[TraceService]:
    """Services; rows of the same name are steps of one."""
    by_name: dict[tuple[str, str], list[TraceRow]] = {}
    for row in rows:
        row.check_fields("services")
        by_name.setdefault((row.text("namespace", "default"), row.name()), []).append(row)
    return [_parse_service(namespace, name, same) for (namespace, name), same in by_name.items()]


def _parse_service(namespace: str, name: str, rows: Sequence[TraceRow]) -> TraceService:
    first = rows[0]
    steps = sorted(step for row in rows for step in _parse_steps(row))
    return TraceService(
        name=name, namespace=namespace, priority=first.priority(), shape=first.pod_shape(), replica_steps=tuple(steps)
    )


def _parse_steps(row: TraceRow) -> list[tuple[float, int]]:
    if "steps" not in row.values:
        if "number" not in row.values:
            row.raise_error("number", "is missing; say how many pods there are from `time` on, or give `steps`")
        return [(row.duration_seconds("time", 0.0), row.integer("number", 0))]
    text = row.text("steps", "")
    try:
        pairs = [word.split("=") for word in text.split()]
        found = [(parse_seconds(time), int(number)) for time, number in pairs]
    except ValueError:
        row.raise_error("steps", f"`{text}` is not a list of steps such as `0=400 90=300`")
    return found or row.raise_error("steps", "is empty; write `0=400 90=300`")


def read_windows(rows: Iterable[TraceRow]) -> list[MeasurementWindow]:
    """Stretches of time to measure by themselves."""
    found = []
    for row in rows:
        row.check_fields("windows")
        window = MeasurementWindow(
            name=row.name(), start=row.duration_seconds("start", 0.0), end=row.duration_seconds("end", 0.0)
        )
        if window.end <= window.start:
            row.raise_error("end", f"must come after `start`, which is {window.start:g}")
        found.append(window)
    return found
