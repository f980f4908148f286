"""Serves health, version, discovery and OpenAPI documents."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

import msgspec

from pliant.embedded.apiserver.http.errors import path_not_found
from pliant.embedded.registry import discovery, openapi
from pliant.embedded.registry.kind_registry import KindRegistry
from pliant.kube.transport.base import JSON, Reply, Request

UNAUTHENTICATED_PATHS = ("/healthz", "/livez", "/readyz", "/version")

SERVER_VERSION = {
    "major": "1",
    "minor": "32",
    "gitVersion": "v1.32.4+pliant",
    "gitCommit": "",
    "gitTreeState": "clean",
    "buildDate": "1970-01-01T00:00:00Z",
    "goVersion": "",
    "compiler": "",
    "platform": "linux/amd64",
}


class DiscoveryHandler:
    """Serves documents that depend only on the registry; replies are cached until the registry changes."""

    def __init__(self, registry: KindRegistry) -> None:
        self._registry = registry
        self._cached_version = registry.version
        self._cached_replies: dict[tuple[str, str], Reply] = {}

    def handle(self, request: Request) -> Reply | None:
        """Return the reply to a discovery request; None if the path is about objects."""
        path = request.path.rstrip("/")
        if path in UNAUTHENTICATED_PATHS[:3] or path.startswith(
            tuple(f"{health}/" for health in UNAUTHENTICATED_PATHS[:3])
        ):
            return Reply(status=200, body=b"ok", content_type="text/plain; charset=utf-8")
        parts = path.strip("/").split("/")
        is_discovery = len(parts) <= {"api": 2, "apis": 3}.get(parts[0], 0)
        if not (is_discovery or parts[0] in ("version", "openapi", "")):
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
            content = discovery.aggregated_discovery(
                self._registry, is_core=path_parts[0] == "api", version=discovery_version
            )
            media_type = f"{JSON};g=apidiscovery.k8s.io;v={discovery_version};as=APIGroupDiscoveryList"
            return _reply_with_etag(content, media_type)
        document = self._find_document(path_parts)
        if document is None:
            raise path_not_found()
        return _reply_with_etag(document, JSON)

    def _find_document(self, path_parts: list[str]) -> dict[str, Any] | None:
        registry = self._registry
        builders: dict[tuple[str, int], Callable[[], dict[str, Any] | None]] = {
            ("", 1): lambda: {"paths": ["/api", "/apis", "/healthz", "/livez", "/openapi/v3", "/readyz", "/version"]},
            ("version", 1): lambda: SERVER_VERSION,
            ("api", 1): discovery.core_api_versions,
            ("api", 2): lambda: discovery.api_resource_list(registry, "", path_parts[1]),
            ("apis", 1): lambda: discovery.api_group_list(registry),
            ("apis", 2): lambda: discovery.api_group(registry, path_parts[1]),
            ("apis", 3): lambda: discovery.api_resource_list(registry, path_parts[1], path_parts[2]),
        }
        if path_parts[:2] == ["openapi", "v3"]:
            return self._find_openapi_document(path_parts[2:])
        build = builders.get((path_parts[0], len(path_parts)))
        return build() if build is not None else None

    def _find_openapi_document(self, path_parts: list[str]) -> dict[str, Any] | None:
        match path_parts:
            case []:
                return openapi.openapi_index(self._registry)
            case ["api", version]:
                return openapi.openapi_document(self._registry, "", version)
            case ["apis", group, version]:
                return openapi.openapi_document(self._registry, group, version)
            case _:
                return None


def _reply_with_etag(content: dict[str, Any], media_type: str) -> Reply:
    body = msgspec.json.encode(content)
    etag = hashlib.sha256(body).hexdigest().upper()
    return Reply(status=200, body=body, content_type=media_type, headers={"ETag": f'"{etag}"', "Vary": "Accept"})


def _accepted_discovery_version(accept: str) -> str:
    """Return the version of aggregated discovery that a client prefers; empty if it accepts none."""
    for clause in accept.split(","):
        options = {part.strip() for part in clause.split(";")}
        if "as=APIGroupDiscoveryList" in options:
            for version in ("v2", "v2beta1"):
                if f"v={version}" in options:
                    return version
        elif JSON in options and len(options) == 1:
            return ""
    return ""
