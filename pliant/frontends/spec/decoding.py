"""Decode raw objects into typed structs; errors name the path of the invalid field."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from datetime import datetime
from difflib import get_close_matches
from functools import cache
from typing import Any, TypeVar, cast

import msgspec
from msgspec import inspect

from pliant.errors import InvalidSpec
from pliant.frontends.crd import IGNORED_KEY

T = TypeVar("T")

_MAX_QUOTE_CHARS = 60


def decode(decode_as: type[T], raw: Any, path: str) -> T:
    """Decode a value; raise InvalidSpec for the first invalid field.

    Null and empty strings count as absent, as in Go. Unknown fields are ignored; the API server prunes them.
    """
    info = type_info_of(cast("Hashable", decode_as))
    normalized = _drop_empty_fields(info, {} if raw is None else raw)
    try:
        return msgspec.convert(normalized, decode_as)
    except msgspec.ValidationError as error:
        raise next(_field_errors(info, normalized, path), InvalidSpec(path, str(error))) from None


def list_ignored_fields(value: msgspec.Struct, path: str) -> Iterator[str]:
    """Yield a warning about each field that is set and has no effect."""
    return _list_ignored(type_info_of(type(value)), value, path)


def _list_ignored(info: inspect.Type, value: Any, path: str) -> Iterator[str]:
    if not value:
        return
    if isinstance(info, inspect.Metadata) and (advice := (info.extra or {}).get(IGNORED_KEY)):
        yield f"{path} is ignored: {advice}"
        return
    match unwrap_type(info):
        case inspect.StructType(fields=fields):
            for each in fields:
                yield from _list_ignored(each.type, getattr(value, each.name), f"{path}.{each.encode_name}")
        case inspect.DictType(value_type=value_type):
            for name, each in value.items():
                yield from _list_ignored(value_type, each, f"{path}.{name}")


def abbreviate_json(value: Any) -> str:
    """Return the value as JSON, truncated for error messages."""
    text = msgspec.json.encode(value).decode()
    return text if len(text) <= _MAX_QUOTE_CHARS else f"{text[:_MAX_QUOTE_CHARS]}…"


def invalid_choice_message(value: Any, choices: list[str]) -> str:
    """Return the error message for a value that is not one of the choices, with the closest choice as a hint."""
    folded = {choice.casefold(): choice for choice in choices}
    close = get_close_matches(value.casefold(), folded, n=1) if isinstance(value, str) else ()
    hint = f"; did you mean {folded[close[0]]}?" if close else ""
    return f"{abbreviate_json(value)} is not one of {', '.join(choices)}{hint}"


@cache
def type_info_of(decode_as: Hashable) -> inspect.Type:
    return inspect.type_info(decode_as)


def unwrap_type(type_info: inspect.Type) -> inspect.Type:
    """Return a type without its annotations and without `| None`."""
    while isinstance(type_info, inspect.Metadata | inspect.UnionType):
        if isinstance(type_info, inspect.Metadata):
            type_info = type_info.type
        else:
            type_info = next(member for member in type_info.types if not isinstance(member, inspect.NoneType))
    return type_info


def _drop_empty_fields(type_info: inspect.Type, raw: Any) -> Any:
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
            return int(raw)  # JSON does not distinguish 2.0 from 2
        case _:
            return raw


def _field_errors(type_info: inspect.Type, raw: Any, path: str) -> Iterator[InvalidSpec]:
    match unwrap_type(type_info):
        case inspect.StructType() | inspect.DictType() if not isinstance(raw, Mapping):
            yield InvalidSpec(path, f"must be a mapping, got {abbreviate_json(raw)}")
        case inspect.ListType() if not isinstance(raw, list):
            yield InvalidSpec(path, f"must be a list, got {abbreviate_json(raw)}")
        case inspect.StructType(fields=fields):
            yield from _struct_errors(fields, raw, path)
        case inspect.DictType(value_type=value_type):
            for key, value in raw.items():
                yield from _field_errors(value_type, value, f"{path}.{key}")
        case inspect.ListType(item_type=item_type):
            for index, item in enumerate(raw):
                yield from _field_errors(item_type, item, f"{path}[{index}]")
        case scalar:
            if (problem := _scalar_problem(scalar, raw)) is not None:
                yield InvalidSpec(path, problem)


def _struct_errors(fields: tuple[inspect.Field, ...], raw: Mapping[str, Any], path: str) -> Iterator[InvalidSpec]:
    for field in fields:
        field_path = f"{path}.{field.encode_name}"
        if field.encode_name in raw:
            yield from _field_errors(field.type, raw[field.encode_name], field_path)
        elif field.required:
            yield InvalidSpec(field_path, "is required")


def _scalar_problem(type_info: inspect.Type, raw: Any) -> str | None:
    match type_info:
        case inspect.EnumType(cls=cls):
            choices = [str(member.value) for member in cls]
            return None if raw in choices else invalid_choice_message(raw, choices)
        case inspect.IntType():
            return _integer_problem(type_info, raw)
        case inspect.BoolType():
            return None if isinstance(raw, bool) else f"must be true or false, got {abbreviate_json(raw)}"
        case inspect.StrType():
            return None if isinstance(raw, str) else f"must be a string, got {abbreviate_json(raw)}"
        case inspect.DateTimeType():
            return (
                None
                if _is_timestamp(raw)
                else f"must be a time such as 2026-01-31T12:00:00Z, got {abbreviate_json(raw)}"
            )
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
        return f"must be an integer, got {abbreviate_json(raw)}"
    if type_info.ge is not None and raw < type_info.ge:
        return f"must be {type_info.ge} or more, got {raw}"
    if type_info.le is not None and raw > type_info.le:
        return f"must be {type_info.le} or less, got {raw}"
    return None
