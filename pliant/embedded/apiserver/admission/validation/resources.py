"""Validation of the resource requests and limits of a container."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from pliant.embedded.apiserver.admission.validation.names import validate_qualified_name
from pliant.embedded.apiserver.http.errors import invalid_field, required_field
from pliant.embedded.schema import FieldError
from pliant.embedded.storage.stored_objects import Object
from pliant.schemas.quantity import parse_quantity

_STANDARD_RESOURCES: Final = ("cpu", "memory", "ephemeral-storage")
_NATIVE_PREFIX: Final = "kubernetes.io/"
_INTEGER_MESSAGE: Final = "must be an integer"


def validate_resources(resources: Object, path: str) -> Iterator[FieldError]:
    """Yield the errors of names and quantities, and of requests that exceed their limits."""
    limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
    for group, quantities in (("limits", limits), ("requests", requests)):
        for name, quantity in quantities.items():
            field = f"{path}.{group}[{name}]"
            yield from _validate_resource_name(name, field)
            yield from _validate_quantity(name, quantity, field)
    for name, quantity in requests.items():
        if name not in limits:
            if _is_extended(name):
                yield required_field(f"{path}.limits", "Limit must be set for non overcommitable resources")
            continue
        request, limit = parse_quantity(quantity), parse_quantity(limits[name])
        if _is_extended(name) and request != limit:
            detail = f"must be equal to {name} limit of {limits[name]}"
            yield invalid_field(f"{path}.requests", str(quantity), detail)
        elif request > limit:
            detail = f"must be less than or equal to {name} limit of {limits[name]}"
            yield invalid_field(f"{path}.requests", str(quantity), detail)


def _validate_resource_name(name: str, path: str) -> Iterator[FieldError]:
    yield from validate_qualified_name(path, name)
    if "/" not in name:
        if name not in _STANDARD_RESOURCES and not name.startswith("hugepages-"):
            yield invalid_field(path, name, "must be a standard resource for containers")
    elif not _is_native(name) and not _is_extended(name):
        yield invalid_field(path, name, "doesn't follow extended resource name standard")


def _validate_quantity(name: str, quantity: str | int | float, path: str) -> Iterator[FieldError]:
    value = parse_quantity(quantity)
    if value < 0:
        yield invalid_field(path, str(quantity), "must be greater than or equal to 0")
    if _is_extended(name) and value.denominator != 1:
        yield invalid_field(path, str(quantity), _INTEGER_MESSAGE)


def _is_native(name: str) -> bool:
    return "/" not in name or _NATIVE_PREFIX in name


def _is_extended(name: str) -> bool:
    return not _is_native(name) and not name.startswith("requests.") and re.search(r"[^/]/[^/]", name) is not None
