"""Validation of the resource requests and limits of a container, or of a pod as a whole."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Final

from pliant.embedded.apiserver.admission.validation.pods.resource_claims import validate_used_claims
from pliant.embedded.apiserver.http.errors import forbidden_field, invalid_field, required_field, unsupported_value
from pliant.embedded.apiserver.quota.resource_names import (
    HUGE_PAGES_PREFIX,
    is_integer_resource,
    is_native_resource,
    validate_container_resource_name,
    validate_resource_name,
)
from pliant.embedded.schema import FieldError
from pliant.embedded.storage.stored_objects import Object
from pliant.schemas.quantity import parse_quantity

_QOS_RESOURCES: Final = frozenset({"cpu", "memory"})
_INTEGER_MESSAGE: Final = "must be an integer"


def validate_resources(
    resources: Object, path: str, claims: Collection[str], *, is_pod: bool = False
) -> Iterator[FieldError]:
    """Yield the errors of names, quantities and claims, and of requests that exceed their limits."""
    limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
    for group, quantities in (("limits", limits), ("requests", requests)):
        for name, quantity in quantities.items():
            field = f"{path}.{group}[{name}]"
            yield from (
                _validate_pod_resource_name(name, field) if is_pod else validate_container_resource_name(name, field)
            )
            yield from _validate_quantity(name, quantity, field)
    for name, quantity in requests.items():
        yield from _validate_request(name, quantity, limits, path)
    names = {*limits, *requests}
    if any(_is_huge_pages(name) for name in names) and not names & _QOS_RESOURCES:
        yield forbidden_field(path, "HugePages require cpu or memory")
    if resources.get("claims"):
        yield from validate_used_claims(resources["claims"], claims, f"{path}.claims")


def is_pod_level_resource(name: str) -> bool:
    return name in _QOS_RESOURCES or _is_huge_pages(name)


def _validate_request(name: str, quantity: str, limits: Object, path: str) -> Iterator[FieldError]:
    allows_overcommitment = is_native_resource(name) and not _is_huge_pages(name)
    if name not in limits:
        if not allows_overcommitment:
            yield required_field(f"{path}.limits", "Limit must be set for non overcommitable resources")
        return
    request, limit = parse_quantity(quantity), parse_quantity(limits[name])
    if not allows_overcommitment and request != limit:
        detail = f"must be equal to {name} limit of {limits[name]}"
        yield invalid_field(f"{path}.requests", str(quantity), detail)
    elif request > limit:
        detail = f"must be less than or equal to {name} limit of {limits[name]}"
        yield invalid_field(f"{path}.requests", str(quantity), detail)


def _validate_pod_resource_name(name: str, path: str) -> Iterator[FieldError]:
    errors = validate_resource_name(name, path)
    yield from errors
    if not errors and not is_pod_level_resource(name):
        yield unsupported_value(path, name, ["cpu", HUGE_PAGES_PREFIX, "memory"])


def _validate_quantity(name: str, quantity: str | int | float, path: str) -> Iterator[FieldError]:
    value = parse_quantity(quantity)
    if value < 0:
        yield invalid_field(path, str(quantity), "must be greater than or equal to 0")
    if is_integer_resource(name) and value.denominator != 1:
        yield invalid_field(path, str(quantity), _INTEGER_MESSAGE)
    if _is_huge_pages(name) and not _is_multiple(name, quantity):
        yield invalid_field(path, str(quantity), f"{quantity} is not positive integer multiple of {name}")


def _is_multiple(name: str, quantity: str | int | float) -> bool:
    """Return whether an amount of huge pages is a multiple of their size."""
    try:
        size = parse_quantity(name.removeprefix(HUGE_PAGES_PREFIX))
    except ValueError:
        return False
    return size > 0 and size.denominator == 1 and -(-parse_quantity(quantity) // 1) % size == 0


def _is_huge_pages(name: str) -> bool:
    return name.startswith(HUGE_PAGES_PREFIX)
