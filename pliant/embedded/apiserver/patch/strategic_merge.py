"""Strategic merge patch, which merges the lists of built-in kinds by a key of their items."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from pliant.embedded.apiserver.http.errors import unexpected_error
from pliant.embedded.apiserver.patch.merge_strategies import FieldStrategy, find_strategy, root_definition
from pliant.embedded.apiserver.protobuf.typed_values import ConvertedInt
from pliant.embedded.schema import deep_copy
from pliant.errors import BadRequest, Invalid

_REMOVED: Final = object()
_ORDER: Final = "$setElementOrder/"
_DELETE: Final = "$deleteFromPrimitiveList/"
_RAW_OBJECT: Final = "io.k8s.apimachinery.pkg.runtime.RawExtension"
"""The definition of objects of any type, whose objects and lists cannot be merged."""

Object = dict[str, Any]


def apply_strategic_merge(target: Object, patch: Object) -> Object:
    """Return a patched copy."""
    return _merge_object(target, patch, root_definition(target))


def _merge_object(target: Object, patch: Object, definition: str) -> Object:
    """Merge in the order of Kubernetes: fields to retain, values, orders of lists, values to delete from lists."""
    if "$patch" in patch:
        return _replace_object(patch)
    result = {name: deep_copy(value) for name, value in _retained_fields(target, patch).items()}
    for name, value in patch.items():
        if _is_directive(name, value):
            continue
        if definition == _RAW_OBJECT and isinstance(value, dict | list) and type(value) is type(result.get(name)):
            raise unexpected_error(f"unable to find api field in struct RawExtension for the json field {name!r}")
        member = _merge_field(result.get(name), value, find_strategy(definition, name))
        if member is _REMOVED:
            result.pop(name, None)
        else:
            result[name] = member
    for name, value in patch.items():
        if name.startswith(_ORDER):
            field = name.removeprefix(_ORDER)
            strategy = find_strategy(definition, field)
            _require_same_order(patch.get(field) or [], value, strategy.key)
            _order_field(
                result, field, value, _server_order(target.get(field), patch.get(field), strategy.key), strategy
            )
    for name, value in patch.items():
        field = name.removeprefix(_DELETE)
        if field != name and isinstance(value, list) and isinstance(result.get(field), list):
            result[field] = [entry for entry in result[field] if entry not in value]
    return result


def _replace_object(patch: Object) -> Object:
    """Return what replaces an object: nothing if the directive deletes it, an empty object stays."""
    if patch["$patch"] == "delete":
        return {}
    if patch["$patch"] != "replace":
        raise unexpected_error(f"unknown patch type: {patch['$patch']} in map: {patch}")
    return {name: deep_copy(value) for name, value in patch.items() if name != "$patch"}


def _retained_fields(target: Object, patch: Object) -> Object:
    """Return the fields that `$retainKeys` names, or all fields without this directive."""
    if "$retainKeys" not in patch:
        return target
    retained = patch["$retainKeys"]
    changed = [name for name, value in patch.items() if value is not None and not name.startswith("$")]
    if not isinstance(retained, list):
        raise BadRequest(400, "BadRequest", "invalid patch format of retainKeys")
    if any(name not in retained for name in changed):
        raise BadRequest(400, "BadRequest", "patch content doesn't match retainKeys list")
    return {name: value for name, value in target.items() if name in retained}


def _is_directive(name: str, value: Any) -> bool:
    """Raise an error for an order that is not a list; API servers take unknown directives for fields."""
    if name.startswith(_ORDER) and not isinstance(value, list):
        raise unexpected_error("invalid patch format of setElementOrder list")
    return name == "$retainKeys" or name.startswith((_ORDER, _DELETE))


def _merge_field(current: Any, value: Any, strategy: FieldStrategy) -> Any:
    if value is None:
        return _REMOVED
    if isinstance(value, dict) and isinstance(current, dict):
        return deep_copy(value) if strategy.is_replaced else _merge_object(current, value, strategy.definition)
    if not isinstance(value, list) or not isinstance(current, list):
        return _without_directives(value)
    return _merge_lists(current, value, strategy) if strategy.is_merged and (current or value) else deep_copy(value)


def _merge_lists(current: list[Any], value: list[Any], strategy: FieldStrategy) -> list[Any]:
    if isinstance([*current, *value][0], list):
        raise Invalid(422, "Invalid", "lists of lists are not supported")
    if len({int if type(item) is ConvertedInt else type(item) for item in (*current, *value)}) > 1:
        raise unexpected_error("the items of a list must have the same type")
    if any(isinstance(item, dict) for item in (*current, *value)):
        return _merge_list(current, value, strategy)
    merged = [*current, *value]
    return _in_order([item for index, item in enumerate(merged) if item not in merged[:index]], value, current, "")


def _without_directives(value: Any, *, drops_nulls: bool = True) -> Any:
    """Return a copy of a value that is new: without the parts to delete."""
    if isinstance(value, list):
        copies = [_without_directives(item, drops_nulls=False) for item in value]
        return [item for item in copies if item is not _REMOVED]
    if not isinstance(value, dict):
        return value
    if "$patch" in value:
        return _REMOVED
    fields = {
        name: _without_directives(child, drops_nulls=drops_nulls)
        for name, child in value.items()
        if child is not None or not drops_nulls
    }
    return {name: child for name, child in fields.items() if child is not _REMOVED}


def _merge_list(before: list[Any], patch: list[Any], strategy: FieldStrategy) -> list[Any]:
    """Merge the items of two lists that have the same key; new items are taken as they are."""
    key = strategy.key
    _require_key(patch, key, allow_replace=True)
    changes = [item for item in patch if "$patch" not in item]
    if unknown := [item for item in patch if item.get("$patch", "delete") not in ("delete", "replace")]:
        raise unexpected_error(f"unknown patch type: {unknown[0]['$patch']} in map: {unknown[0]}")
    if any(item.get("$patch") == "replace" for item in patch):
        return [deep_copy(item) for item in changes]
    _require_key(before, key)
    deleted = [item[key] for item in patch if "$patch" in item]
    result = [item for item in before if item[key] not in deleted]
    for item in changes:
        index = next((index for index, old in enumerate(result) if old[key] == item[key]), None)
        if index is None:
            result.append(deep_copy(item))
        else:
            result[index] = _merge_object(result[index], item, strategy.definition)
    return _in_order(result, changes, before, key)


def _require_same_order(patch: list[Any], order: list[Any], key: str) -> None:
    """Raise an error if a patch names items in another order than its directive, or items that this leaves out."""
    if not isinstance(patch, list) or not patch or not order:
        return
    positions = _positions(order, key)
    changes = [item for item in patch if not (isinstance(item, dict) and "$patch" in item)]
    found = [positions.get(_identity(item, key), -1) for item in changes]
    if -1 in found or found != sorted(found):
        message = f"The order in patch list:\n{patch}\n doesn't match $setElementOrder list:\n{order}\n"
        raise unexpected_error(message)


def _server_order(before: Any, patch: Any, key: str) -> list[Any]:
    """Return the items in the order that Kubernetes compares, in which new items take the places of deleted ones."""
    if not isinstance(before, list):
        return []
    if not key or not isinstance(patch, list) or not all(isinstance(item, dict) for item in patch):
        return before
    deleted = {_identity(item, key) for item in patch if item.get("$patch") == "delete"}
    remaining = [item for item in before if _identity(item, key) not in deleted]
    known = _positions(before, key)
    added = [item for item in patch if "$patch" not in item and _identity(item, key) not in known]
    return remaining + added[: len(before) - len(remaining)]


def _order_field(result: Object, field: str, order: list[Any], before: list[Any], strategy: FieldStrategy) -> None:
    """Sort a list as the patch requires; items that only the server has keep their place among the others."""
    items = result.get(field)
    if isinstance(items, list) and strategy.is_merged:
        has_objects = any(isinstance(item, dict) for item in items)
        if has_objects:
            _require_key([*items, *order], strategy.key)
        result[field] = _in_order(items, order, before, strategy.key if has_objects else "")


def _in_order(items: list[Any], order: list[Any], before: list[Any], key: str) -> list[Any]:
    """Return items in an order; those that it does not name are inserted where they were before."""
    positions = _positions(order, key)
    named = sorted(
        (item for item in items if _identity(item, key) in positions), key=lambda each: positions[_identity(each, key)]
    )
    others = [item for item in items if _identity(item, key) not in positions]
    old = _positions(before, key)
    others.sort(key=lambda each: old.get(_identity(each, key), len(old)))
    result: list[Any] = []
    while others and named:
        other, next_named = old.get(_identity(others[0], key)), old.get(_identity(named[0], key))
        is_first = other is not None and next_named is not None and other < next_named
        result.append((others if is_first else named).pop(0))
    return result + others + named


def _positions(items: Iterable[Any], key: str) -> dict[Any, int]:
    positions: dict[Any, int] = {}
    for index, item in enumerate(items):
        positions.setdefault(_identity(item, key), index)
    return positions


def _identity(item: Any, key: str) -> Any:
    """Return what identifies an item of a list: the value of its key, or the item itself."""
    value = item.get(key) if key and isinstance(item, dict) else item
    return value if isinstance(value, str | int | float | None) else repr(value)


def _require_key(items: list[Any], key: str, *, allow_replace: bool = False) -> None:
    for item in items:
        if not isinstance(item, dict):
            raise unexpected_error(f"expected a map, but received {item!r}")
        if key not in item and not (allow_replace and item.get("$patch") == "replace"):
            raise unexpected_error(f"map: {item} does not contain declared merge key: {key}")
