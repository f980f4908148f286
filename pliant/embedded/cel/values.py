"""Values of expressions that Python has no type for, their equality and order, and the errors of evaluation.

bool, int, double, string, bytes, null, list and map are bool, int, float, str, bytes, None, list and dict.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol

from pliant.embedded.cel import types
from pliant.embedded.cel.types import Type


class EvaluationError(Exception):
    """An expression has no value, for example because a key is missing."""


class CostLimitError(Exception):
    """The evaluation costs more than its limit; logical operators do not absorb this error."""

    def __init__(self) -> None:
        super().__init__("operation cancelled: actual cost limit exceeded")


class UInt(int):
    """An unsigned integer, which is a type of its own."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Duration:
    nanoseconds: int


@dataclass(frozen=True, slots=True)
class Timestamp:
    nanoseconds: int
    """Since 1970."""


@dataclass(frozen=True, slots=True)
class OptionalValue:
    is_set: bool
    value: Any = None


NO_VALUE: Final = OptionalValue(False)


class ObjectFields(Protocol):
    """The fields of an object that expressions can read."""

    @property
    def json_names(self) -> Mapping[str, str]:
        """The names in the object, by the names in expressions."""

    def convert(self, name: str, value: Any) -> Any:
        """Return the value of a field."""


class ObjectValue(Mapping[str, Any]):
    """An object with declared fields, whose values are converted when they are first read."""

    __slots__ = ("_converted", "_fields", "raw", "type")

    def __init__(self, raw: Mapping[str, Any], fields: ObjectFields, object_type: Type) -> None:
        self.raw = raw
        self.type = object_type
        self._fields = fields
        self._converted: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        try:
            return self._converted[name]
        except KeyError:
            value = self.raw.get(self._fields.json_names[name])
            if value is None:
                raise  # kube-apiserver treats a null field as absent
            value = self._converted[name] = self._fields.convert(name, value)
            return value

    def __contains__(self, name: object) -> bool:
        json_name = self._fields.json_names.get(name) if isinstance(name, str) else None
        return json_name is not None and self.raw.get(json_name) is not None

    def has_equal_unknown_fields(self, other: ObjectValue) -> bool:
        """Return whether two objects have the same type, and the same fields that expressions cannot read."""
        known = set(self._fields.json_names.values())
        unknown = [{name: raw[name] for name in raw.keys() - known} for raw in (self.raw, other.raw)]
        return self.type == other.type and unknown[0] == unknown[1]

    def __iter__(self) -> Any:
        return (name for name, json_name in self._fields.json_names.items() if self.raw.get(json_name) is not None)

    def __len__(self) -> int:
        return sum(1 for _ in self)


class SetList(list[Any]):
    """A list of x-kubernetes-list-type set: the order does not matter for equality."""

    __slots__ = ()


class MapList(list[Any]):
    """A list of x-kubernetes-list-type map: elements with the same keys are the same element."""

    __slots__ = ("keys",)

    def __init__(self, elements: list[Any], keys: tuple[str, ...]) -> None:
        super().__init__(elements)
        self.keys = keys

    def key_of(self, element: Any) -> tuple[Any, ...]:
        return tuple(element.get(key) for key in self.keys)


_TYPES_BY_CLASS: Final[dict[type, Type]] = {
    bool: types.BOOL,
    int: types.INT,
    UInt: types.UINT,
    float: types.DOUBLE,
    str: types.STRING,
    bytes: types.BYTES,
    type(None): types.NULL,
    Duration: types.DURATION,
    Timestamp: types.TIMESTAMP,
    Type: types.TYPE,
    **dict.fromkeys((list, SetList, MapList), types.NAMED_TYPES["list"]),
    dict: types.NAMED_TYPES["map"],
    OptionalValue: types.NAMED_TYPES["optional_type"],
}


def register_value_class(value_class: type, value_type: Type) -> None:
    """Declare the type of the values of a class, such as quantities."""
    _TYPES_BY_CLASS[value_class] = value_type


def type_of_value(value: Any) -> Type:
    if type(value) is ObjectValue:
        return value.type
    return _TYPES_BY_CLASS[type(value)]


def has_type(value: Any, expected: Type) -> bool:
    """Return whether a value may be passed for a parameter; the types of elements are not compared."""
    if expected.kind in ("dyn", "param"):
        return True
    actual = type_of_value(value)
    if expected.kind == "map" and type(value) is ObjectValue:
        return True
    return actual.kind == expected.kind and (actual.kind not in ("struct", "opaque") or actual.name == expected.name)


def no_such_overload() -> EvaluationError:
    return EvaluationError("no such overload")


_NUMBERS: Final = (int, float, UInt)


def are_equal(left: Any, right: Any) -> bool:
    """Return whether two values are equal: numbers by their value, other values only if they have the same type."""
    left_class, right_class = type(left), type(right)
    if left_class in _NUMBERS and right_class in _NUMBERS:
        return bool(left == right)
    if isinstance(left, list) and isinstance(right, list):
        return _are_lists_equal(left, right)
    if isinstance(left, Mapping) and isinstance(right, Mapping):
        if left_class is not right_class:
            return False
        if isinstance(left, ObjectValue) and isinstance(right, ObjectValue):
            return left.has_equal_unknown_fields(right) and _are_maps_equal(left, right)
        return _are_maps_equal(left, right)
    if left_class is not right_class:
        return False
    if left_class is OptionalValue:
        return left.is_set == right.is_set and are_equal(left.value, right.value)
    if left_class is Type:
        return bool(left.name == right.name)
    return bool(left == right)


def _are_lists_equal(left: list[Any], right: list[Any]) -> bool:
    if len(left) != len(right):
        return False
    if isinstance(left, SetList):
        return all(contains(right, element) for element in left) and all(contains(left, each) for each in right)
    if isinstance(left, MapList):
        others = {hashable(left.key_of(element)): element for element in right}
        missing = object()
        return all(are_equal(element, others.get(hashable(left.key_of(element)), missing)) for element in left)
    return all(map(are_equal, left, right))


def _are_maps_equal(left: Mapping[Any, Any], right: Mapping[Any, Any]) -> bool:
    if len(left) != len(right):
        return False
    for key in left:
        found = find_key(right, key)
        if not found.is_set or not are_equal(left[key], found.value):
            return False
    return True


def hashable(value: Any) -> Any:
    """Return a key by which equal scalars are found in a set; a bool is not the number 1."""
    if type(value) is tuple:
        return tuple(map(hashable, value))
    if type(value) is bool or not isinstance(value, (*_NUMBERS, str, bytes)):
        return (type(value), repr(value))
    return value


def contains(elements: list[Any], value: Any) -> bool:
    if type(value) is str:
        return value in elements
    return any(are_equal(value, element) for element in elements)


def find_key(mapping: Mapping[Any, Any], key: Any) -> OptionalValue:
    """Return the value of a key, for which numbers of any type are equal."""
    key_class = type(key)
    if key_class is not str and key_class is not bool and key_class not in _NUMBERS:
        raise EvaluationError("unsupported key type") if key_class is not Type else no_such_overload()
    if key in mapping and not (isinstance(mapping, dict) and _has_other_bool(mapping, key)):
        return OptionalValue(True, mapping[key])
    return NO_VALUE


def _has_other_bool(mapping: dict[Any, Any], key: Any) -> bool:
    """Return whether `key` was found only because True is 1 in Python."""
    if type(key) is str:
        return False
    return not any(each == key and (type(each) is bool) == (type(key) is bool) for each in mapping)


def compare(left: Any, right: Any) -> int:
    """Return -1, 0 or 1; raise EvaluationError for values without a common order."""
    left_class, right_class = type(left), type(right)
    if left_class in _NUMBERS and right_class in _NUMBERS:
        if left != left or right != right:
            raise EvaluationError("NaN values cannot be ordered")
    elif left_class is not right_class or left_class not in _ORDERED:
        raise no_such_overload()
    elif left_class in (Duration, Timestamp):
        left, right = left.nanoseconds, right.nanoseconds
    return int(left > right) - int(left < right)


_ORDERED: Final = (bool, str, bytes, Duration, Timestamp)


def size_of(value: Any) -> int:
    """Return the size by which operations are charged."""
    if isinstance(value, (str, bytes, list, dict)):
        return len(value)
    if type(value) is ObjectValue:
        return len(value.raw)
    if type(value) is OptionalValue and value.is_set:
        return size_of(value.value)
    return 1
