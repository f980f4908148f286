"""Convert dataclasses to the plain data that golden files hold."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping
from datetime import timedelta
from typing import Any


def set_fields(value: Any, *, without: Collection[str] = ()) -> dict[str, Any]:
    """Return the fields of a dataclass whose values differ from their defaults, as plain data.

    A new optional field therefore changes no golden file until a front end sets it.
    """
    return {
        field.name: plain_data(getattr(value, field.name))
        for field in dataclasses.fields(value)
        if field.name not in without and not _is_default(field, getattr(value, field.name))
    }


def plain_data(value: Any) -> Any:
    """Return a value as dicts, lists and scalars, ready for YAML."""
    if isinstance(value, str):
        return str(value)
    if dataclasses.is_dataclass(value):
        return set_fields(value)
    if isinstance(value, frozenset):
        return sorted(value)
    if isinstance(value, tuple):
        return [plain_data(item) for item in value]
    if isinstance(value, Mapping):
        return {str(key): plain_data(item) for key, item in value.items()}
    if isinstance(value, timedelta):
        return str(value)
    return value


def _is_default(field: dataclasses.Field[Any], value: Any) -> bool:
    if field.default is not dataclasses.MISSING:
        default = field.default
    elif field.default_factory is not dataclasses.MISSING:
        default = field.default_factory()
    else:
        return False
    # 1 == True and 0 == False in Python; a golden file tells them apart.
    return type(value) is type(default) and bool(value == default)
