"""OpenAPI v3: an index with content hashes, and a document for each group and version."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Any

import msgspec

from pliant.embedded.registry.kind_registry import KindRegistry
from pliant.embedded.registry.kinds import Kind
from pliant.embedded.registry.openapi.definitions import collect_definitions, published_digest
from pliant.embedded.registry.openapi.paths import group_version_path, path_items, subresource_definitions


def openapi_index(registry: KindRegistry) -> dict[str, Any]:
    """Return the response to /openapi/v3: the URL of each document, with a hash of its content."""
    kinds_by_path: dict[str, list[Kind]] = {}
    for kind in registry.kinds():
        kinds_by_path.setdefault(group_version_path(kind.group, kind.version), []).append(kind)
    seed = published_digest()
    return {
        "paths": {
            path: {"serverRelativeURL": f"/openapi/v3/{path}?hash={_content_hash(kinds, seed)}"}
            for path, kinds in sorted(kinds_by_path.items())
        }
    }


def render_openapi_document(registry: KindRegistry, group: str, version: str) -> bytes | None:
    """Return the OpenAPI document of one group and version in JSON; None if it is not served."""
    kinds = [kind for kind in registry.kinds() if kind.group == group and kind.version == version]
    if not kinds:
        return None
    kinds.sort(key=lambda kind: kind.plural)
    paths: dict[str, Any] = {}
    for kind in kinds:
        paths |= path_items(kind)
    referenced = [name for kind in kinds for name in subresource_definitions(kind)]
    document = {
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes", "version": "unversioned"},
        "paths": paths,
        "components": {"schemas": collect_definitions(kinds, referenced)},
    }
    return msgspec.json.encode(document)


def _content_hash(kinds: Iterable[Kind], seed: bytes) -> str:
    """Return a hash of the inputs of a document, which is much cheaper than building the document."""
    digest = hashlib.sha256(seed)
    for kind in sorted(kinds, key=lambda kind: kind.plural):
        fields = (kind.plural, kind.kind, kind.list_kind, kind.namespaced, kind.verbs, kind.subresources)
        schema_digest = kind.schema.digest if kind.schema is not None and kind.is_custom else ""
        digest.update(repr((fields, schema_digest)).encode())
    return digest.hexdigest().upper()
