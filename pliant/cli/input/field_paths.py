"""Where the fields that commands change are, in whatever kind a job is written."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from typing import Any

from pliant.errors import InvalidSpec, UserError
from pliant.frontends.frontend import Frontend

FieldPath = tuple[str, ...]


def suspend_path(frontend: Frontend) -> FieldPath:
    """The field by which a kind is suspended; raises `UserError` if it cannot be."""
    if not frontend.run_policy_path:
        raise UserError(f"a {frontend.kind} cannot be suspended")
    return (*frontend.run_policy_path.split("."), "suspend")


def scale_path(frontend: Frontend) -> FieldPath | None:
    """The field that the scale subresource of a kind writes; None if it has none."""
    [version] = [each for each in frontend.crd()["spec"]["versions"] if each["name"] == frontend.version]
    paths = (version.get("subresources") or {}).get("scale")
    return tuple(str(paths["specReplicasPath"]).strip(".").split(".")) if paths else None


def replicas_path(raw: Mapping[str, Any], group_name: str) -> FieldPath:
    """The field that holds the size of a group; raises `UserError` if the object has no such group."""
    for path, value in _nested_mappings(raw.get("spec"), ("spec",)):
        if path[-1].lower() == group_name.lower() and "template" in value:
            return (*path, "replicas")
    raise UserError(f"the size of `{group_name}` is not written in a field of its own; edit the job")


def with_field(raw: Mapping[str, Any], path: FieldPath, value: Any) -> dict[str, Any]:
    """The object with one field set."""
    whole = copy.deepcopy(dict(raw))
    node = whole
    for name in path[:-1]:
        node = node.setdefault(name, {})
    node[path[-1]] = value
    return whole


def merge_patch(path: FieldPath, value: Any) -> dict[str, Any]:
    """The merge patch that sets one field."""
    patch: Any = value
    for name in reversed(path):
        patch = {name: patch}
    return dict(patch)


def check_edit(frontend: Frontend, raw: Mapping[str, Any]) -> None:
    """Refuse an edit after which the operator would not understand the job."""
    try:
        frontend.parse(raw)
    except InvalidSpec as problem:
        raise UserError(f"cannot be done: {problem}") from None


def _nested_mappings(value: Any, path: FieldPath) -> Iterator[tuple[FieldPath, Mapping[str, Any]]]:
    """Every mapping below, with its path; templates are not looked into."""
    if not isinstance(value, Mapping):
        return
    for key, item in value.items():
        if isinstance(item, Mapping) and key != "template":
            yield (*path, str(key)), item
            yield from _nested_mappings(item, (*path, str(key)))
