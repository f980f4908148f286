"""Tells clients which groups, versions and resources are served, in every form they may ask for."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Final

from pliant.embedded.catalog.kinds import Kind
from pliant.embedded.catalog.resources import Catalog

_SUBRESOURCE_VERBS: Final = {
    "attach": ("create", "get"),
    "binding": ("create",),
    "eviction": ("create",),
    "exec": ("create", "get"),
    "finalize": ("update",),
    "log": ("get",),
    "portforward": ("create", "get"),
    "token": ("create",),
}
_SUBRESOURCE_KINDS: Final = {
    "attach": ("", "v1", "PodAttachOptions"),
    "binding": ("", "v1", "Binding"),
    "eviction": ("policy", "v1", "Eviction"),
    "exec": ("", "v1", "PodExecOptions"),
    "portforward": ("", "v1", "PodPortForwardOptions"),
    "scale": ("autoscaling", "v1", "Scale"),
    "token": ("authentication.k8s.io", "v1", "TokenRequest"),
}


def versions() -> dict[str, Any]:
    """The answer to /api: the core group's versions."""
    return {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []}


def group_list(catalog: Catalog) -> dict[str, Any]:
    """The answer to /apis: every named group."""
    groups = [_group(name, _versions_of(catalog, name)) for name in _groups(catalog) if name]
    return {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}


def group(catalog: Catalog, name: str) -> dict[str, Any] | None:
    """The answer to /apis/GROUP, or None for a group that is not served."""
    served = _versions_of(catalog, name)
    return {"kind": "APIGroup", "apiVersion": "v1", **_group(name, served)} if served and name else None


def resource_list(catalog: Catalog, group: str, version: str) -> dict[str, Any] | None:
    """The answer to /api/v1 or /apis/GROUP/VERSION, or None for a version that is not served."""
    kinds = _kinds_in(catalog, group, version)
    if not kinds:
        return None
    resources = [entry for kind in kinds for entry in (_resource(kind), *map(_as_resource, _subresources(kind)))]
    return {
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": kinds[0].api_version,
        "resources": resources,
    }


def aggregated(catalog: Catalog, *, core: bool, version: str = "v2") -> dict[str, Any]:
    """Everything below /api (`core`) or /apis in one answer; `v2` and `v2beta1` differ only in name."""
    names = [""] if core else [name for name in _groups(catalog) if name]
    items = []
    for name in names:
        served = [
            {
                "version": served_version,
                "resources": [_discovered(kind) for kind in _kinds_in(catalog, name, served_version)],
                "freshness": "Current",
            }
            for served_version in _versions_of(catalog, name)
        ]
        items.append({"metadata": {"name": name} if name else {}, "versions": served})
    return {
        "kind": "APIGroupDiscoveryList",
        "apiVersion": f"apidiscovery.k8s.io/{version}",
        "metadata": {},
        "items": items,
    }


def version_rank(version: str) -> tuple[int, int, int, str]:
    """Sorts versions best first: v2, v1, v1beta2, v1beta1, v1alpha1, then names that are none."""
    match = re.fullmatch(r"v(\d+)(?:(alpha|beta)(\d+))?", version)
    if match is None:
        return (3, 0, 0, version)
    stage = {None: 0, "beta": 1, "alpha": 2}[match[2]]
    return (stage, -int(match[1]), -int(match[3] or 0), "")


def _groups(catalog: Catalog) -> Iterable[str]:
    return dict.fromkeys(kind.group for kind in catalog.kinds())


def _versions_of(catalog: Catalog, group: str) -> list[str]:
    return sorted({kind.version for kind in catalog.kinds() if kind.group == group}, key=version_rank)


def _kinds_in(catalog: Catalog, group: str, version: str) -> list[Kind]:
    kinds = [kind for kind in catalog.kinds() if kind.group == group and kind.version == version]
    return sorted(kinds, key=lambda kind: kind.plural)


def _group(name: str, served: list[str]) -> dict[str, Any]:
    entries = [{"groupVersion": f"{name}/{version}", "version": version} for version in served]
    return {"name": name, "versions": entries, "preferredVersion": entries[0]}


def _resource(kind: Kind) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "name": kind.plural,
        "singularName": kind.singular,
        "namespaced": kind.namespaced,
        "kind": kind.kind,
        "verbs": list(kind.verbs),
    }
    if kind.short_names:
        entry["shortNames"] = list(kind.short_names)
    if kind.categories:
        entry["categories"] = list(kind.categories)
    return entry


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


def _as_resource(subresource: Subresource) -> dict[str, Any]:
    kind, name, (group, version, answer), verbs = subresource
    entry: dict[str, Any] = {
        "name": f"{kind.plural}/{name}",
        "singularName": "",
        "namespaced": kind.namespaced,
        "kind": answer,
        "verbs": list(verbs),
    }
    if (group, version) != (kind.group, kind.version):
        entry |= {"group": group, "version": version}
    return entry


def _discovered(kind: Kind) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "resource": kind.plural,
        "responseKind": _response_kind(kind.group, kind.version, kind.kind),
        "scope": "Namespaced" if kind.namespaced else "Cluster",
        "singularResource": kind.singular,
        "verbs": list(kind.verbs),
    }
    if kind.short_names:
        entry["shortNames"] = list(kind.short_names)
    if kind.categories:
        entry["categories"] = list(kind.categories)
    if kind.subresources:
        entry["subresources"] = [
            {"subresource": name, "responseKind": _response_kind(*answer), "verbs": list(verbs)}
            for _, name, answer, verbs in _subresources(kind)
        ]
    return entry


def _response_kind(group: str, version: str, kind: str) -> dict[str, str]:
    return {"group": group, "version": version, "kind": kind}
