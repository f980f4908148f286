"""Serves health, version, discovery and OpenAPI documents."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Final

import msgspec

from pliant.embedded.apiserver.http.errors import path_not_found
from pliant.embedded.registry.kind_registry import KindRegistry
from pliant.embedded.registry.kinds import Kind
from pliant.embedded.registry.openapi.handler import OpenApiHandler, reply_with_etag
from pliant.kube.transport.base import JSON_CONTENT_TYPE, Reply, Request

_SUBRESOURCE_VERBS: Final = {
    "attach": ("create", "get"),
    "binding": ("create",),
    "eviction": ("create",),
    "exec": ("create", "get"),
    "finalize": ("update",),
    "log": ("get",),
    "portforward": ("create", "get"),
    "proxy": ("create", "delete", "get", "patch", "update"),
    "token": ("create",),
}
_SUBRESOURCE_KINDS: Final = {
    "attach": ("", "v1", "PodAttachOptions"),
    "binding": ("", "v1", "Binding"),
    "eviction": ("policy", "v1", "Eviction"),
    "exec": ("", "v1", "PodExecOptions"),
    "portforward": ("", "v1", "PodPortForwardOptions"),
    "proxy": ("", "v1", "NodeProxyOptions"),
    "scale": ("autoscaling", "v1", "Scale"),
    "token": ("authentication.k8s.io", "v1", "TokenRequest"),
}


def core_api_versions() -> dict[str, Any]:
    """Return the response to /api."""
    return {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []}


def api_group_list(registry: KindRegistry) -> dict[str, Any]:
    """Return the response to /apis."""
    groups = [_group_entry(name, _group_versions(registry, name)) for name in _group_names(registry) if name]
    return {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}


def api_group(registry: KindRegistry, name: str) -> dict[str, Any] | None:
    """Return the response to /apis/GROUP; None if the group is not served."""
    versions = _group_versions(registry, name)
    return {"kind": "APIGroup", "apiVersion": "v1", **_group_entry(name, versions)} if versions and name else None


def api_resource_list(registry: KindRegistry, group: str, version: str) -> dict[str, Any] | None:
    """Return the response to /api/v1 or /apis/GROUP/VERSION; None if the version is not served."""
    kinds = _kinds_in(registry, group, version)
    if not kinds:
        return None
    resources = [
        entry for kind in kinds for entry in (_resource_entry(kind), *map(_subresource_entry, _subresources(kind)))
    ]
    return {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": kinds[0].api_version, "resources": resources}


def aggregated_discovery(registry: KindRegistry, *, is_core: bool, version: str = "v2") -> dict[str, Any]:
    """Return everything below /api or /apis in one document; v2 and v2beta1 differ only in apiVersion."""
    names = [""] if is_core else [name for name in _group_names(registry) if name]
    items = []
    for name in names:
        versions = [
            {
                "version": served_version,
                "resources": [_aggregated_resource_entry(kind) for kind in _kinds_in(registry, name, served_version)],
                "freshness": "Current",
            }
            for served_version in _group_versions(registry, name)
        ]
        items.append({"metadata": {"name": name} if name else {}, "versions": versions})
    return {
        "kind": "APIGroupDiscoveryList",
        "apiVersion": f"apidiscovery.k8s.io/{version}",
        "metadata": {},
        "items": items,
    }


def version_sort_key(version: str) -> tuple[int, int, int, str]:
    """Return a key that sorts the preferred version first: v2, v1, v1beta2, v1beta1, v1alpha1, then others."""
    match = re.fullmatch(r"v(\d+)(?:(alpha|beta)(\d+))?", version)
    if match is None:
        return (3, 0, 0, version)
    stage = {None: 0, "beta": 1, "alpha": 2}[match[2]]
    return (stage, -int(match[1]), -int(match[3] or 0), "")


def _group_names(registry: KindRegistry) -> Iterable[str]:
    return dict.fromkeys(kind.group for kind in registry.kinds())


def _group_versions(registry: KindRegistry, group: str) -> list[str]:
    return sorted({kind.version for kind in registry.kinds() if kind.group == group}, key=version_sort_key)


def _kinds_in(registry: KindRegistry, group: str, version: str) -> list[Kind]:
    kinds = [kind for kind in registry.kinds() if kind.group == group and kind.version == version]
    return sorted(kinds, key=lambda kind: kind.plural)


def _group_entry(name: str, versions: list[str]) -> dict[str, Any]:
    entries = [{"groupVersion": f"{name}/{version}", "version": version} for version in versions]
    return {"name": name, "versions": entries, "preferredVersion": entries[0]}


def _resource_entry(kind: Kind) -> dict[str, Any]:
    return {
        "name": kind.plural,
        "singularName": kind.singular,
        "namespaced": kind.namespaced,
        "kind": kind.kind,
        "verbs": list(kind.verbs),
        **_names_and_categories(kind),
    }


def _names_and_categories(kind: Kind) -> dict[str, list[str]]:
    fields = {"shortNames": list(kind.short_names), "categories": list(kind.categories)}
    return {name: values for name, values in fields.items() if values}


Subresource = tuple[Kind, str, tuple[str, str, str], tuple[str, ...]]


def _subresources(kind: Kind) -> list[Subresource]:
    return [
        (
            kind,
            name,
            _SUBRESOURCE_KINDS.get(name, (kind.group, kind.version, kind.kind)),
            _SUBRESOURCE_VERBS.get(name, ("get", "patch", "update")),
        )
        for name in kind.subresources
    ]


def _subresource_entry(subresource: Subresource) -> dict[str, Any]:
    kind, name, (group, version, response_kind), verbs = subresource
    entry: dict[str, Any] = {
        "name": f"{kind.plural}/{name}",
        "singularName": "",
        "namespaced": kind.namespaced,
        "kind": response_kind,
        "verbs": list(verbs),
    }
    if (group, version) != (kind.group, kind.version):
        entry |= {"group": group, "version": version}
    return entry


def _aggregated_resource_entry(kind: Kind) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "resource": kind.plural,
        "responseKind": _response_kind(kind.group, kind.version, kind.kind),
        "scope": "Namespaced" if kind.namespaced else "Cluster",
        "singularResource": kind.singular,
        "verbs": list(kind.verbs),
        **_names_and_categories(kind),
    }
    if kind.subresources:
        entry["subresources"] = [
            {"subresource": name, "responseKind": _response_kind(*response_kind), "verbs": list(verbs)}
            for _, name, response_kind, verbs in _subresources(kind)
        ]
    return entry


def _response_kind(group: str, version: str, kind: str) -> dict[str, str]:
    return {"group": group, "version": version, "kind": kind}


UNAUTHENTICATED_PATHS = ("/healthz", "/livez", "/readyz", "/version")

KUBERNETES_VERSION: Final = "1.37.1"
"""The newest release whose kubectl is tested with this API server; clients compare it with their own version."""
_MAJOR, _MINOR, _ = KUBERNETES_VERSION.split(".")
SERVER_VERSION: Final = {
    "major": _MAJOR,
    "minor": _MINOR,
    "gitVersion": f"v{KUBERNETES_VERSION}+pliant",
    "gitCommit": "",
    "gitTreeState": "clean",
    "buildDate": "1970-01-01T00:00:00Z",
    "goVersion": "",
    "compiler": "",
    "platform": "linux/amd64",
}
_ROOT_PATHS: Final = ("/api", "/apis", "/healthz", "/livez", "/openapi/v2", "/openapi/v3", "/readyz", "/version")


class DiscoveryHandler:
    """Serves documents that depend only on the registry; replies are cached until the registry changes."""

    def __init__(self, registry: KindRegistry) -> None:
        self._registry = registry
        self._cached_version = registry.version
        self._cached_replies: dict[tuple[str, str], Reply] = {}
        self._openapi = OpenApiHandler(registry)

    async def handle(self, request: Request) -> Reply | None:
        """Return the reply to a discovery request; None if the path is about objects."""
        path = request.path.rstrip("/")
        health_paths = UNAUTHENTICATED_PATHS[:3]
        if path in health_paths or path.startswith(tuple(f"{each}/" for each in health_paths)):
            return Reply(status=200, body=b"ok", content_type="text/plain; charset=utf-8")
        parts = path.strip("/").split("/")
        is_discovery = len(parts) <= {"api": 2, "apis": 3}.get(parts[0], 0)
        if parts[0] == "openapi":
            document = await self._openapi.handle(request, parts)
            if document is None:
                raise path_not_found(is_in_builtin_group=False)
            return document
        if not (is_discovery or parts[0] in ("version", "")):
            return None
        if self._cached_version != self._registry.version:
            self._cached_replies.clear()
            self._cached_version = self._registry.version
        discovery_version = _accepted_discovery_version(request.accept) if len(parts) == 1 and is_discovery else ""
        if (path, discovery_version) not in self._cached_replies:
            self._cached_replies[path, discovery_version] = self._render_reply(parts, discovery_version)
        return self._cached_replies[path, discovery_version]

    def _render_reply(self, path_parts: list[str], discovery_version: str) -> Reply:
        if discovery_version:
            content = aggregated_discovery(self._registry, is_core=path_parts[0] == "api", version=discovery_version)
            media_type = f"{JSON_CONTENT_TYPE};g=apidiscovery.k8s.io;v={discovery_version};as=APIGroupDiscoveryList"
            return reply_with_etag(msgspec.json.encode(content), media_type)
        document = self._find_document(path_parts)
        if document is None:
            group = path_parts[1] if path_parts[0] == "apis" else ""
            raise path_not_found(is_in_builtin_group=self._registry.is_builtin_group(group))
        return reply_with_etag(msgspec.json.encode(document), JSON_CONTENT_TYPE)

    def _find_document(self, path_parts: list[str]) -> dict[str, Any] | None:
        match path_parts:
            case [""]:
                return {"paths": list(_ROOT_PATHS)}
            case ["version"]:
                return SERVER_VERSION
            case ["api"]:
                return core_api_versions()
            case ["api", version]:
                return api_resource_list(self._registry, "", version)
            case ["apis"]:
                return api_group_list(self._registry)
            case ["apis", group]:
                return api_group(self._registry, group)
            case ["apis", group, version]:
                return api_resource_list(self._registry, group, version)
        return None


def _accepted_discovery_version(accept: str) -> str:
    for clause in accept.split(","):
        options = {part.strip() for part in clause.split(";")}
        if "as=APIGroupDiscoveryList" in options:
            for version in ("v2", "v2beta1"):
                if f"v={version}" in options:
                    return version
        elif JSON_CONTENT_TYPE in options and len(options) == 1:
            return ""
    return ""
