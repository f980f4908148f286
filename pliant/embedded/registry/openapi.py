"""OpenAPI v3 documents of the served kinds: an index with content hashes, and a document per group and version."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Any, Final

from pliant.embedded.registry.kind_registry import KindRegistry
from pliant.embedded.registry.kinds import Kind
from pliant.embedded.schema import Schema
from pliant.embedded.schema.metadata import with_object_metadata
from pliant.kube.transport.base import JSON_CONTENT_TYPE, JSON_PATCH, MERGE_PATCH
from pliant.schemas import load_kubernetes_schema

_OBJECT_META: Final = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
_LIST_META: Final = "io.k8s.apimachinery.pkg.apis.meta.v1.ListMeta"
_CORE_PACKAGES: Final = {
    "": "io.k8s.api.core",
    "autoscaling": "io.k8s.api.autoscaling",
    "coordination.k8s.io": "io.k8s.api.coordination",
    "events.k8s.io": "io.k8s.api.events",
    "apiextensions.k8s.io": "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions",
}
_WRITE_PARAMETERS: Final = ("dryRun", "fieldManager", "fieldValidation")


def openapi_index(registry: KindRegistry) -> dict[str, Any]:
    """Return the response to /openapi/v3: the URL of each document, with a hash of its content."""
    kinds_by_path: dict[str, list[Kind]] = {}
    for kind in registry.kinds():
        kinds_by_path.setdefault(_group_version_path(kind.group, kind.version), []).append(kind)
    return {
        "paths": {
            path: {"serverRelativeURL": f"/openapi/v3/{path}?hash={_content_hash(kinds)}"}
            for path, kinds in sorted(kinds_by_path.items())
        }
    }


def openapi_document(registry: KindRegistry, group: str, version: str) -> dict[str, Any] | None:
    """Return the OpenAPI document of one group and version; None if it is not served."""
    kinds = [kind for kind in registry.kinds() if kind.group == group and kind.version == version]
    if not kinds:
        return None
    scale = _scale_kind()
    schemas: dict[str, Any] = {
        _OBJECT_META: load_kubernetes_schema("ObjectMeta"),
        _LIST_META: load_kubernetes_schema("ListMeta"),
    }
    paths: dict[str, Any] = {}
    for kind in sorted(kinds, key=lambda kind: kind.plural):
        schemas[_component_name(kind)] = _object_schema(kind)
        schemas[f"{_component_name(kind)}List"] = _list_schema(kind)
        paths |= _path_items(kind, scale)
        if kind.scale is not None:
            schemas[_component_name(scale)] = _object_schema(scale)
    return {
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes", "version": "unversioned"},
        "paths": paths,
        "components": {"schemas": schemas},
    }


def _group_version_path(group: str, version: str) -> str:
    return f"apis/{group}/{version}" if group else f"api/{version}"


def _scale_kind() -> Kind:
    return Kind(
        group="autoscaling",
        version="v1",
        plural="",
        singular="",
        kind="Scale",
        namespaced=True,
        list_kind="",
        schema=Schema(load_kubernetes_schema("Scale")),
    )


def _content_hash(kinds: Iterable[Kind]) -> str:
    """Return a hash of the inputs of a document, which is much cheaper than building the document."""
    digest = hashlib.sha256()
    for kind in sorted(kinds, key=lambda kind: kind.plural):
        fields = (kind.plural, kind.kind, kind.list_kind, kind.namespaced, kind.verbs, kind.subresources)
        digest.update(repr((fields, kind.schema.digest if kind.schema else "")).encode())
    return digest.hexdigest().upper()


def _component_name(kind: Kind) -> str:
    package = _CORE_PACKAGES.get(kind.group) or ".".join(reversed(kind.group.split(".")))
    return f"{package}.{kind.version}.{kind.kind}"


def _gvk(kind: Kind, name: str | None = None) -> dict[str, str]:
    return {"group": kind.group, "kind": name or kind.kind, "version": kind.version}


def _schema_ref(component: str) -> dict[str, str]:
    return {"$ref": f"#/components/schemas/{component}"}


def _object_schema(kind: Kind) -> dict[str, Any]:
    openapi = kind.schema.openapi if kind.schema is not None else {"x-kubernetes-preserve-unknown-fields": True}
    schema = with_object_metadata(openapi)
    schema["properties"]["metadata"] = {"allOf": [_schema_ref(_OBJECT_META)], "default": {}}
    if not schema["required"]:
        del schema["required"]
    return schema | {"x-kubernetes-group-version-kind": [_gvk(kind)]}


def _list_schema(kind: Kind) -> dict[str, Any]:
    return {
        "type": "object",
        "required": ["items"],
        "properties": {
            "apiVersion": {"type": "string"},
            "items": {"type": "array", "items": _schema_ref(_component_name(kind))},
            "kind": {"type": "string"},
            "metadata": _schema_ref(_LIST_META),
        },
        "x-kubernetes-group-version-kind": [_gvk(kind, kind.list_kind)],
    }


def _path_items(kind: Kind, scale: Kind) -> dict[str, Any]:
    base = f"/{_group_version_path(kind.group, kind.version)}"
    scope_path = f"{base}/namespaces/{{namespace}}" if kind.namespaced else base
    scope_parameters = [_path_parameter("namespace")] if kind.namespaced else []
    object_path = f"{scope_path}/{kind.plural}/{{name}}"
    paths = {
        f"{scope_path}/{kind.plural}": _collection_path_item(kind, scope_parameters),
        object_path: _object_path_item(kind, [_path_parameter("name"), *scope_parameters]),
    }
    if kind.namespaced and "list" in kind.verbs:
        paths[f"{base}/{kind.plural}"] = {"get": _operation(kind, "list", f"{_component_name(kind)}List")}
    for name, response_kind in (("status", kind), ("scale", scale)):
        if name in kind.subresources:
            paths[f"{object_path}/{name}"] = _object_path_item(
                response_kind, [_path_parameter("name"), *scope_parameters], is_subresource=True
            )
    return {path: item for path, item in paths.items() if len(item) > ("parameters" in item)}


def _collection_path_item(kind: Kind, parameters: list[dict[str, Any]]) -> dict[str, Any]:
    item: dict[str, Any] = {"parameters": parameters}
    if "list" in kind.verbs:
        item["get"] = _operation(kind, "list", f"{_component_name(kind)}List")
    if "create" in kind.verbs:
        item["post"] = _operation(kind, "post", _component_name(kind), request_media_types=(JSON_CONTENT_TYPE,))
    if "deletecollection" in kind.verbs:
        item["delete"] = _operation(kind, "deletecollection", None)
    return item


def _object_path_item(kind: Kind, parameters: list[dict[str, Any]], *, is_subresource: bool = False) -> dict[str, Any]:
    item: dict[str, Any] = {"parameters": parameters}
    if "get" in kind.verbs:
        item["get"] = _operation(kind, "get", _component_name(kind))
    if "update" in kind.verbs:
        item["put"] = _operation(kind, "put", _component_name(kind), request_media_types=(JSON_CONTENT_TYPE,))
    if "patch" in kind.verbs:
        # Strategic merge patch is served but not listed: clients then use the merge keys of their own types.
        item["patch"] = _operation(kind, "patch", _component_name(kind), request_media_types=(JSON_PATCH, MERGE_PATCH))
    if "delete" in kind.verbs and not is_subresource:
        item["delete"] = _operation(kind, "delete", None)
    return item


def _operation(
    kind: Kind, action: str, response_component: str | None, *, request_media_types: tuple[str, ...] = ()
) -> dict[str, Any]:
    content = {JSON_CONTENT_TYPE: {"schema": _schema_ref(response_component)}} if response_component else {}
    operation: dict[str, Any] = {
        "responses": {"200": {"description": "OK", "content": content}},
        "x-kubernetes-action": action,
        "x-kubernetes-group-version-kind": _gvk(kind),
    }
    if request_media_types:
        operation["parameters"] = [_query_parameter(name) for name in _WRITE_PARAMETERS]
        schema = _schema_ref(response_component) if response_component and action != "patch" else {"type": "object"}
        operation["requestBody"] = {"content": {media_type: {"schema": schema} for media_type in request_media_types}}
    return operation


def _path_parameter(name: str) -> dict[str, Any]:
    return {"name": name, "in": "path", "required": True, "schema": {"type": "string", "uniqueItems": True}}


def _query_parameter(name: str) -> dict[str, Any]:
    return {"name": name, "in": "query", "schema": {"type": "string", "uniqueItems": True}}
