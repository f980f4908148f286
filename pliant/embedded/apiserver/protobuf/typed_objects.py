"""Objects of built-in kinds as kube-apiserver returns them, which decodes them to Go structs and encodes these again.

Reading an object checks the JSON types, removes values that Go omits, such as empty lists, and writes quantities and
times in their canonical form. Filling it adds the fields that Go always writes, such as `status: {loadBalancer: {}}`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, Final

from pliant.embedded.apiserver.protobuf.descriptors import (
    FieldDescriptor,
    MessageDescriptor,
    find_kind,
    find_message,
    require_message,
)
from pliant.embedded.apiserver.protobuf.typed_values import (
    UNSET,
    Reader,
    TypeMismatch,
    int_reader,
    mismatch,
    read_bool,
    read_bytes,
    read_double,
    read_int_or_string,
    read_json,
    read_micro_time,
    read_quantity,
    read_raw,
    read_string,
    read_time,
)

Object = dict[str, Any]
Filler = Callable[[Object], None]
_READERS: Final[dict[str, Reader]] = {
    "string": read_string,
    "bool": read_bool,
    "double": read_double,
    "bytes": read_bytes,
    "Quantity": read_quantity,
    "Time": read_time,
    "MicroTime": read_micro_time,
    "IntOrString": read_int_or_string,
}
_ZEROS: Final[dict[str, Any]] = {
    "string": "",
    "bool": False,
    "int": 0,
    "double": 0,
    "bytes": None,
    "Quantity": "0",
    "Time": None,
    "MicroTime": None,
    "IntOrString": 0,
    "JSON": None,
}
_ALWAYS_WRITTEN: Final = ("Quantity", "Time", "MicroTime", "IntOrString")
"""Go types that are structs: `omitempty` has no effect on them."""
_OBJECT_META: Final = "meta.v1.ObjectMeta"


def read_typed_object(api_version: str, kind: str, obj: Object) -> None:
    """Read an object in place, of other kinds only the metadata; raise `TypeMismatch` for values of wrong types."""
    message = find_kind(api_version, kind)
    if message is None:
        read_object_metadata(obj)
    else:
        _read_struct(_field_readers(message.name), obj)


def read_object_metadata(obj: Object) -> None:
    """Read the metadata of a custom object in place."""
    metadata = obj.get("metadata")
    try:
        if type(metadata) is dict:
            _read_struct(_field_readers(_OBJECT_META), metadata)
        elif metadata is not None:
            raise mismatch(metadata, "an object")
    except TypeMismatch as error:
        raise error.below(".metadata") from None


def written_empty_lists(api_version: str, kind: str, obj: Object) -> Object:
    """Return the lists of an object that are empty, but that Go always writes: who sends one owns the field."""
    empty = {name: value for name, value in obj.items() if value == []}
    return {name: value for name, value in empty.items() if is_always_written(api_version, kind, name)}


def is_always_written(api_version: str, kind: str, name: str) -> bool:
    """Return whether Go writes a field of an object also if nobody has set it."""
    message = find_kind(api_version, kind)
    field = _all_fields(message).get(name) if message is not None else None
    return field is not None and _is_always_written(field, is_struct=False)


def fill_zero_values(api_version: str, kind: str, obj: Object) -> None:
    """Add the fields of a built-in kind that Go always writes."""
    message = find_kind(api_version, kind)
    if message is not None and (fill := _compile_filler(message.name)) is not None:
        fill(obj)


def _read_struct(readers: Mapping[str, Reader], value: Object) -> None:
    for name, member in list(value.items()):
        read = readers.get(name)
        if read is None:
            continue  # unknown fields are found by the schema
        try:
            result = read(member)
        except TypeMismatch as error:
            raise error.below(f".{name}") from None
        if result is UNSET:
            del value[name]
        elif result is not member:
            value[name] = result


@cache
def _field_readers(message_name: str) -> Mapping[str, Reader]:
    fields = _all_fields(require_message(message_name))
    return {name: _field_reader(field, of_json=_is_stored_as_json(message_name)) for name, field in fields.items()}


def _is_stored_as_json(message_name: str) -> bool:
    """Return whether API servers store a message as JSON, which, unlike protobuf, tells an empty list from none."""
    return message_name.startswith("apiextensions.")


def _all_fields(message: MessageDescriptor) -> dict[str, FieldDescriptor]:
    """Return the fields of a message and of the messages that are inlined in it."""
    fields = dict(message.by_json_name)
    for inline in message.inline_fields:
        if (inner := find_message(inline.type_name)) is not None:
            fields |= _all_fields(inner)
    return fields


def _field_reader(field: FieldDescriptor, *, of_json: bool) -> Reader:
    read_item = _value_reader(field)
    if field.is_map:
        return _map_reader(read_item, _zero_of(field))
    if field.is_repeated:
        keeps_empty = of_json and _is_always_written(field, is_struct=False)
        return _list_reader(read_item, _zero_of(field), keeps_empty=keeps_empty)
    keeps_zero, zero = field.is_pointer or field.type_name not in ("string", "bool", "int", "double"), _zero_of(field)

    def read(value: Any) -> Any:
        if value is None:
            return UNSET
        result = read_item(value)
        return UNSET if not keeps_zero and result == zero else result

    return read


def _value_reader(field: FieldDescriptor) -> Reader:
    if field.type_name == "int":
        return int_reader(64 if field.is_wide else 32)
    if field.type_name in _READERS:
        return _READERS[field.type_name]
    message = find_message(field.type_name)
    if message is None:
        return read_json if field.type_name == "JSON" else read_raw
    return _union_reader(message) if message.is_union else _struct_reader(message.name)


def _union_reader(union: MessageDescriptor) -> Reader:
    """Return a reader of a schema, or of what may stand for it: a boolean, or a list of schemas or strings.

    Like Go, it refuses other values only where a boolean may stand; elsewhere it reads them as no schema.
    """
    fields = {field.type_name: field for field in union.inline_fields if field.is_repeated}
    schema = next(field for field in union.inline_fields if not field.is_repeated and field.type_name != "bool")
    read_schema, has_bool = _struct_reader(schema.type_name), len(fields) == 0
    read_list = next((_list_reader(_value_reader(field), _zero_of(field)) for field in fields.values()), None)

    def read(value: Any) -> Any:
        if type(value) is dict:
            return read_schema(value)
        if has_bool and type(value) is not bool:
            raise mismatch(value, "a boolean or an object")
        if type(value) is list and read_list is not None:
            result = read_list(value)
            return None if result is UNSET else result
        return value if has_bool else None

    return read


def _struct_reader(message_name: str) -> Reader:
    readers: Mapping[str, Reader] | None = None

    def read(value: Any) -> Any:
        nonlocal readers
        if type(value) is not dict:
            raise mismatch(value, "an object")
        if readers is None:  # only now, because messages may contain themselves
            readers = _field_readers(message_name)
        _read_struct(readers, value)
        return value

    return read


def _list_reader(read_item: Reader, zero: Any, *, keeps_empty: bool = False) -> Reader:
    def read(value: Any) -> Any:
        if value is None or (value == [] and not keeps_empty):
            return UNSET
        if type(value) is not list:
            raise mismatch(value, "an array")
        for index, item in enumerate(value):
            try:
                value[index] = _copy_zero(zero) if item is None else read_item(item)
            except TypeMismatch as error:
                raise error.below(f"[{index}]") from None
        return value

    return read


def _map_reader(read_item: Reader, zero: Any) -> Reader:
    def read(value: Any) -> Any:
        if value is None or value == {}:
            return UNSET
        if type(value) is not dict:
            raise mismatch(value, "an object")
        for name, item in value.items():
            try:
                value[name] = _copy_zero(zero) if item is None else read_item(item)
            except TypeMismatch as error:
                raise error.below(f"[{name}]") from None
        return value

    return read


def _zero_of(field: FieldDescriptor) -> Any:
    if field.type_name == "bytes" and field.is_map:
        return ""
    return _ZEROS.get(field.type_name, {})


def _copy_zero(zero: Any) -> Any:
    return {} if zero == {} else zero


@cache
def _compile_filler(message_name: str) -> Filler | None:
    """Return a function that adds the fields that are always written, here and below; None if there are none."""
    zeros: list[tuple[str, Any]] = []
    structs: list[tuple[str, Filler, bool]] = []
    for name, field in _all_fields(require_message(message_name)).items():
        is_struct = not field.is_repeated and not field.is_map and _is_message(field)
        if _is_always_written(field, is_struct=is_struct):
            zeros.append((name, None if field.is_repeated or field.is_map else _zero_of(field)))
        inner = _compile_filler(field.type_name) if _is_message(field) and not _is_recursive(field) else None
        if inner is not None:
            structs.append((name, inner, not is_struct))
    if not zeros and not structs:
        return None

    keeps_empty_lists = _is_stored_as_json(message_name)

    def fill(value: Object) -> None:
        for name, zero in zeros:
            if name not in value or (value[name] == [] and not keeps_empty_lists):
                value[name] = _copy_zero(zero)
        for name, inner, is_collection in structs:
            member = value.get(name)
            if is_collection:
                for item in member.values() if type(member) is dict else member or ():
                    inner(item)
            elif type(member) is dict:
                inner(member)

    return fill


def _is_message(field: FieldDescriptor) -> bool:
    message = find_message(field.type_name)
    return message is not None and not message.is_union


def _is_recursive(field: FieldDescriptor) -> bool:
    return field.type_name.endswith(".JSONSchemaProps")


def _is_always_written(field: FieldDescriptor, *, is_struct: bool) -> bool:
    if field.is_pointer or field.omits_empty_struct or field.type_name == _OBJECT_META:
        return False
    if is_struct or (field.type_name in _ALWAYS_WRITTEN and not field.is_repeated and not field.is_map):
        return True
    return field.keeps_zero and (field.type_name in _ZEROS or field.is_repeated or field.is_map)
