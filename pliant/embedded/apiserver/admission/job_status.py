"""Validation of what a write of the status of a Job changes: controllers named by `managedBy` write it, too."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from pliant.embedded.apiserver.http.errors import duplicate_value, invalid_field, required_field
from pliant.embedded.index_ranges import IndexRanges
from pliant.embedded.schema import FieldError
from pliant.embedded.storage.stored_objects import Object

_CONDITIONS = "status.conditions"
_FINAL_CONDITIONS = ("Failed", "Complete", "FailureTarget", "SuccessCriteriaMet")
_COUNTS = ("active", "succeeded", "failed", "ready", "terminating")


@dataclass(frozen=True)
class _Change:
    """The spec of a job, its status, and its previous status."""

    spec: Object
    status: Object
    previous: Object

    @cached_property
    def true(self) -> set[str]:
        return _true_conditions(self.status)

    @cached_property
    def was_true(self) -> set[str]:
        return _true_conditions(self.previous)

    @property
    def is_finished(self) -> bool:
        return bool(self.true & {"Complete", "Failed"})

    @property
    def finishes(self) -> bool:
        return self.is_finished != bool(self.was_true & {"Complete", "Failed"})

    def sets(self, *conditions: str) -> bool:
        """Return whether one of some conditions becomes true or false."""
        return any((each in self.true) != (each in self.was_true) for each in conditions)

    def changes(self, *fields: str) -> bool:
        return any(self.status.get(field) != self.previous.get(field) for field in fields)


def validate_job_status(job: Object, old: Object) -> Iterator[FieldError]:
    """Yield the errors of a status; most of them only if it changes the fields that contradict each other."""
    change = _Change(job["spec"], job.get("status") or {}, old.get("status") or {})
    yield from _validate_counts(change)
    yield from _validate_conditions(change)
    yield from _validate_times(change)
    yield from _validate_finished(change)
    yield from _validate_indexes(change)


def _true_conditions(status: Object) -> set[str]:
    return {each.get("type", "") for each in status.get("conditions") or () if each.get("status") == "True"}


def _validate_counts(change: _Change) -> Iterator[FieldError]:
    status, previous, spec = change.status, change.previous, change.spec
    for field in _COUNTS:
        if (status.get(field) or 0) < 0:
            yield invalid_field(f"status.{field}", status[field], "must be greater than or equal to 0")
    is_elastic = spec["completionMode"] == "Indexed" and spec.get("completions") == spec.get("parallelism")
    for field in ("failed",) if is_elastic else ("failed", "succeeded"):
        if (status.get(field) or 0) < (previous.get(field) or 0):
            yield invalid_field(f"status.{field}", status.get(field, 0), f"cannot decrease the {field} counter")
    known: set[str] = set()
    for field in ("succeeded", "failed"):
        for index, uid in enumerate((status.get("uncountedTerminatedPods") or {}).get(field) or ()):
            path = f"status.uncountedTerminatedPods.{field}[{index}]"
            if not uid:
                yield invalid_field(path, uid, "must not be empty")
            elif uid in known:
                yield duplicate_value(path, uid)
            known.add(uid)
    ready, active = status.get("ready"), status.get("active") or 0
    if ready is not None and ready > active and change.changes("ready", "active"):
        yield invalid_field("status.ready", ready, "cannot set more ready pods than active")


def _validate_conditions(change: _Change) -> Iterator[FieldError]:
    true, problems = change.true, []
    problems += [
        f"cannot disable the terminal {each}=True condition"
        for each in _FINAL_CONDITIONS
        if each in change.was_true and each not in true
    ]
    if true >= {"Complete", "Failed"} and change.sets("Complete", "Failed"):
        problems.append("cannot set Complete=True and Failed=true conditions")
    if true >= {"Complete", "FailureTarget"} and change.sets("Complete", "FailureTarget"):
        problems.append("cannot set Complete=True and FailureTarget=true conditions")
    if "Failed" in true and "FailureTarget" not in true and (change.sets("Failed") or change.changes("failedIndexes")):
        problems.append("cannot set Failed=True condition without the FailureTarget=true condition")
    is_unmet = "Complete" in true and "SuccessCriteriaMet" not in true
    if is_unmet and (change.sets("Complete", "SuccessCriteriaMet") or change.spec.get("successPolicy") is not None):
        problems.append("cannot set Complete=True condition without the SuccessCriteriaMet=true condition")
    for other in ("Failed", "FailureTarget"):
        if true >= {"SuccessCriteriaMet", other}:
            problems.append(f"cannot set SuccessCriteriaMet=True and {other}=true conditions")
    if "Complete" in change.was_true and "SuccessCriteriaMet" not in change.was_true and "SuccessCriteriaMet" in true:
        problems.append("cannot set SuccessCriteriaMet=True for Job already has Complete=true conditions")
    for problem in problems:
        yield invalid_field(_CONDITIONS, None, problem)


def _validate_times(change: _Change) -> Iterator[FieldError]:
    path, is_complete = "status.completionTime", "Complete" in change.true
    start, end = change.status.get("startTime"), change.status.get("completionTime")
    was_started, was_ended = change.previous.get("startTime"), change.previous.get("completionTime")
    if change.sets("Complete") or change.changes("completionTime"):
        if end is not None and not is_complete:
            yield invalid_field(path, end, "cannot set completionTime when there is no Complete=True condition")
        if end is None and is_complete:
            yield required_field(path, "completionTime is required for Complete jobs")
    if start is not None and end is not None and end < start and change.changes("startTime", "completionTime"):
        yield invalid_field(path, end, "must be equal to or after `startTime`")
    if None not in (end, was_ended) and end != was_ended:
        yield invalid_field(path, end, "field is immutable")
    resumes = "Suspended" in change.was_true and any(
        each.get("type") == "Suspended" and each.get("status") == "False"
        for each in change.status.get("conditions") or ()
    )
    if was_started is not None and start != was_started and not resumes and not change.spec.get("suspend"):
        yield invalid_field("status.startTime", start, "field is immutable for unsuspended job once set")


def _validate_finished(change: _Change) -> Iterator[FieldError]:
    if not change.is_finished:
        return
    status, spec = change.status, change.spec
    if (status.get("active") or 0) > 0 and (change.finishes or change.changes("active")):
        yield invalid_field("status.active", status["active"], "active>0 is invalid for finished job")
    is_empty = spec.get("suspend") is True and spec.get("completions") == 0
    if status.get("startTime") is None and (change.finishes or change.changes("startTime")) and not is_empty:
        yield required_field("status.startTime", "startTime is required for finished job")
    uncounted: Any = status.get("uncountedTerminatedPods") or {}
    if any(uncounted.values()) and (change.finishes or change.changes("uncountedTerminatedPods")):
        yield invalid_field("status.uncountedTerminatedPods", uncounted, "must be empty for finished job")
    if (status.get("terminating") or 0) > 0 and (change.finishes or change.changes("terminating")):
        yield invalid_field("status.terminating", status["terminating"], "terminating>0 is invalid for finished job")


def _validate_indexes(change: _Change) -> Iterator[FieldError]:
    completed, failed = change.status.get("completedIndexes") or "", change.status.get("failedIndexes")
    completions, per_index = change.spec.get("completions"), change.spec.get("backoffLimitPerIndex")
    if change.changes("completedIndexes"):
        yield from _validate_ranges("completedIndexes", completed, completions)
        if completed and change.spec["completionMode"] != "Indexed":
            detail = "cannot set non-empty completedIndexes when non-indexed completion mode"
            yield invalid_field("status.completedIndexes", completed, detail)
    if change.changes("failedIndexes") and failed is not None:
        if per_index is not None:
            yield from _validate_ranges("failedIndexes", failed, completions)
        else:
            detail = "cannot set non-null failedIndexes when backoffLimitPerIndex is null"
            yield invalid_field("status.failedIndexes", failed, detail)
    if completions is not None and failed and completed and change.changes("failedIndexes", "completedIndexes"):
        both = [_parse_valid_parts(text, completions) for text in (completed, failed)]
        if both[0].count_common(both[1]):
            yield invalid_field("status.failedIndexes", failed, "failedIndexes and completedIndexes overlap")


def _validate_ranges(field: str, text: str, completions: int | None) -> Iterator[FieldError]:
    if completions is None:
        return
    try:
        IndexRanges.parse(text, completions)
    except ValueError as error:
        yield invalid_field(f"status.{field}", text, f"error parsing {field}: {error}")


def _parse_valid_parts(text: str, completions: int) -> IndexRanges:
    """Return the ranges of a list that are valid by themselves."""
    result = IndexRanges()
    for part in text.split(","):
        try:
            result = result.union(IndexRanges.parse(part, completions))
        except ValueError:
            continue
    return result
