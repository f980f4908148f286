"""Strategic merge patch, which merges the lists of built-in kinds by a key of their items."""

from __future__ import annotations

from typing import Any, Final

from pliant.embedded.schema import deep_copy
from pliant.errors import BadRequest

_MERGE_KEYS: Final[dict[str, tuple[str, ...]]] = {
    **dict.fromkeys(("containers", "initContainers", "ephemeralContainers", "env", "volumes"), ("name",)),
    **dict.fromkeys(("imagePullSecrets", "resourceClaims", "schedulingGates", "secrets"), ("name",)),
    **dict.fromkeys(("addresses", "conditions"), ("type",)),
    **dict.fromkeys(("hostAliases", "podIPs"), ("ip",)),
    "ownerReferences": ("uid",),
    "ports": ("containerPort", "port"),
    "topologySpreadConstraints": ("topologyKey",),
    "volumeDevices": ("devicePath",),
    "volumeMounts": ("mountPath",),
}
"""The merge keys of a list field; the first one that the items have is used."""
_SET_LIST_FIELDS: Final = frozenset({"finalizers"})
"""Lists of primitive values, to which a patch adds values."""
_REMOVED: Final = object()


def apply_strategic_merge(target: dict[str, Any], patch: dict[str, Any]) -> dict[str, Any]:
    """Return a patched copy."""
    result = _merge_object(target, patch)
    return {} if result is _REMOVED else result


def _merge_object(target: dict[str, Any], patch: dict[str, Any]) -> Any:
    directive = patch.get("$patch", "merge")
    if directive == "delete":
        return _REMOVED
    if directive not in ("merge", "replace"):
        raise BadRequest(400, "BadRequest", f"unknown patch type: {directive} in map: {patch}")
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
    """Apply `$deleteFromPrimitiveList`; `$setElementOrder` is accepted and ignored."""
    name, _, field = directive.partition("/")
    if name == "$deleteFromPrimitiveList" and field in result:
        result[field] = [entry for entry in result[field] if entry not in value]
    elif name not in ("$patch", "$retainKeys", "$setElementOrder", "$deleteFromPrimitiveList"):
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
    """Return the merge key of a list, or None if the patch replaces the list as a whole."""
    if not all(isinstance(item, dict) for item in items):
        return None
    return next((key for key in _MERGE_KEYS.get(name, ()) if any(key in item for item in items)), None)


def _merge_list(before: list[Any], patch: list[Any], key: str) -> list[Any]:
    if any(item.get("$patch") == "replace" for item in patch):
        return [deep_copy(item) for item in patch if "$patch" not in item]
    result = [deep_copy(item) for item in before]
    for item in patch:
        if key not in item:
            raise BadRequest(400, "BadRequest", f"map: {item} does not contain declared merge key: {key}")
        index = next((index for index, old in enumerate(result) if old.get(key) == item[key]), None)
        merged = _merge_object(result[index] if index is not None else {}, item)
        if index is None:
            result += [] if merged is _REMOVED else [merged]
        elif merged is _REMOVED:
            del result[index]
        else:
            result[index] = merged
    return result
