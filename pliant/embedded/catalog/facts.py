"""What the server tells about itself: health, version, discovery, OpenAPI."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

import msgspec

from pliant.embedded.catalog import discovery, openapi
from pliant.embedded.catalog.resources import Catalog
from pliant.embedded.server.refusals import no_such_path
from pliant.kube.transport import JSON, Reply, Request

PUBLIC = ("/healthz", "/livez", "/readyz", "/version")
"""Paths anybody may read."""

VERSION = {
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


class Facts:
    """Answers that change only with the catalog, made once and kept until it does."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._made_at = catalog.version
        self._made: dict[tuple[str, str], Reply] = {}

    def answer(self, request: Request) -> Reply | None:
        """The answer to a question about the server itself; None when the path is about objects."""
        path = request.path.rstrip("/")
        if path in PUBLIC[:3] or path.startswith(tuple(f"{health}/" for health in PUBLIC[:3])):
            return Reply(status=200, body=b"ok", content_type="text/plain; charset=utf-8")
        parts = path.strip("/").split("/")
        is_discovery = len(parts) <= {"api": 2, "apis": 3}.get(parts[0], 0)
        if not (is_discovery or parts[0] in ("version", "openapi", "")):
            return None
        if self._made_at != self._catalog.version:
            self._made.clear()
            self._made_at = self._catalog.version
        form = _discovery_form(request.accept) if len(parts) == 1 and is_discovery else ""
        if (path, form) not in self._made:
            self._made[path, form] = self._make(parts, form)
        return self._made[path, form]

    def _make(self, parts: list[str], form: str) -> Reply:
        if form:
            content = discovery.aggregated(self._catalog, core=parts[0] == "api", version=form)
            media = f"{JSON};g=apidiscovery.k8s.io;v={form};as=APIGroupDiscoveryList"
            return _tagged(content, media)
        found = self._content(parts)
        if found is None:
            raise no_such_path()
        return _tagged(found, JSON)

    def _content(self, parts: list[str]) -> dict[str, Any] | None:
        catalog = self._catalog
        makers: dict[tuple[str, int], Callable[[], dict[str, Any] | None]] = {
            ("", 1): lambda: {
                "paths": ["/api", "/apis", "/healthz", "/livez", "/openapi/v3", "/readyz", "/version"]
            },
            ("version", 1): lambda: VERSION,
            ("api", 1): discovery.versions,
            ("api", 2): lambda: discovery.resource_list(catalog, "", parts[1]),
            ("apis", 1): lambda: discovery.group_list(catalog),
            ("apis", 2): lambda: discovery.group(catalog, parts[1]),
            ("apis", 3): lambda: discovery.resource_list(catalog, parts[1], parts[2]),
        }
        if parts[:2] == ["openapi", "v3"]:
            return self._openapi(parts[2:])
        maker = makers.get((parts[0], len(parts)))
        return maker() if maker is not None else None

    def _openapi(self, place: list[str]) -> dict[str, Any] | None:
        match place:
            case []:
                return openapi.index(self._catalog)
            case ["api", version]:
                return openapi.document(self._catalog, "", version)
            case ["apis", group, version]:
                return openapi.document(self._catalog, group, version)
            case _:
                return None


def _tagged(content: dict[str, Any], media: str) -> Reply:
    body = msgspec.json.encode(content)
    tag = hashlib.sha256(body).hexdigest().upper()
    return Reply(status=200, body=body, content_type=media, headers={"ETag": f'"{tag}"', "Vary": "Accept"})


def _discovery_form(accept: str) -> str:
    """The newest form of aggregated discovery a client reads, in its own order of preference."""
    for clause in accept.split(","):
        options = {part.strip() for part in clause.split(";")}
        if "as=APIGroupDiscoveryList" in options:
            for version in ("v2", "v2beta1"):
                if f"v={version}" in options:
                    return version
        elif JSON in options and len(options) == 1:
            return ""
    return ""
