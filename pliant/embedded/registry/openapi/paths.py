"""The paths of OpenAPI documents: which operations a kind and its subresources have, and their parameters."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from pliant.embedded.registry.kinds import Kind
from pliant.embedded.registry.openapi.definitions import DELETE_OPTIONS, GVK_EXTENSION, definition_name, gvk, schema_ref
from pliant.kube.transport.base import APPLY_PATCH, JSON_CONTENT_TYPE, JSON_PATCH, MERGE_PATCH, STRATEGIC_MERGE_PATCH

_STREAMING_SUBRESOURCES: Final = ("attach", "exec", "log", "portforward", "proxy")
"""Subresources whose content is no object; clients do not look them up."""
_WRITE_PARAMETERS: Final = ("dryRun", "fieldManager", "fieldValidation")


class _Content(NamedTuple):
    """The kind that an endpoint reads and writes."""

    gvk: dict[str, str]
    definition: str
    is_custom: bool = False


_SUBRESOURCE_CONTENT: Final = {
    "binding": _Content({"group": "", "kind": "Binding", "version": "v1"}, "io.k8s.api.core.v1.Binding"),
    "eviction": _Content({"group": "policy", "kind": "Eviction", "version": "v1"}, "io.k8s.api.policy.v1.Eviction"),
    "scale": _Content({"group": "autoscaling", "kind": "Scale", "version": "v1"}, "io.k8s.api.autoscaling.v1.Scale"),
    "token": _Content(
        {"group": "authentication.k8s.io", "kind": "TokenRequest", "version": "v1"},
        "io.k8s.api.authentication.v1.TokenRequest",
    ),
}
_SUBRESOURCE_VERBS: Final = {**dict.fromkeys(("binding", "eviction", "token"), ("create",)), "finalize": ("update",)}


def group_version_path(group: str, version: str) -> str:
    return f"apis/{group}/{version}" if group else f"api/{version}"


def subresource_definitions(kind: Kind) -> Iterator[str]:
    """Yield the definitions of the subresources that have other kinds than the object."""
    for name in kind.subresources:
        if name in _SUBRESOURCE_CONTENT:
            yield _SUBRESOURCE_CONTENT[name].definition


def path_items(kind: Kind) -> dict[str, Any]:
    """Return the paths of a kind with their operations."""
    content = _Content(gvk(kind), definition_name(kind), kind.is_custom)
    base = f"/{group_version_path(kind.group, kind.version)}"
    scope_path = f"{base}/namespaces/{{namespace}}" if kind.namespaced else base
    scope_parameters = [_path_parameter("namespace")] if kind.namespaced else []
    object_parameters = [_path_parameter("name"), *scope_parameters]
    object_path = f"{scope_path}/{kind.plural}/{{name}}"
    object_verbs = tuple(verb for verb in kind.verbs if verb != "create")
    paths = {
        f"{scope_path}/{kind.plural}": _collection_path_item(kind, content, scope_parameters),
        object_path: _object_path_item(content, object_verbs, object_parameters),
    }
    if kind.namespaced and "list" in kind.verbs:
        paths[f"{base}/{kind.plural}"] = {"get": _operation(content, "list", f"{content.definition}List")}
    for name in kind.subresources:
        if name not in _STREAMING_SUBRESOURCES:
            verbs = _SUBRESOURCE_VERBS.get(name, ("get", "update", "patch"))
            paths[f"{object_path}/{name}"] = _object_path_item(
                _SUBRESOURCE_CONTENT.get(name, content), verbs, object_parameters
            )
    return {path: item for path, item in paths.items() if len(item) > ("parameters" in item)}


def _collection_path_item(kind: Kind, content: _Content, parameters: list[dict[str, Any]]) -> dict[str, Any]:
    item: dict[str, Any] = {"parameters": parameters}
    if "list" in kind.verbs:
        item["get"] = _operation(content, "list", f"{content.definition}List")
    if "create" in kind.verbs:
        item["post"] = _write_operation(content, "post", (JSON_CONTENT_TYPE,))
    if "deletecollection" in kind.verbs:
        item["delete"] = _delete_operation(content, "deletecollection")
    return item


def _object_path_item(content: _Content, verbs: tuple[str, ...], parameters: list[dict[str, Any]]) -> dict[str, Any]:
    item: dict[str, Any] = {"parameters": parameters}
    if "get" in verbs:
        item["get"] = _operation(content, "get", content.definition)
    if "update" in verbs:
        item["put"] = _write_operation(content, "put", (JSON_CONTENT_TYPE,))
    if "patch" in verbs:
        strategic = () if content.is_custom else (STRATEGIC_MERGE_PATCH,)
        item["patch"] = _write_operation(content, "patch", (JSON_PATCH, MERGE_PATCH, *strategic, APPLY_PATCH))
    if "delete" in verbs:
        item["delete"] = _delete_operation(content, "delete")
    if "create" in verbs:
        item["post"] = _write_operation(content, "post", (JSON_CONTENT_TYPE,))
    return item


def _operation(content: _Content, action: str, response_definition: str | None) -> dict[str, Any]:
    media = {JSON_CONTENT_TYPE: {"schema": schema_ref(response_definition)}} if response_definition else {}
    return {
        "responses": {"200": {"description": "OK", "content": media}},
        "x-kubernetes-action": action,
        GVK_EXTENSION: content.gvk,
    }


def _write_operation(content: _Content, action: str, media_types: tuple[str, ...]) -> dict[str, Any]:
    schema = {"type": "object"} if action == "patch" else schema_ref(content.definition)
    parameters = [_query_parameter(name) for name in _WRITE_PARAMETERS]
    if action == "patch":
        parameters.append(_query_parameter("force", "boolean"))
    return {
        **_operation(content, action, content.definition),
        "parameters": parameters,
        "requestBody": {"content": {media_type: {"schema": schema} for media_type in media_types}},
    }


def _delete_operation(content: _Content, action: str) -> dict[str, Any]:
    media = {JSON_CONTENT_TYPE: {"schema": schema_ref(DELETE_OPTIONS)}}
    return {**_operation(content, action, None), "requestBody": {"content": media}}


def _path_parameter(name: str) -> dict[str, Any]:
    return {"name": name, "in": "path", "required": True, "schema": {"type": "string", "uniqueItems": True}}


def _query_parameter(name: str, value_type: str = "string") -> dict[str, Any]:
    return {"name": name, "in": "query", "schema": {"type": value_type, "uniqueItems": True}}
