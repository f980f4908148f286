"""Makes traces of what people write in tables: rows of named fields, wherever they came from."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from fractions import Fraction
from typing import Any, NoReturn

from pliant.autoscale.model import Shape
from pliant.errors import UserError
from pliant.kube.amounts import amount
from pliant.simulation.experiments import PODS
from pliant.simulation.speed import read_speed
from pliant.simulation.times import seconds
from pliant.simulation.trace import JobSpec, NodeClass, ServiceSpec, Staff, Window

GPU = "nvidia.com/gpu"
MOST = 1_000_000
"""Nodes of a class, members of a job, pods of a service; more would only fill the memory."""
_AMOUNTS = ("cpu", "memory", "gpu")
FIELDS: Mapping[str, tuple[str, ...]] = {
    "nodes": ("name", "count", *_AMOUNTS, "pods"),
    "jobs": (
        "name", "namespace", "submit", "priority", "least", "most", "start", "fixed", *_AMOUNTS, "servers",
        "server_cpu", "server_memory", "server_gpu", "staff", "work", "speed", "pause", "count", "every",
    ),
    "services": ("name", "namespace", "priority", *_AMOUNTS, "time", "number", "steps"),
    "windows": ("name", "start", "end"),
    "staff": ("name", "number", *_AMOUNTS),
}  # fmt: skip
"""The fields of each table; one with a `/` in its name is a device, too."""


@dataclass(frozen=True, slots=True)
class Row:
    """One line of a table; fields that are empty are not there."""

    values: Mapping[str, Any]
    where: Callable[[str], str]
    """The place of a field in its file, to be named in errors."""

    def refuse(self, field: str, problem: str) -> NoReturn:
        """Say where, what and how to mend it."""
        raise UserError(f"{self.where(field)}: {field}: {problem}")

    def check(self, table: str) -> None:
        """Refuse fields that the table does not have."""
        known = FIELDS[table]
        for field in self.values:
            if field not in known and "/" not in field:
                close = get_close_matches(field, known, n=1)
                hint = f"did you mean `{close[0]}`?" if close else f"there are {', '.join(known)}"
                self.refuse(field, f"{table} have no such field; {hint}")

    def name(self) -> str:
        """What it is called."""
        found = str(self.values.get("name", "")).strip()
        return found or self.refuse("name", "is missing; everything in a trace has a name")

    def text(self, field: str, otherwise: str) -> str:
        """A field as text."""
        return str(self.values.get(field, otherwise))

    def priority(self) -> int:
        """How important it is, within what Kubernetes knows."""
        return self.whole("priority", 0, -2_000_000_000, 2_000_000_000)

    def whole(self, field: str, otherwise: int, least: int = 0, most: int = MOST) -> int:
        """A whole number within bounds."""
        value = self.values.get(field, otherwise)
        try:
            number = int(str(value))
        except ValueError:
            self.refuse(field, f"`{value}` is not a whole number")
        if number > most:
            self.refuse(field, f"must be {most:,} or less, not {value}")
        return number if number >= least else self.refuse(field, f"must be {least} or more, not {number}")

    def seconds(self, field: str, otherwise: float) -> float:
        """A time or a span, as 90, 90s, 5m or 1.5h."""
        return self._read(field, seconds, otherwise) if field in self.values else otherwise

    def _read(self, field: str, read: Callable[[str], Any], otherwise: Any) -> Any:
        try:
            return read(str(self.values.get(field, otherwise)))
        except ValueError as error:
            self.refuse(field, str(error))

    def speed(self) -> Any:
        """How fast it is."""
        return self._read("speed", read_speed, "linear")

    def amounts(self, prefix: str = "") -> dict[str, int]:
        """CPU, memory and devices: what they are of, and how much."""
        found = {
            "cpu": self._amount(f"{prefix}cpu", 1000),
            "memory": self._amount(f"{prefix}memory", 1),
            GPU: self._amount(f"{prefix}gpu", 1),
        }
        if not prefix:
            found.update({field: self._amount(field, 1) for field in self.values if "/" in field})
        return {name: amount for name, amount in found.items() if amount}

    def _amount(self, field: str, unit: int) -> int:
        value: Fraction = self._read(field, amount, "0")
        return (
            math.ceil(value * unit) if value >= 0 else self.refuse(field, f"must not be below 0, and is {value}")
        )

    def shape(self, prefix: str = "") -> Shape:
        """What a pod of it takes up."""
        return Shape.of({**self.amounts(prefix), "pods": 1})


def read_nodes(rows: Iterable[Row]) -> list[NodeClass]:
    """Classes of nodes."""
    found = []
    for row in rows:
        row.check("nodes")
        room = {**row.amounts(), "pods": row.whole("pods", PODS, least=1)}
        if "cpu" not in room:
            row.refuse("cpu", "is missing; say how many cores such a node has")
        found.append(NodeClass(name=row.name(), count=row.whole("count", 1, least=1), room=room))
    return found


def read_jobs(rows: Iterable[Row]) -> list[JobSpec]:
    """Jobs, in the order in which they are submitted."""
    found = [job for row in rows for job in _jobs(row)]
    return sorted(found, key=lambda job: job.submit)


def _jobs(row: Row) -> Iterable[JobSpec]:
    row.check("jobs")
    first = _job(row)
    count, every = row.whole("count", 1, least=1), row.seconds("every", 0.0)
    if count == 1:
        return [first]
    width = len(str(count - 1))
    return [_again(first, f"{first.name}-{number:0{width}d}", every * number) for number in range(count)]


def _again(job: JobSpec, name: str, later: float) -> JobSpec:
    return replace(job, name=name, submit=job.submit + later)


def _job(row: Row) -> JobSpec:
    least = row.whole("least", 1)
    most = row.whole("most", max(least, 1), least=1)
    if most < least:
        row.refuse("most", f"must not be below `least`, which is {least}; it is {most}")
    work = row.seconds("work", math.inf)
    return JobSpec(
        name=row.name(),
        namespace=row.text("namespace", "default"),
        submit=row.seconds("submit", 0.0),
        priority=row.priority(),
        least=least,
        most=most,
        start=_size(row, "start", least, (least, most)),
        fixed=_size(row, "fixed", most, (1, most)),
        shape=row.shape(),
        staff=_staff(row),
        work=work if work > 0 else row.refuse("work", "must be above 0; leave it out for a job that never ends"),
        speed=row.speed(),
        pause=row.seconds("pause", 0.0),
    )


def _size(row: Row, field: str, otherwise: int, bounds: tuple[int, int]) -> int:
    least, most = bounds
    size = row.whole(field, otherwise)
    return size if least <= size <= most else row.refuse(field, f"must lie within {least} and {most}, not {size}")


def _staff(row: Row) -> tuple[Staff, ...]:
    servers = row.whole("servers", 0)
    staff = [Staff(name="server", number=servers, shape=row.shape("server_"))] if servers else []
    listed = row.values.get("staff", [])
    if not isinstance(listed, list) or not all(isinstance(values, Mapping) for values in listed):
        row.refuse("staff", "is a list of groups, each with name, number, cpu and memory")
    for values in listed:
        group = Row(values, lambda field: row.where("staff"))
        group.check("staff")
        staff.append(Staff(name=group.name(), number=group.whole("number", 1), shape=group.shape()))
    return tuple(staff)


def read_services(rows: Iterable[Row]) -> list[ServiceSpec]:
    """Services; rows of the same name are steps of one."""
    by_name: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        row.check("services")
        by_name.setdefault((row.text("namespace", "default"), row.name()), []).append(row)
    return [_service(namespace, name, same) for (namespace, name), same in by_name.items()]


def _service(namespace: str, name: str, rows: Sequence[Row]) -> ServiceSpec:
    first = rows[0]
    steps = sorted(step for row in rows for step in _steps(row))
    return ServiceSpec(
        name=name,
        namespace=namespace,
        priority=first.priority(),
        shape=first.shape(),
        steps=tuple(steps),
    )


def _steps(row: Row) -> list[tuple[float, int]]:
    if "steps" not in row.values:
        if "number" not in row.values:
            row.refuse("number", "is missing; say how many pods there are from `time` on, or give `steps`")
        return [(row.seconds("time", 0.0), row.whole("number", 0))]
    text = row.text("steps", "")
    try:
        pairs = [word.split("=") for word in text.split()]
        found = [(seconds(time), int(number)) for time, number in pairs]
    except ValueError:
        row.refuse("steps", f"`{text}` is not a list of steps such as `0=400 90=300`")
    return found or row.refuse("steps", "is empty; write `0=400 90=300`")


def read_windows(rows: Iterable[Row]) -> list[Window]:
    """Stretches of time to measure by themselves."""
    found = []
    for row in rows:
        row.check("windows")
        window = Window(name=row.name(), start=row.seconds("start", 0.0), end=row.seconds("end", 0.0))
        if window.end <= window.start:
            row.refuse("end", f"must come after `start`, which is {window.start:g}")
        found.append(window)
    return found
