"""CustomResourceDefinitions: defaults, validation, the kinds that they define, and their status."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from functools import lru_cache
from typing import Any, Final

import msgspec

from pliant.embedded.registry.crd_fields import find_crd_errors
from pliant.embedded.registry.kinds import Kind, ScaleFieldPaths
from pliant.embedded.registry.tables import DATE_AGE_COLUMN, NAME_COLUMN, TableColumn, parse_printer_column
from pliant.embedded.schema import FieldError, FieldErrorType, Schema, deep_copy
from pliant.embedded.storage.stored_objects import Object
from pliant.errors import InvalidSpec
from pliant.kube.timestamps import format_timestamp

_FREE_FORM_SCHEMA: Final = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
_PROTECTED_GROUPS: Final = ("apiextensions.k8s.io", "coordination.k8s.io")
_CONDITIONS: Final = ("NamesAccepted", "Established")
CRD_CLEANUP_FINALIZER = "customresourcecleanup.apiextensions.k8s.io"


def set_crd_name_defaults(crd: dict[str, Any]) -> None:
    spec = crd["spec"]
    names = spec.setdefault("names", {})
    if names.get("kind"):
        names.setdefault("singular", names["kind"].lower())
        names.setdefault("listKind", f"{names['kind']}List")
    spec.setdefault("conversion", {"strategy": "None"})


def established_status(crd: Mapping[str, Any], now: datetime) -> dict[str, Any]:
    """Return the status of a CRD whose kinds are served; conditions that are already true keep their time."""
    spec, old_status = crd["spec"], crd.get("status") or {}
    timestamp = format_timestamp(now)
    old_conditions = {condition["type"]: condition for condition in old_status.get("conditions") or ()}
    conditions = [
        old_conditions[condition_type]
        if old_conditions.get(condition_type, {}).get("status") == "True"
        else {
            "type": condition_type,
            "status": "True",
            "lastTransitionTime": timestamp,
            "reason": reason,
            "message": message,
        }
        for condition_type, reason, message in (
            ("NamesAccepted", "NoConflicts", "no conflicts found"),
            ("Established", "InitialNamesAccepted", "the initial names have been accepted"),
        )
    ]
    storage = [version["name"] for version in spec["versions"] if version.get("storage")]
    stored = dict.fromkeys([*(old_status.get("storedVersions") or ()), *storage])
    conditions += [each for condition_type, each in old_conditions.items() if condition_type not in _CONDITIONS]
    return {"conditions": conditions, "acceptedNames": deep_copy(spec["names"]), "storedVersions": list(stored)}


def kinds_of_crd(crd: Mapping[str, Any]) -> tuple[Kind, ...]:
    """Return the served kinds of a CRD; raise InvalidSpec for the first invalid field."""
    spec = crd["spec"]
    names, group = spec["names"], spec["group"]
    if not names.get("kind"):
        raise InvalidSpec("spec.names.kind", "Required value")
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
    if name and name != f"{plural}.{group}":
        raise InvalidSpec("metadata.name", f'Invalid value: "{name}": must be spec.names.plural+"."+spec.group')
    if "." not in group:
        raise InvalidSpec("spec.group", f'Invalid value: "{group}": should be a domain with at least one dot')
    if group in _PROTECTED_GROUPS:
        raise InvalidSpec("spec.group", f'Invalid value: "{group}": is reserved for built-in kinds')


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
        columns=_parse_columns(version),
        scale=ScaleFieldPaths(
            spec_replicas=scale["specReplicasPath"],
            status_replicas=scale["statusReplicasPath"],
            label_selector=scale.get("labelSelectorPath") or None,
        )
        if scale is not None
        else None,
        has_status=subresources.get("status") is not None,
        has_generation=True,
        selectable_fields=tuple(f["jsonPath"].lstrip(".") for f in version.get("selectableFields") or ()),
        is_custom=True,
        is_storage_version=bool(version.get("storage")),
    )


def _parse_schema(spec: Mapping[str, Any], version: Mapping[str, Any], field_path: str) -> Schema:
    openapi = (version.get("schema") or {}).get("openAPIV3Schema")
    if spec.get("preserveUnknownFields"):
        raise InvalidSpec("spec.preserveUnknownFields", "Invalid value: true: must be false")
    if openapi is None:
        raise InvalidSpec(f"{field_path}.schema.openAPIV3Schema", "Required value: schemas are required")
    return _compile_schema(msgspec.json.encode(openapi or _FREE_FORM_SCHEMA), f"{field_path}.schema.openAPIV3Schema")


# A CRD is parsed again whenever its status changes; its schema rarely changes.
@lru_cache(maxsize=128)
def _compile_schema(openapi: bytes, field_path: str) -> Schema:
    return Schema.compile(msgspec.json.decode(openapi), field_path=field_path)


def _parse_columns(version: Mapping[str, Any]) -> tuple[TableColumn, ...]:
    """Return the printer columns of a version; as in Kubernetes, the default ones if a path cannot be read."""
    definitions = version.get("additionalPrinterColumns")
    if not definitions:
        return (NAME_COLUMN, DATE_AGE_COLUMN)
    try:
        return (NAME_COLUMN, *(parse_printer_column(definition) for definition in definitions))
    except InvalidSpec:
        return (NAME_COLUMN, DATE_AGE_COLUMN)


def apply_crd_defaults(crd: Object, old: Object | None) -> None:
    """Set default names, and the stored versions of a status without any."""
    set_crd_name_defaults(crd)
    status = crd.get("status")
    if status is not None and not status.get("storedVersions"):
        stored = [version.get("name") or "" for version in crd["spec"].get("versions") or () if version.get("storage")]
        status["storedVersions"] = stored[:1]


def add_cleanup_finalizer(metadata: Object) -> None:
    """Keep a CRD that is deleted until its objects are deleted."""
    finalizers = metadata.get("finalizers") or []
    if CRD_CLEANUP_FINALIZER not in finalizers:
        metadata["finalizers"] = [*finalizers, CRD_CLEANUP_FINALIZER]


def validate_crd(crd: Object, old: Object | None) -> list[FieldError]:
    """Return the errors of a CRD, or the first one that prevents its kinds from being served here."""
    if errors := find_crd_errors(crd, old):
        return errors
    try:
        kinds_of_crd(crd)
    except InvalidSpec as error:
        return [FieldError(error.field, FieldErrorType.INVALID.cause, error.problem)]
    return []
