"""The definitions of kinds in OpenAPI documents: published ones of built-in kinds, and ones made from schemas."""

from __future__ import annotations

import hashlib
import pkgutil
import re
from collections.abc import Iterable
from typing import Any, Final

import msgspec

from pliant.embedded.registry.kinds import Kind
from pliant.embedded.schema.metadata import with_object_metadata

META_PACKAGE: Final = "io.k8s.apimachinery.pkg.apis.meta.v1"
DELETE_OPTIONS: Final = f"{META_PACKAGE}.DeleteOptions"
GVK_EXTENSION: Final = "x-kubernetes-group-version-kind"
COMPONENTS: Final = "#/components/schemas/"

_OBJECT_META: Final = f"{META_PACKAGE}.ObjectMeta"
_LIST_META: Final = f"{META_PACKAGE}.ListMeta"
_REFERENCE: Final = re.compile(rb'"#/components/schemas/([^"]+)"')
_PACKAGES: Final = {
    "apiextensions.k8s.io": "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions",
    "metrics.k8s.io": "io.k8s.metrics.pkg.apis.metrics",
}

Definitions = dict[str, Any]
"""By full name; those of built-in kinds are encoded (`msgspec.Raw`)."""


class PublishedDefinitions:
    """The definitions that Kubernetes publishes, as encoded schemas."""

    def __init__(self) -> None:
        text = _load_data_file()
        self._encoded = msgspec.json.decode(text, type=_DataFile).definitions

    def __contains__(self, name: str) -> bool:
        return name in self._encoded

    def __getitem__(self, name: str) -> msgspec.Raw:
        return self._encoded[name]

    def select(self, names: Iterable[str]) -> dict[str, msgspec.Raw]:
        """Return definitions, and all definitions to which they refer."""
        selected: dict[str, msgspec.Raw] = {}
        pending = list(names)
        while pending:
            name = pending.pop()
            if name not in selected:
                selected[name] = self._encoded[name]
                pending += [reference.decode() for reference in _REFERENCE.findall(bytes(selected[name]))]
        return selected


class _DataFile(msgspec.Struct):
    definitions: dict[str, msgspec.Raw]


def _load_data_file() -> bytes:
    return pkgutil.get_data("pliant.schemas", "openapi.json") or b""


def published_digest() -> bytes:
    """Return a hash of all published definitions."""
    return hashlib.sha256(_load_data_file()).digest()


def definition_name(kind: Kind) -> str:
    """Return the full name of the definition of a kind, such as io.k8s.api.core.v1.Pod."""
    if kind.is_custom:
        return f"{'.'.join(reversed(kind.group.split('.')))}.{kind.version}.{kind.kind}"
    return builtin_definition_name(kind.group, kind.version, kind.kind)


def builtin_definition_name(group: str, version: str, kind: str) -> str:
    package = _PACKAGES.get(group) or f"io.k8s.api.{group.partition('.')[0] or 'core'}"
    return f"{package}.{version}.{kind}"


def collect_definitions(kinds: Iterable[Kind], referenced: Iterable[str] = ()) -> Definitions:
    """Return the definitions of kinds and their lists, of other names, and all definitions to which these refer."""
    published = PublishedDefinitions()
    kinds = list(kinds)
    roots = {_OBJECT_META, _LIST_META, DELETE_OPTIONS, *(name for name in referenced if name in published)}
    made: Definitions = {}
    for kind in kinds:
        name = definition_name(kind)
        for each, make in ((name, object_schema), (f"{name}List", list_schema)):
            if each in published and not kind.is_custom:
                roots.add(each)
            elif each == name or "list" in kind.verbs:
                made[each] = make(kind)
    selected: Definitions = {**published.select(roots), **made}
    selected[DELETE_OPTIONS] = {
        **msgspec.json.decode(selected[DELETE_OPTIONS]),
        GVK_EXTENSION: _delete_options_gvks(kinds),
    }
    return dict(sorted(selected.items()))


def _delete_options_gvks(kinds: Iterable[Kind]) -> list[dict[str, str]]:
    """Return the group versions whose kinds are deleted with DeleteOptions; the core group always has them."""
    versions = {("", "v1"), *((kind.group, kind.version) for kind in kinds)}
    return [{"group": group, "kind": "DeleteOptions", "version": version} for group, version in sorted(versions)]


def gvk(kind: Kind, name: str | None = None) -> dict[str, str]:
    """Return the value of GVK_EXTENSION for a kind, or for another name in its group and version."""
    return {"group": kind.group, "kind": name or kind.kind, "version": kind.version}


def schema_ref(name: str) -> dict[str, str]:
    return {"$ref": f"{COMPONENTS}{name}"}


def object_schema(kind: Kind) -> dict[str, Any]:
    """Return the definition of a kind from its schema."""
    openapi = kind.schema.openapi if kind.schema is not None else {"x-kubernetes-preserve-unknown-fields": True}
    schema = with_object_metadata(_with_types(openapi))
    schema["properties"]["metadata"] = {"allOf": [schema_ref(_OBJECT_META)]}
    if not schema["required"]:
        del schema["required"]
    return schema | _extensions(kind, kind.kind)


def list_schema(kind: Kind) -> dict[str, Any]:
    """Return the definition of the list of a kind."""
    return {
        "type": "object",
        "required": ["items"],
        "properties": {
            "apiVersion": {"type": "string"},
            "items": {"type": "array", "items": schema_ref(definition_name(kind))},
            "kind": {"type": "string"},
            "metadata": {"allOf": [schema_ref(_LIST_META)]},
        },
        **_extensions(kind, kind.list_kind),
    }


def _extensions(kind: Kind, name: str) -> dict[str, Any]:
    fields = [{"fieldPath": field} for field in kind.selectable_fields]
    selectable = {"x-kubernetes-selectable-fields": fields} if fields else {}
    return {GVK_EXTENSION: [gvk(kind, name)], **selectable}


def _with_types(schema: Any) -> Any:
    """Return a copy of the schema of a CRD, with types of int-or-string fields and metadata of embedded objects."""
    if not isinstance(schema, dict):
        return schema
    copy = dict(schema)
    for keyword in ("items", "additionalProperties"):
        if keyword in schema:
            copy[keyword] = _with_types(schema[keyword])
    if "properties" in schema:
        copy["properties"] = {name: _with_types(child) for name, child in schema["properties"].items()}
    if schema.get("x-kubernetes-int-or-string"):
        copy.setdefault("anyOf", [{"type": "integer"}, {"type": "string"}])
    if schema.get("x-kubernetes-embedded-resource"):
        types = {"kind": {"type": "string"}, "apiVersion": {"type": "string"}}
        copy["properties"] = {**copy.get("properties", {}), **types, "metadata": {"allOf": [schema_ref(_OBJECT_META)]}}
        copy["required"] = [*(name for name in copy.get("required", ()) if name not in types), *types]
    return copy
