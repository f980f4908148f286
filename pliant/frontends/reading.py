"""Raw resources become typed structs; what does not fit is named by its path and in a user's words."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from datetime import datetime
from difflib import get_close_matches
from functools import cache
from typing import Any, TypeVar, cast

import msgspec
from msgspec import inspect

from pliant.errors import InvalidSpec

T = TypeVar("T")

_LONGEST_QUOTE = 60


def read(kind: type[T], raw: Any, path: str) -> T:
    """One typed value; raises InvalidSpec for the first field that does not fit.

    A field that is null or an empty string counts as absent, as it does for programs written in Go. Unknown fields
    are passed over: it is the API server that drops them, with a warning.
    """
    shape = _shape(cast("Hashable", kind))
    present = _present(shape, {} if raw is None else raw)
    try:
        return msgspec.convert(present, kind)
    except msgspec.ValidationError as error:
        raise next(_faults(shape, present, path), InvalidSpec(path, str(error))) from None


def quoted(value: Any) -> str:
    """A value as it looks in JSON, shortened where it is long."""
    text = msgspec.json.encode(value).decode()
    return text if len(text) <= _LONGEST_QUOTE else f"{text[:_LONGEST_QUOTE]}…"


def not_one_of(value: Any, choices: list[str]) -> str:
    """The sentence for a value outside a closed set, with the likely intention."""
    folded = {choice.casefold(): choice for choice in choices}
    close = get_close_matches(value.casefold(), folded, n=1) if isinstance(value, str) else ()
    hint = f"; did you mean {folded[close[0]]}?" if close else ""
    return f"{quoted(value)} is not one of {', '.join(choices)}{hint}"


@cache
def _shape(kind: Hashable) -> inspect.Type:
    return inspect.type_info(kind)


def bare(shape: inspect.Type) -> inspect.Type:
    """A type without its annotations and without `| None`."""
    while isinstance(shape, inspect.Metadata | inspect.UnionType):
        if isinstance(shape, inspect.Metadata):
            shape = shape.type
        else:
            shape = next(member for member in shape.types if not isinstance(member, inspect.NoneType))
    return shape


def _present(shape: inspect.Type, raw: Any) -> Any:
    """The same value without the fields that say nothing."""
    match bare(shape):
        case inspect.StructType(fields=fields) if isinstance(raw, Mapping):
            return {
                field.encode_name: _present(field.type, raw[field.encode_name])
                for field in fields
                if raw.get(field.encode_name) not in (None, "")
            }
        case inspect.DictType(value_type=value_type) if isinstance(raw, Mapping):
            return {key: _present(value_type, value) for key, value in raw.items()}
        case inspect.ListType(item_type=item_type) if isinstance(raw, list):
            return [_present(item_type, item) for item in raw]
        case inspect.IntType() if isinstance(raw, float) and raw.is_integer():
            return int(raw)  # JSON knows only numbers: 2.0 is 2
        case _:
            return raw


def _faults(shape: inspect.Type, raw: Any, path: str) -> Iterator[InvalidSpec]:
    match bare(shape):
        case inspect.StructType(fields=fields):
            yield from _form_fault(raw, Mapping, "a mapping", path) or _struct_faults(fields, raw, path)
        case inspect.DictType(value_type=value_type):
            yield from _form_fault(raw, Mapping, "a mapping", path) or _entry_faults(value_type, raw, path)
        case inspect.ListType(item_type=item_type):
            yield from _form_fault(raw, list, "a list", path) or _item_faults(item_type, raw, path)
        case scalar:
            if (problem := _scalar_problem(scalar, raw)) is not None:
                yield InvalidSpec(path, problem)


def _form_fault(raw: Any, form: type, named: str, path: str) -> tuple[InvalidSpec, ...]:
    return () if isinstance(raw, form) else (InvalidSpec(path, f"must be {named}, got {quoted(raw)}"),)


def _struct_faults(fields: tuple[inspect.Field, ...], raw: Mapping[str, Any], path: str) -> Iterator[InvalidSpec]:
    for field in fields:
        below = f"{path}.{field.encode_name}"
        if field.encode_name in raw:
            yield from _faults(field.type, raw[field.encode_name], below)
        elif field.required:
            yield InvalidSpec(below, "is required")


def _entry_faults(value_type: inspect.Type, raw: Mapping[str, Any], path: str) -> Iterator[InvalidSpec]:
    for key, value in raw.items():
        yield from _faults(value_type, value, f"{path}.{key}")


def _item_faults(item_type: inspect.Type, raw: list[Any], path: str) -> Iterator[InvalidSpec]:
    for index, item in enumerate(raw):
        yield from _faults(item_type, item, f"{path}[{index}]")


def _scalar_problem(shape: inspect.Type, raw: Any) -> str | None:
    match shape:
        case inspect.EnumType(cls=cls):
            choices = [str(member.value) for member in cls]
            return None if raw in choices else not_one_of(raw, choices)
        case inspect.IntType():
            return _integer_problem(shape, raw)
        case inspect.BoolType():
            return None if isinstance(raw, bool) else f"must be true or false, got {quoted(raw)}"
        case inspect.StrType():
            return None if isinstance(raw, str) else f"must be text, got {quoted(raw)}"
        case inspect.DateTimeType():
            return None if _is_time(raw) else f"must be a time such as 2026-01-31T12:00:00Z, got {quoted(raw)}"
        case _:
            return None


def _is_time(raw: Any) -> bool:
    try:
        msgspec.convert(raw, datetime)
    except msgspec.ValidationError:
        return False
    return True


def _integer_problem(shape: inspect.IntType, raw: Any) -> str | None:
    if isinstance(raw, bool) or not isinstance(raw, int):
        return f"must be an integer, got {quoted(raw)}"
    if shape.ge is not None and raw < shape.ge:
        return f"must be {shape.ge} or more, got {raw}"
    if shape.le is not None and raw > shape.le:
        return f"must be {shape.le} or less, got {raw}"
    return None
