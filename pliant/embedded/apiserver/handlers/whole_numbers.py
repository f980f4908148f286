"""Whole numbers with a fraction, such as 2.0, in custom objects: a write reads them as floats and stores integers."""

from __future__ import annotations

from typing import Any

import msgspec

from pliant.embedded.apiserver.protobuf.typed_values import is_int64, to_float_digits

_MAX_WHOLE_NUMBER = 1e18
_encode = msgspec.json.Encoder(order="deterministic").encode


def to_stored_numbers(value: Any) -> None:
    """Replace whole numbers with a fraction by integers, and large integers by floats, in place, as Go writes them."""
    _convert_numbers(value, keeps_floats=False)


def read_large_numbers(value: Any) -> None:
    """Replace integers of more than 64 bits in place, as Go reads them."""
    _convert_numbers(value, keeps_floats=True)


def are_same_values(value: Any, other: Any) -> bool:
    """Return whether two JSON values are equal; 1, 1.0 and true are not."""
    return bool(value == other) and _encode(value) == _encode(other)


def _convert_numbers(value: Any, *, keeps_floats: bool) -> None:
    members = value.items() if type(value) is dict else enumerate(value) if type(value) is list else ()
    for key, member in members:  # assigning to an existing key changes no size
        kind = type(member)
        if kind is dict or kind is list:
            _convert_numbers(member, keeps_floats=keeps_floats)
        elif kind is float and not keeps_floats and member.is_integer() and abs(member) < _MAX_WHOLE_NUMBER:
            value[key] = int(member)
        elif kind is int and not is_int64(member):
            value[key] = to_float_digits(member)
