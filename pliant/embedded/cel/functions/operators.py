"""Operators: arithmetic, comparison, indexing and membership. The evaluator implements the logical operators."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, Final

from pliant.embedded.cel.functions.declarations import Library
from pliant.embedded.cel.values import (
    CostLimitError,
    Duration,
    EvaluationError,
    MapList,
    ObjectValue,
    OptionalValue,
    SetList,
    Timestamp,
    UInt,
    are_equal,
    compare,
    contains,
    find_key,
    hashable,
    no_such_overload,
)

MAX_CREATED_LENGTH: Final = 16 * 1024 * 1024
_MAX_NANOSECONDS: Final = 2**63
_FIRST_SECOND, _LAST_SECOND = -62_135_596_800, 253_402_300_799


def require_length(length: int) -> None:
    """Raise CostLimitError for a text or list that would need too much memory."""
    if length > MAX_CREATED_LENGTH:
        raise CostLimitError


def require_int(value: int) -> int:
    if not -(2**63) <= value < 2**63:
        raise EvaluationError("integer overflow")
    return value


def require_uint(value: int) -> UInt:
    if not 0 <= value < 2**64:
        raise EvaluationError("unsigned integer overflow")
    return UInt(value)


def require_duration(nanoseconds: int) -> Duration:
    if not -_MAX_NANOSECONDS <= nanoseconds < _MAX_NANOSECONDS:
        raise EvaluationError("duration overflow")
    return Duration(nanoseconds)


def require_timestamp(nanoseconds: int) -> Timestamp:
    if not _FIRST_SECOND <= nanoseconds // 10**9 <= _LAST_SECOND:
        raise EvaluationError("timestamp overflow")
    return Timestamp(nanoseconds)


def _numeric(
    on_int: Callable[[int, int], int], on_float: Callable[[float, float], float] | None
) -> Callable[[Any, Any], Any]:
    def apply(left: Any, right: Any) -> Any:
        kind = type(left)
        if kind is not type(right):
            raise no_such_overload()
        if kind is int:
            return require_int(on_int(left, right))
        if kind is float and on_float is not None:
            return on_float(left, right)
        if kind is UInt:
            return require_uint(on_int(left, right))
        raise no_such_overload()

    return apply


def _divide_ints(left: int, right: int) -> int:
    if right == 0:
        raise EvaluationError("division by zero")
    quotient = abs(left) // abs(right)
    return quotient if (left < 0) == (right < 0) else -quotient


def _divide_floats(left: float, right: float) -> float:
    if right == 0:
        return math.nan if left == 0 or left != left else math.copysign(math.inf, left) * math.copysign(1, right)
    return left / right


def _modulo(left: int, right: int) -> int:
    if right == 0:
        raise EvaluationError("modulus by zero")
    return left - right * _divide_ints(left, right)


def _multiply_floats(left: float, right: float) -> float:
    return left * right


def _add_numbers(left: Any, right: Any) -> Any:
    return left + right


_add_numeric = _numeric(_add_numbers, _add_numbers)
_subtract_numeric = _numeric(lambda left, right: left - right, lambda left, right: left - right)


def add(left: Any, right: Any) -> Any:
    left_class, right_class = type(left), type(right)
    if left_class is right_class and left_class in (str, bytes):
        require_length(len(left) + len(right))
        return left + right
    if isinstance(left, list) and isinstance(right, list):
        return _add_lists(left, right)
    if left_class is Duration and right_class is Duration:
        return require_duration(left.nanoseconds + right.nanoseconds)
    if {left_class, right_class} == {Duration, Timestamp}:
        return require_timestamp(left.nanoseconds + right.nanoseconds)
    return _add_numeric(left, right)


def _add_lists(left: list[Any], right: list[Any]) -> list[Any]:
    """Join lists; for sets and maps, keep the elements of the left and add or replace by those of the right."""
    require_length(len(left) + len(right))
    if isinstance(left, SetList):
        return SetList([*left, *(each for each in right if not contains(left, each))])
    if isinstance(left, MapList):
        merged = {hashable(left.key_of(element)): element for element in left}
        merged.update({hashable(left.key_of(element)): element for element in right})
        return MapList(list(merged.values()), left.keys)
    return [*left, *right]


def _subtract(left: Any, right: Any) -> Any:
    left_class, right_class = type(left), type(right)
    if left_class is Duration and right_class is Duration:
        return require_duration(left.nanoseconds - right.nanoseconds)
    if left_class is Timestamp and right_class is Timestamp:
        return require_duration(left.nanoseconds - right.nanoseconds)
    if left_class is Timestamp and right_class is Duration:
        return require_timestamp(left.nanoseconds - right.nanoseconds)
    return _subtract_numeric(left, right)


def _negate(value: Any) -> Any:
    if type(value) is float:
        return -value
    if type(value) is not int:
        raise no_such_overload()
    return require_int(-value)


def _not(value: Any) -> bool:
    if type(value) is not bool:
        raise no_such_overload()
    return not value


def index(container: Any, key: Any) -> Any:
    """Return an element of a list or a map; raise EvaluationError if there is none."""
    if isinstance(container, list):
        position = _list_position(key)
        if not 0 <= position < len(container):
            raise EvaluationError(f"index out of bounds: {position}")
        return container[position]
    if isinstance(container, Mapping):
        found = find_key(container, key)
        if not found.is_set:
            raise EvaluationError(f"no such key: {format_key(key)}")
        return found.value
    if type(container) is OptionalValue:
        return optional_index(container, key)
    raise no_such_overload()


def optional_index(container: Any, key: Any) -> OptionalValue:
    """Return an element of a list or a map as an optional."""
    if type(container) is OptionalValue:
        return optional_index(container.value, key) if container.is_set else container
    if isinstance(container, list):
        position = _list_position(key)
        return OptionalValue(True, container[position]) if 0 <= position < len(container) else OptionalValue(False)
    if isinstance(container, Mapping):
        return find_key(container, key)
    raise no_such_overload()


def _list_position(key: Any) -> int:
    if type(key) in (int, UInt) or (type(key) is float and key.is_integer()):
        return int(key)
    if type(key) is float:
        raise EvaluationError(f"unsupported index value: {key}")
    raise EvaluationError(f"unsupported index type '{'string' if type(key) is str else type(key).__name__}' in list")


def format_key(key: Any) -> str:
    return str(key).lower() if type(key) is bool else str(key)


def _is_in(value: Any, container: Any) -> bool:
    if isinstance(container, list):
        return contains(container, value)
    if isinstance(container, Mapping):
        return find_key(container, value).is_set
    raise no_such_overload()


_ORDERED_PAIRS: Final = (
    ("bool", "bool", "bool"),
    ("int64", "int", "int"),
    ("int64_double", "int", "double"),
    ("int64_uint64", "int", "uint"),
    ("uint64", "uint", "uint"),
    ("uint64_double", "uint", "double"),
    ("uint64_int64", "uint", "int"),
    ("double", "double", "double"),
    ("double_int64", "double", "int"),
    ("double_uint64", "double", "uint"),
    *((name, name, name) for name in ("string", "bytes", "timestamp", "duration")),
)


def _relation(name: str) -> list[str]:
    return [f"{name}_{suffix}({left}, {right}) -> bool" for suffix, left, right in _ORDERED_PAIRS]


def declare_operators(library: Library) -> None:
    same = [f"_{name}(%s, %s) -> %s" % ((kind,) * 3) for name, kind in (("double", "double"), ("int64", "int"))]
    numbers = [*same, "_uint64(uint, uint) -> uint"]
    operator = library.operator
    operator("_?_:_", _never_called, "conditional(bool, A, A) -> A")
    operator("_&&_", _never_called, "logical_and(bool, bool) -> bool")
    operator("_||_", _never_called, "logical_or(bool, bool) -> bool")
    operator("!_", _not, "logical_not(bool) -> bool")
    operator("@not_strictly_false", _never_called, "not_strictly_false(bool) -> bool")
    operator("_==_", are_equal, "equals(A, A) -> bool")
    operator("_!=_", lambda left, right: not are_equal(left, right), "not_equals(A, A) -> bool")
    operator(
        "_+_",
        add,
        "add_bytes(bytes, bytes) -> bytes",
        "add_duration_duration(duration, duration) -> duration",
        "add_duration_timestamp(duration, timestamp) -> timestamp",
        "add_timestamp_duration(timestamp, duration) -> timestamp",
        *(f"add{each}" for each in numbers),
        "add_list(list<A>, list<A>) -> list<A>",
        "add_string(string, string) -> string",
    )
    operator("_/_", _numeric(_divide_ints, _divide_floats), *(f"divide{each}" for each in numbers))
    operator("_%_", _numeric(_modulo, None), *(f"modulo{each}" for each in numbers if "double" not in each))
    operator("_*_", _numeric(lambda a, b: a * b, _multiply_floats), *(f"multiply{each}" for each in numbers))
    operator("-_", _negate, "negate_double(double) -> double", "negate_int64(int) -> int")
    operator(
        "_-_",
        _subtract,
        *(f"subtract{each}" for each in numbers),
        "subtract_duration_duration(duration, duration) -> duration",
        "subtract_timestamp_duration(timestamp, duration) -> timestamp",
        "subtract_timestamp_timestamp(timestamp, timestamp) -> duration",
    )
    operator("_<_", lambda left, right: compare(left, right) < 0, *_relation("less"))
    operator("_<=_", lambda left, right: compare(left, right) <= 0, *_relation("less_equals"))
    operator("_>_", lambda left, right: compare(left, right) > 0, *_relation("greater"))
    operator("_>=_", lambda left, right: compare(left, right) >= 0, *_relation("greater_equals"))
    optional_list, optional_map = "optional_type<list<A>>", "optional_type<map<A, B>>"
    operator(
        "_[_]",
        index,
        "index_list(list<A>, int) -> A",
        "index_map(map<A, B>, A) -> B",
        f"optional_list_index_int({optional_list}, int) -> optional_type<A>",
        f"optional_map_index_value({optional_map}, A) -> optional_type<B>",
    )
    operator(
        "_[?_]",
        optional_index,
        "list_optindex_optional_int(list<A>, int) -> optional_type<A>",
        f"optional_list_optindex_optional_int({optional_list}, int) -> optional_type<A>",
        "map_optindex_optional_value(map<A, B>, A) -> optional_type<B>",
        f"optional_map_optindex_optional_value({optional_map}, A) -> optional_type<B>",
    )
    operator("@in", _is_in, "in_list(A, list<A>) -> bool", "in_map(A, map<A, B>) -> bool")


def _never_called(*arguments: Any) -> Any:
    raise AssertionError("the evaluator implements this operator")


def select_field(value: Any, field: str) -> Any:
    """Return a field of an object or map."""
    if type(value) is ObjectValue or type(value) is dict:
        try:
            return value[field]
        except KeyError:
            raise EvaluationError(f"no such key: {field}") from None
    if type(value) is OptionalValue:
        return optional_select(value, field)
    raise EvaluationError(f"no such key: {field}")


def optional_select(value: Any, field: str) -> OptionalValue:
    if type(value) is OptionalValue:
        return optional_select(value.value, field) if value.is_set else value
    if not isinstance(value, Mapping):
        raise no_such_overload()
    return OptionalValue(True, value[field]) if field in value else OptionalValue(False)


def has_field(value: Any, field: str) -> bool:
    if type(value) is OptionalValue:
        return value.is_set and has_field(value.value, field)
    if not isinstance(value, Mapping):
        raise no_such_overload()
    return field in value
