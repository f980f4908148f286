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

_MAX_QUOTE_CHARS = 60


def decode(decode_as: type[T], raw: Any, path: str) -> T:
    """One typed value; raises InvalidSpec for the first field that does not fit.

    A field that is null or an empty string counts as absent, as it does for programs written in Go. Unknown fields
    are passed over: it is the API server that drops them, with a warning.
    """
    shape = _type_info(cast("Hashable", decode_as))
    present = _drop_empty_fields(shape, {} if raw is None else raw)
    try:
        return msgspec.convert(present, decode_as)
    except msgspec.ValidationError as error:
        raise next(_field_errors(shape, present, path), InvalidSpec(path, str(error))) from None


def quote_json(value: Any) -> str:
    """A value as it looks in JSON, shortened where it is long."""
    text = msgspec.json.encode(value).decode()
    return text if len(text) <= _MAX_QUOTE_CHARS else f"{text[:_MAX_QUOTE_CHARS]}…"


def invalid_choice_message(value: Any, choices: list[str]) -> str:
    """The sentence for a value outside a closed set, with the likely intention."""
    folded = {choice.casefold(): choice for choice in choices}
    close = get_close_matches(value.casefold(), folded, n=1) if isinstance(value, str) else ()
    hint = f"; did you mean {folded[close[0]]}?" if close else ""
    return f"{quote_json(value)} is not one of {', '.join(choices)}{hint}"


@cache
def _type_info(decode_as: Hashable) -> inspect.Type:
    return inspect.type_info(decode_as)


def unwrap_type(type_info: inspect.Type) -> inspect.Type:
    """A type without its annotations and without `| None`."""
    while isinstance(type_info, inspect.Metadata | inspect.UnionType):
        if isinstance(type_info, inspect.Metadata):
            type_info = type_info.type
        else:
            type_info = next(member for member in type_info.types if not isinstance(member, inspect.NoneType))
    return type_info


def _drop_empty_fields(type_info: inspect.Type, raw: Any) -> Any:
    """The same value without the fields that say nothing."""
    match unwrap_type(type_info):
        case inspect.StructType(fields=fields) if isinstance(raw, Mapping):
            return {
                field.encode_name: _drop_empty_fields(field.type, raw[field.encode_name])
                for field in fields
                if raw.get(field.encode_name) not in (None, "")
            }
        case inspect.DictType(value_type=value_type) if isinstance(raw, Mapping):
            return {key: _drop_empty_fields(value_type, value) for key, value in raw.items()}
        case inspect.ListType(item_type=item_type) if isinstance(raw, list):
            return [_drop_empty_fields(item_type, item) for item in raw]
        case inspect.IntType() if isinstance(raw, float) and raw.is_integer():
            return int(raw)  # JSON knows only numbers: 2.0 is 2
        case _:
            return raw


def _field_errors(type_info: inspect.Type, raw: Any, path: str) -> Iterator[InvalidSpec]:
    match unwrap_type(type_info):
        case inspect.StructType(fields=fields):
            yield from _json_type_errors(raw, Mapping, "a mapping", path) or _struct_errors(fields, raw, path)
        case inspect.DictType(value_type=value_type):
            yield from _json_type_errors(raw, Mapping, "a mapping", path) or _mapping_errors(value_type, raw, path)
        case inspect.ListType(item_type=item_type):
            yield from _json_type_errors(raw, list, "a list", path) or _list_errors(item_type, raw, path)
        case scalar:
            if (problem := _scalar_problem(scalar, raw)) is not None:
                yield InvalidSpec(path, problem)


def _json_type_errors(raw: Any, json_type: type, type_label: str, path: str) -> tuple[InvalidSpec, ...]:
    return () if isinstance(raw, json_type) else (InvalidSpec(path, f"must be {type_label}, got {quote_json(raw)}"),)


def _struct_errors(fields: tuple[inspect.Field, ...], raw: Mapping[str, Any], path: str) -> Iterator[InvalidSpec]:
    for field in fields:
        below = f"{path}.{field.encode_name}"
        if field.encode_name in raw:
            yield from _field_errors(field.type, raw[field.encode_name], below)
        elif field.required:
            yield InvalidSpec(below, "is required")


def _mapping_errors(value_type: inspect.Type, raw: Mapping[str, Any], path: str) -> Iterator[InvalidSpec]:
    for key, value in raw.items():
        yield from _field_errors(value_type, value, f"{path}.{key}")


def _list_errors(item_type: inspect.Type, raw: list[Any], path: str) -> Iterator[InvalidSpec]:
    for index, item in enumerate(raw):
        yield from _field_errors(item_type, item, f"{path}[{index}]")


def _scalar_problem(type_info: inspect.Type, raw: Any) -> str | None:
    match type_info:
        case inspect.EnumType(cls=cls):
            choices = [str(member.value) for member in cls]
            return None if raw in choices else invalid_choice_message(raw, choices)
        case inspect.IntType():
            return _integer_problem(type_info, raw)
        case inspect.BoolType():
            return None if isinstance(raw, bool) else f"must be true or false, got {quote_json(raw)}"
        case inspect.StrType():
            return None if isinstance(raw, str) else f"must be text, got {quote_json(raw)}"
        case inspect.DateTimeType():
            return None if _is_timestamp(raw) else f"must be a time such as 2026-01-31T12:00:00Z, got {quote_json(raw)}"
        case _:
            return None


def _is_timestamp(raw: Any) -> bool:
    try:
        msgspec.convert(raw, datetime)
    except msgspec.ValidationError:
        return False
    return True


def _integer_problem(type_info: inspect.IntType, raw: Any) -> str | None:
    if isinstance(raw, bool) or not isinstance(raw, int):
        return f"must be an integer, got {quote_json(raw)}"
    if type_info.ge is not None and raw < type_info.ge:
        return f"must be {type_info.ge} or more, got {raw}"
    if type_info.le is not None and raw > type_info.le:
        return f"must be {type_info.le} or less, got {raw}"
    return None
