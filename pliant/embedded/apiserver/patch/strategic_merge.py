"""Strategic merge patches: lists of built-in kinds are merged item by item, told apart by a key."""

from __future__ import annotations

from typing import Any, Final

from pliant.embedded.schema import deep_copy
from pliant.errors import BadRequest

_MERGE_KEYS: Final[dict[str, tuple[str, ...]]] = {
    "addresses": ("type",),
    "conditions": ("type",),
    "containers": ("name",),
    "env": ("name",),
    "ephemeralContainers": ("name",),
    "hostAliases": ("ip",),
    "imagePullSecrets": ("name",),
    "initContainers": ("name",),
    "ownerReferences": ("uid",),
    "podIPs": ("ip",),
    "ports": ("containerPort", "port"),
    "resourceClaims": ("name",),
    "schedulingGates": ("name",),
    "secrets": ("name",),
    "topologySpreadConstraints": ("topologyKey",),
    "volumeDevices": ("devicePath",),
    "volumeMounts": ("mountPath",),
    "volumes": ("name",),
}
"""By field: the member that names an item; the first that the items have."""

_SET_LIST_FIELDS: Final = frozenset({"finalizers"})
"""Lists of plain values to which a patch adds."""

_REMOVED: Final = object()


def apply_strategic_merge(target: dict[str, Any], patch: dict[str, Any]) -> dict[str, Any]:
    """The target with the patch merged in; shares nothing with either."""
    result = _merge_object(target, patch)
    return {} if result is _REMOVED else result


def _merge_object(target: dict[str, Any], patch: dict[str, Any]) -> Any:
    directive = patch.get("$patch", "merge")
    if directive == "delete":
        return _REMOVED
    if directive not in ("merge", "replace"):
        raise BadRequest(400, "BadRequest", f"unknown $patch directive {directive!r}")
    base = target if directive == "merge" else {}
    result = {name: deep_copy(value) for name, value in base.items()}
    for name, value in patch.items():
        if name.startswith("$"):
            _apply_directive(result, name, value)
        elif (member := _merge_field(name, base.get(name), value)) is _REMOVED:
            result.pop(name, None)
        else:
            result[name] = member
    if "$retainKeys" in patch:
        return {name: value for name, value in result.items() if name in patch["$retainKeys"]}
    return result


def _apply_directive(result: dict[str, Any], directive: str, value: Any) -> None:
    """Directives beside `$patch` and `$retainKeys`; the order of elements is left as it is."""
    word, _, field = directive.partition("/")
    if word == "$deleteFromPrimitiveList" and field in result:
        result[field] = [entry for entry in result[field] if entry not in value]
    elif word not in ("$patch", "$retainKeys", "$setElementOrder", "$deleteFromPrimitiveList"):
        raise BadRequest(400, "BadRequest", f"unknown directive {directive!r}")


def _merge_field(name: str, current: Any, value: Any) -> Any:
    if value is None:
        return _REMOVED
    if isinstance(value, dict):
        return _merge_object(current if isinstance(current, dict) else {}, value)
    if not isinstance(value, list):
        return value
    before = current if isinstance(current, list) else []
    if name in _SET_LIST_FIELDS:
        return [*before, *(entry for entry in value if entry not in before)]
    key = _find_merge_key(name, [*value, *before])
    return _merge_list(before, value, key) if key else deep_copy(value)


def _find_merge_key(name: str, items: list[Any]) -> str | None:
    """The member that names the items, or None for lists that are replaced as a whole."""
    if not all(isinstance(item, dict) for item in items):
        return None
    return next((key for key in _MERGE_KEYS.get(name, ()) if any(key in item for item in items)), None)


def _merge_list(before: list[Any], patch: list[Any], key: str) -> list[Any]:
    if any(item.get("$patch") == "replace" for item in patch):
        return [deep_copy(item) for item in patch if "$patch" not in item]
    result = [deep_copy(item) for item in before]
    for item in patch:
        if key not in item:
            raise BadRequest(400, "BadRequest", f"a list merged by {key!r} has an item without it")
        place = next((index for index, old in enumerate(result) if old.get(key) == item[key]), None)
        merged = _merge_object(result[place] if place is not None else {}, item)
        if place is None:
            result += [] if merged is _REMOVED else [merged]
        elif merged is _REMOVED:
            del result[place]
        else:
            result[place] = merged
    return result
