"""Locates and sets the fields that commands change, in jobs of any kind."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from typing import Any

from pliant.errors import InvalidSpec, UserError
from pliant.frontends.frontend import Frontend

FieldPath = tuple[str, ...]


def suspend_path(frontend: Frontend) -> FieldPath:
    """Return the path of the suspend field; raise UserError if the kind has none."""
    if not frontend.run_policy_path:
        raise UserError(f"{frontend.kind} does not support suspend")
    return (*frontend.run_policy_path.split("."), "suspend")


def scale_replicas_path(frontend: Frontend) -> FieldPath | None:
    """Return the field of the scale subresource of a kind; None if it has none."""
    [version] = [version for version in frontend.crd()["spec"]["versions"] if version["name"] == frontend.version]
    paths = (version.get("subresources") or {}).get("scale")
    return tuple(str(paths["specReplicasPath"]).strip(".").split(".")) if paths else None


def group_replicas_path(raw: Mapping[str, Any], group_name: str) -> FieldPath:
    """Return the path of the replicas field of a group; raise UserError if the job has none."""
    for path, value in _nested_mappings(raw.get("spec"), ("spec",)):
        if path[-1].lower() == group_name.lower() and "template" in value:
            return (*path, "replicas")
    raise UserError(f"the job has no field for the replicas of `{group_name}`; edit the job")


def with_field(raw: Mapping[str, Any], path: FieldPath, value: Any) -> dict[str, Any]:
    """Return a copy of the object with one field set."""
    result = copy.deepcopy(dict(raw))
    node = result
    for name in path[:-1]:
        node = node.setdefault(name, {})
    node[path[-1]] = value
    return result


def merge_patch_for_field(path: FieldPath, value: Any) -> dict[str, Any]:
    patch: Any = value
    for name in reversed(path):
        patch = {name: patch}
    return dict(patch)


def check_edited_job(frontend: Frontend, raw: Mapping[str, Any]) -> None:
    """Raise UserError if the operator would reject the edited job."""
    try:
        frontend.parse(raw, frontend.load_state(raw))
    except InvalidSpec as error:
        raise UserError(f"the edited job would be invalid: {error}") from None


def _nested_mappings(value: Any, path: FieldPath) -> Iterator[tuple[FieldPath, Mapping[str, Any]]]:
    """Yield every mapping below with its path, except inside pod templates."""
    if not isinstance(value, Mapping):
        return
    for key, item in value.items():
        if isinstance(item, Mapping) and key != "template":
            yield (*path, str(key)), item
            yield from _nested_mappings(item, (*path, str(key)))
