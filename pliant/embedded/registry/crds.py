"""CustomResourceDefinitions: the kinds one defines, and the status it gets once they are served."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from functools import lru_cache
from typing import Any, Final

import msgspec

from pliant.embedded.registry.kinds import Kind, ScaleFieldPaths
from pliant.embedded.registry.table_columns import CREATED_COLUMN, NAME_COLUMN, TableColumn, parse_printer_column
from pliant.embedded.schema import Schema, deep_copy
from pliant.errors import InvalidSpec

_FREE_FORM_SCHEMA: Final = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
_PROTECTED_GROUPS: Final = ("apiextensions.k8s.io", "coordination.k8s.io")


def set_crd_name_defaults(crd: dict[str, Any]) -> None:
    """Fill in, in place, the names and the conversion a CRD may leave out."""
    spec = crd["spec"]
    names = spec["names"]
    names.setdefault("singular", names["kind"].lower())
    names.setdefault("listKind", f"{names['kind']}List")
    spec.setdefault("conversion", {"strategy": "None"})


def established_status(crd: Mapping[str, Any], now: datetime) -> dict[str, Any]:
    """The status of a CRD whose kinds are served; conditions that held before keep their time."""
    spec, before = crd["spec"], crd.get("status") or {}
    at = now.strftime("%Y-%m-%dT%H:%M:%SZ")
    old = {condition["type"]: condition for condition in before.get("conditions") or ()}
    conditions = [
        old[kind]
        if old.get(kind, {}).get("status") == "True"
        else {"type": kind, "status": "True", "lastTransitionTime": at, "reason": reason, "message": message}
        for kind, reason, message in (
            ("NamesAccepted", "NoConflicts", "no conflicts found"),
            ("Established", "InitialNamesAccepted", "the initial names have been accepted"),
        )
    ]
    storage = [version["name"] for version in spec["versions"] if version.get("storage")]
    stored = dict.fromkeys([*(before.get("storedVersions") or ()), *storage])
    return {"conditions": conditions, "acceptedNames": deep_copy(spec["names"]), "storedVersions": list(stored)}


def kinds_of(crd: Mapping[str, Any]) -> tuple[Kind, ...]:
    """The served kinds of a CRD; InvalidSpec names the first field that cannot be used."""
    spec = crd["spec"]
    names, group = spec["names"], spec["group"]
    _require_names(crd["metadata"]["name"], group, names["plural"])
    if spec["scope"] not in ("Namespaced", "Cluster"):
        raise InvalidSpec(
            "spec.scope", f'Unsupported value: "{spec["scope"]}": supported values: "Cluster", "Namespaced"'
        )
    versions = spec["versions"]
    if sum(bool(version.get("storage")) for version in versions) != 1:
        raise InvalidSpec("spec.versions", "Invalid value: must have exactly one version marked as storage version")
    if len({version["name"] for version in versions}) != len(versions):
        raise InvalidSpec("spec.versions", "Invalid value: must contain unique version names")
    strategy = (spec.get("conversion") or {}).get("strategy", "None")
    if strategy != "None":
        raise InvalidSpec("spec.conversion.strategy", f'Unsupported value: "{strategy}": supported values: "None"')
    kinds = [_parse_kind(crd, version, f"spec.versions[{index}]") for index, version in enumerate(versions)]
    return tuple(kind for kind, version in zip(kinds, versions, strict=True) if version.get("served"))


def _require_names(name: str, group: str, plural: str) -> None:
    if name != f"{plural}.{group}":
        raise InvalidSpec("metadata.name", f'Invalid value: "{name}": must be spec.names.plural+"."+spec.group')
    if "." not in group:
        raise InvalidSpec("spec.group", f'Invalid value: "{group}": should be a domain with at least one dot')
    if group in _PROTECTED_GROUPS:
        raise InvalidSpec("spec.group", f'Invalid value: "{group}": is served by the cluster itself')


def _parse_kind(crd: Mapping[str, Any], version: Mapping[str, Any], field_path: str) -> Kind:
    spec = crd["spec"]
    names = spec["names"]
    subresources = version.get("subresources") or {}
    scale = subresources.get("scale")
    return Kind(
        group=spec["group"],
        version=version["name"],
        plural=names["plural"],
        singular=names.get("singular") or names["kind"].lower(),
        kind=names["kind"],
        namespaced=spec["scope"] == "Namespaced",
        list_kind=names.get("listKind") or f"{names['kind']}List",
        short_names=tuple(names.get("shortNames") or ()),
        categories=tuple(names.get("categories") or ()),
        subresources=tuple(name for name in ("status", "scale") if subresources.get(name) is not None),
        schema=_parse_schema(spec, version, field_path),
        columns=tuple(_parse_columns(version, field_path)),
        scale=_parse_scale_paths(scale) if scale is not None else None,
        has_status=subresources.get("status") is not None,
        has_generation=True,
        selectable_fields=tuple(f["jsonPath"].lstrip(".") for f in version.get("selectableFields") or ()),
        is_custom=True,
        is_storage_version=bool(version.get("storage")),
    )


def _parse_schema(spec: Mapping[str, Any], version: Mapping[str, Any], field_path: str) -> Schema:
    stated = (version.get("schema") or {}).get("openAPIV3Schema")
    if spec.get("preserveUnknownFields"):
        raise InvalidSpec("spec.preserveUnknownFields", "Invalid value: true: must be false")
    if stated is None:
        raise InvalidSpec(f"{field_path}.schema.openAPIV3Schema", "Required value: schemas are required")
    return _compile_schema(msgspec.json.encode(stated or _FREE_FORM_SCHEMA), f"{field_path}.schema.openAPIV3Schema")


# A definition is read again whenever its status changes, its schema hardly ever.
@lru_cache(maxsize=128)
def _compile_schema(openapi: bytes, field_path: str) -> Schema:
    return Schema.compile(msgspec.json.decode(openapi), field_path=field_path)


def _parse_columns(version: Mapping[str, Any], field_path: str) -> Iterator[TableColumn]:
    yield NAME_COLUMN
    stated = version.get("additionalPrinterColumns")
    if not stated:
        yield CREATED_COLUMN
        return
    for index, column in enumerate(stated):
        try:
            yield parse_printer_column(column)
        except InvalidSpec as problem:
            raise InvalidSpec(f"{field_path}.additionalPrinterColumns[{index}].jsonPath", problem.problem) from problem


def _parse_scale_paths(scale: Mapping[str, Any]) -> ScaleFieldPaths:
    return ScaleFieldPaths(
        spec_replicas=scale["specReplicasPath"],
        status_replicas=scale["statusReplicasPath"],
        label_selector=scale.get("labelSelectorPath") or None,
    )
