"""Functions of lists and sets, and of optionals."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import Any

from pliant.embedded.cel.deadline import require_time
from pliant.embedded.cel.functions.declarations import Library
from pliant.embedded.cel.functions.operators import add
from pliant.embedded.cel.values import (
    NO_VALUE,
    Duration,
    EvaluationError,
    OptionalValue,
    UInt,
    are_equal,
    compare,
    contains,
    no_such_overload,
    type_of_value,
)

_MAX_RANGE = 100_000
_ORDERED = ("int", "uint", "double", "bool", "duration", "timestamp", "string", "bytes")
_ZEROS: dict[str, Any] = {"int": 0, "uint": UInt(0), "double": 0.0, "duration": Duration(0)}


def _is_sorted(elements: list[Any]) -> bool:
    return all(compare(left, right) <= 0 for left, right in pairwise(elements))


def _sum(zero: Any) -> Callable[[list[Any]], Any]:
    def total(elements: list[Any]) -> Any:
        result = zero
        for element in elements:
            result = add(result, element)
        return result

    return total


def _extreme(name: str, sign: int) -> Callable[[list[Any]], Any]:
    def find(elements: list[Any]) -> Any:
        if not elements:
            raise EvaluationError(f"{name} called on empty list")
        best = elements[0]
        for element in elements[1:]:
            if compare(element, best) == sign:
                best = element
        return best

    return find


def _index_of(elements: list[Any], value: Any) -> int:
    return next((index for index, element in enumerate(elements) if are_equal(element, value)), -1)


def _last_index_of(elements: list[Any], value: Any) -> int:
    return next((index for index in reversed(range(len(elements))) if are_equal(elements[index], value)), -1)


def _slice(elements: list[Any], start: int, end: int) -> list[Any]:
    problem = ""
    if start < 0 or end < 0:
        problem = "negative indexes not supported"
    elif start > end:
        problem = "start index must be less than or equal to end index"
    elif end > len(elements):
        problem = f"list is length {len(elements)}"
    if problem:
        raise EvaluationError(f"cannot slice({start}, {end}), {problem}")
    return elements[start:end]


def _flatten(elements: list[Any], depth: int = 1) -> list[Any]:
    if depth < 0:
        raise EvaluationError("level must be non-negative")
    flat: list[Any] = []
    for element in elements:
        if isinstance(element, list) and depth > 0:
            flat += _flatten(element, depth - 1)
        else:
            flat.append(element)
    return flat


def _sort(elements: list[Any]) -> list[Any]:
    return _sort_by_keys(elements, elements)


def _sort_by_keys(elements: list[Any], keys: list[Any]) -> list[Any]:
    from functools import cmp_to_key

    if len({type_of_value(key) for key in keys}) > 1:
        raise EvaluationError("list elements must have the same type")
    to_key = cmp_to_key(compare)
    order = sorted(range(len(keys)), key=lambda index: to_key(keys[index]))
    return [elements[index] for index in order]


def _range(count: int) -> list[int]:
    if count > _MAX_RANGE:
        raise EvaluationError(f"lists.range: {count} is more than {_MAX_RANGE} elements")
    return list(range(count))


def _distinct(elements: list[Any]) -> list[Any]:
    if _are_texts(elements):
        return list(dict.fromkeys(elements))
    found: list[Any] = []
    for element in elements:
        if not _contains(found, element):
            found.append(element)
    return found


def _contains_all(elements: list[Any], others: list[Any]) -> bool:
    if _are_texts(elements) and _are_texts(others):
        return set(others) <= set(elements)
    return all(_contains(elements, other) for other in others)


def _intersect(left: list[Any], right: list[Any]) -> bool:
    if _are_texts(left) and _are_texts(right):
        return not set(left).isdisjoint(right)
    return any(_contains(right, element) for element in left)


def _are_texts(elements: list[Any]) -> bool:
    return all(type(element) is str for element in elements)


def _contains(elements: list[Any], value: Any) -> bool:
    require_time()  # comparing every pair of elements takes quadratic time, which their cost does not cover
    return contains(elements, value)


def _are_equivalent(left: list[Any], right: list[Any]) -> bool:
    return _contains_all(left, right) and _contains_all(right, left)


def _is_zero(value: Any) -> bool:
    if isinstance(value, Mapping):
        return len(value) == 0
    return value is None or value in (0, "", b"", []) or value == Duration(0)


def _some(value: Any) -> OptionalValue:
    return OptionalValue(True, value)


def _some_non_zero(value: Any) -> OptionalValue:
    return NO_VALUE if _is_zero(value) else _some(value)


def _unwrap(optionals: list[OptionalValue]) -> list[Any]:
    if not all(type(optional) is OptionalValue for optional in optionals):
        raise no_such_overload()
    return [optional.value for optional in optionals if optional.is_set]


def _value_of(optional: OptionalValue) -> Any:
    if not optional.is_set:
        raise EvaluationError("optional.none() dereference")
    return optional.value


def _map_insert(mapping: dict[Any, Any], key: Any, value: Any) -> dict[Any, Any]:
    if key in mapping:
        raise EvaluationError(f"insert failed: key {key} already exists")
    return {**mapping, key: value}


def _map_merge(mapping: dict[Any, Any], other: Mapping[Any, Any]) -> dict[Any, Any]:
    for key in other:
        mapping = _map_insert(mapping, key, other[key])
    return mapping


def declare_list_functions(library: Library) -> None:
    declare = library.declare
    for kind in _ORDERED:
        declare(f"(list<{kind}>).isSorted() -> bool", _is_sorted)
        declare(f"(list<{kind}>).max() -> {kind}", _extreme("max", 1))
        declare(f"(list<{kind}>).min() -> {kind}", _extreme("min", -1))
        declare(f"(list<{kind}>).sort() -> list<{kind}>", _sort)
        declare(f"(list<A>).@sortByAssociatedKeys(list<{kind}>) -> list<A>", _sort_by_keys)
    for kind, zero in _ZEROS.items():
        declare(f"(list<{kind}>).sum() -> {kind}", _sum(zero))
    declare("(list<A>).indexOf(A) -> int", _index_of)
    declare("(list<A>).lastIndexOf(A) -> int", _last_index_of)
    declare("(list<A>).slice(int, int) -> list<A>", _slice)
    declare("(list<list<A>>).flatten() -> list<A>", _flatten)
    declare("(list<dyn>).flatten(int) -> list<dyn>", _flatten)
    declare("lists.range(int) -> list<int>", _range)
    declare("(list<A>).reverse() -> list<A>", lambda elements: elements[::-1])
    declare("(list<A>).distinct() -> list<A>", _distinct)
    declare("sets.contains(list<A>, list<A>) -> bool", _contains_all)
    declare("sets.equivalent(list<A>, list<A>) -> bool", _are_equivalent)
    declare("sets.intersects(list<A>, list<A>) -> bool", _intersect)
    declare("cel.@mapInsert(map<K, V>, K, V) -> map<K, V>", _map_insert)
    declare("cel.@mapInsert(map<K, V>, map<K, V>) -> map<K, V>", _map_merge)


def declare_optional_functions(library: Library) -> None:
    declare = library.declare
    declare("optional.of(V) -> optional_type<V>", _some)
    declare("optional.ofNonZeroValue(V) -> optional_type<V>", _some_non_zero)
    declare("optional.none() -> optional_type<V>", lambda: NO_VALUE)
    declare("(optional_type<V>).value() -> V", _value_of)
    declare("(optional_type<V>).hasValue() -> bool", lambda optional: optional.is_set)
    declare("(optional_type<V>).or(optional_type<V>) -> optional_type<V>", _never_called, "optional_or_optional")
    declare("(optional_type<V>).orValue(V) -> V", _never_called, "optional_orValue_value")
    declare("(list<V>).first() -> optional_type<V>", lambda elements: _some(elements[0]) if elements else NO_VALUE)
    declare("(list<V>).last() -> optional_type<V>", lambda elements: _some(elements[-1]) if elements else NO_VALUE)
    declare("optional.unwrap(list<optional_type<V>>) -> list<V>", _unwrap)
    declare("(list<optional_type<V>>).unwrapOpt() -> list<V>", _unwrap)


def _never_called(*arguments: Any) -> Any:
    raise AssertionError("the evaluator implements this function")
