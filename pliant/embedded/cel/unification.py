"""Assignability of types, with type parameters that are bound while an expression is checked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pliant.embedded.cel.types import DYN, Type

Bindings = dict[Type, Type]
"""From type parameters to the types that they stand for."""

_NULLABLE_KINDS = frozenset(("opaque", "struct", "timestamp", "duration"))


def assign(bindings: Bindings, target: Sequence[Type], source: Sequence[Type]) -> Bindings | None:
    """Return extended bindings under which the types are pairwise assignable; None if they are not."""
    extended = dict(bindings)
    return extended if _are_assignable(extended, target, source) else None


def _are_assignable(bindings: Bindings, left: Sequence[Type], right: Sequence[Type]) -> bool:
    return len(left) == len(right) and all(
        _is_assignable(bindings, one, other) for one, other in zip(left, right, strict=True)
    )


def _is_assignable(bindings: Bindings, left: Type, right: Type) -> bool:
    if right.kind == "param":
        is_valid, has_binding = _bind(bindings, left, right)
        if is_valid or has_binding:
            return is_valid
    if left.kind == "param":
        return _bind(bindings, right, left)[0]
    if left.is_dyn or right.is_dyn:
        return True
    if left.kind == "null" or right.kind == "null":
        other = right if left.kind == "null" else left
        return other.kind == "null" or other.kind in _NULLABLE_KINDS
    if left.kind != right.kind:
        return False
    if left.kind in ("list", "map", "opaque"):
        return left.name == right.name and _are_assignable(bindings, left.params, right.params)
    return left.kind == "type" or left.name == right.name


def _bind(bindings: Bindings, bound: Type, parameter: Type) -> tuple[bool, bool]:
    """Return whether the parameter may stand for a type, and whether it was bound before."""
    if bound == parameter:
        return True, True
    current = bindings.get(parameter)
    if current is None:
        if _occurs(bindings, parameter, bound):
            return False, False
        bindings[parameter] = bound
        return True, False
    if bound == current:
        return True, True
    if not _is_assignable(bindings, bound, current):
        return False, True
    general = most_general(bound, current)
    if not _occurs(bindings, parameter, general):
        bindings[parameter] = general
    return True, True


def _occurs(bindings: Bindings, parameter: Type, within: Type) -> bool:
    if parameter == within:
        return True
    if within.kind == "param":
        current = bindings.get(within)
        return current is not None and _occurs(bindings, parameter, current)
    return any(_occurs(bindings, parameter, each) for each in within.params)


def most_general(left: Type, right: Type) -> Type:
    return left if _is_less_specific(left, right) else right


def _is_less_specific(left: Type, right: Type) -> bool:
    if left.is_dyn or left.kind == "param":
        return True
    if right.is_dyn or right.kind == "param" or left.kind != right.kind:
        return False
    if left.kind in ("list", "map", "opaque"):
        pairs = zip(left.params, right.params, strict=False)
        return left.name == right.name and all(_is_less_specific(one, other) for one, other in pairs)
    return left.kind == "type" or left == right


def substitute(bindings: Bindings, value: Type, *, unbound_to_dyn: bool = False) -> Type:
    """Return a type with its parameters replaced by what they are bound to."""
    if value.kind == "param":
        bound = bindings.get(value)
        if bound is not None:
            return substitute(bindings, bound, unbound_to_dyn=unbound_to_dyn)
        return DYN if unbound_to_dyn else value
    if not value.params:
        return value
    params = tuple(substitute(bindings, each, unbound_to_dyn=unbound_to_dyn) for each in value.params)
    return replace(value, params=params)
