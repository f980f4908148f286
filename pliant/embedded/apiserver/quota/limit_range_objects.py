"""Defaults and validation of LimitRanges."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from pliant.embedded.apiserver.http.errors import duplicate_value, forbidden_field, invalid_field, required_field
from pliant.embedded.apiserver.quota.amounts import ONE, Amount, Amounts, parse_amounts
from pliant.embedded.apiserver.quota.resource_names import (
    is_native_resource,
    quantity_problem,
    validate_container_resource_name,
    validate_resource_name,
)
from pliant.embedded.schema import FieldError
from pliant.embedded.schema.metadata import qualified_name_problem
from pliant.embedded.storage.stored_objects import Object

_LIMIT_TYPES: Final = ("Pod", "Container", "PersistentVolumeClaim")
_DEFAULTS: Final = ("default", "defaultRequest")
_LIMIT_FIELDS: Final = ("max", "min", "default", "defaultRequest", "maxLimitRequestRatio")


def set_limit_range_defaults(limit_range: Object, old: Object | None) -> None:
    """Set the default limits of containers from the maxima, and the default requests from limits and minima."""
    for item in (limit_range.get("spec") or {}).get("limits") or ():
        if item.get("type") != "Container":
            continue
        limits = {**(item.get("max") or {}), **(item.get("default") or {})}
        requests = {**(item.get("min") or {}), **limits, **(item.get("defaultRequest") or {})}
        if limits:
            item["default"] = limits
        if requests:
            item["defaultRequest"] = requests


def validate_limit_range(limit_range: Object, old: Object | None) -> list[FieldError]:
    errors: list[FieldError] = []
    types = set()
    for index, item in enumerate((limit_range.get("spec") or {}).get("limits") or ()):
        path, limit_type = f"spec.limits[{index}]", item.get("type") or ""
        errors += _validate_type(limit_type, f"{path}.type")
        if limit_type in types:
            errors.append(duplicate_value(f"{path}.type", limit_type))
        types.add(limit_type)
        errors += _validate_names_and_values(item, path)
        errors += _validate_amounts(item, path)
    return errors


def _validate_type(limit_type: str, path: str) -> list[FieldError]:
    if message := qualified_name_problem(limit_type):
        return [invalid_field(path, limit_type, message)]
    if "/" not in limit_type and limit_type not in _LIMIT_TYPES:
        return [invalid_field(path, limit_type, "must be a standard limit type or fully qualified")]
    return []


def _validate_names_and_values(item: Object, path: str) -> list[FieldError]:
    errors = []
    is_compute = item.get("type") in ("Pod", "Container")
    validate_name = validate_container_resource_name if is_compute else validate_resource_name
    for field in _LIMIT_FIELDS:
        quantities: dict[str, Any] = item.get(field) or {}
        if item.get("type") == "Pod" and field in _DEFAULTS:
            if quantities:
                errors.append(forbidden_field(f"{path}.{field}", "may not be specified when `type` is 'Pod'"))
            continue
        for name, value in quantities.items():
            errors += validate_name(name, f"{path}.{field}[{name}]")
            if message := quantity_problem(value):
                errors.append(invalid_field(f"{path}.{field}[{name}]", value, message))
    if item.get("type") == "PersistentVolumeClaim" and not any(
        "storage" in (item.get(field) or {}) for field in ("min", "max")
    ):
        detail = "either minimum or maximum storage value is required, but neither was provided"
        errors.append(required_field(f"{path}.limits", detail))
    return errors


def _validate_amounts(item: Object, path: str) -> Iterator[FieldError]:
    ignored = _DEFAULTS if item.get("type") == "Pod" else ()
    amounts = {field: parse_amounts(item.get(field) if field not in ignored else None) for field in _LIMIT_FIELDS}
    for name in sorted({name for each in amounts.values() for name in each}):
        for lower, upper, reported, title in (
            ("min", "max", "min", "min value {} is greater than max value {}"),
            ("min", "defaultRequest", "defaultRequest", "min value {} is greater than default request value {}"),
            ("defaultRequest", "max", "defaultRequest", "default request value {} is greater than max value {}"),
            (
                *("defaultRequest", "default", "defaultRequest"),
                "default request value {} is greater than default limit value {}",
            ),
            ("min", "default", "default", "min value {} is greater than default value {}"),
            ("default", "max", "default", "default value {} is greater than max value {}"),
        ):
            low, high = amounts[lower].get(name), amounts[upper].get(name)
            if low is not None and high is not None and low.nanos > high.nanos:
                value = low if (lower, upper) in _REPORTS_LOWER else high
                yield invalid_field(f"{path}.{reported}[{name}]", str(value), title.format(low, high))
        yield from _validate_ratio(amounts, name, path)
        yield from _validate_overcommit(amounts, name, path)


_REPORTS_LOWER: Final = frozenset(
    {("min", "max"), ("defaultRequest", "max"), ("defaultRequest", "default"), ("min", "default")}
)
"""Comparisons whose error shows the lower value; the others show the upper one."""


def _validate_ratio(amounts: dict[str, Amounts], name: str, path: str) -> Iterator[FieldError]:
    ratio, field = amounts["maxLimitRequestRatio"].get(name), f"{path}.maxLimitRequestRatio[{name}]"
    if ratio is None:
        return
    if ratio.nanos < ONE.nanos:
        yield invalid_field(field, str(ratio), f"ratio {ratio} is less than 1")
    low, high = amounts["min"].get(name), amounts["max"].get(name)
    if low is not None and high is not None and _is_above_quotient(ratio, high, low):
        quotient = high.nanos / low.nanos
        yield invalid_field(field, str(ratio), f"ratio {ratio} is greater than max/min = {quotient:.6f}")


def _is_above_quotient(ratio: Amount, dividend: Amount, divisor: Amount) -> bool:
    return divisor.nanos > 0 and ratio.nanos * divisor.nanos > dividend.nanos * ONE.nanos


def _validate_overcommit(amounts: dict[str, Amounts], name: str, path: str) -> Iterator[FieldError]:
    """Require equal defaults of resources that cannot be overcommitted, such as GPUs."""
    limit, request = amounts["default"].get(name), amounts["defaultRequest"].get(name)
    if is_native_resource(name) and not name.startswith("hugepages-"):
        return
    if limit is not None and request is not None and limit.nanos != request.nanos:
        detail = f"default value {limit} must equal to defaultRequest value {request} in {name}"
        yield invalid_field(f"{path}.defaultRequest[{name}]", str(request), detail)
