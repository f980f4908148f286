"""Tells clients which groups, versions and resources are served, in every form they may ask for."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Final

from pliant.embedded.registry.kind_registry import KindRegistry
from pliant.embedded.registry.kinds import Kind

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


def core_api_versions() -> dict[str, Any]:
    """The answer to /api: the core group's versions."""
    return {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []}


def api_group_list(registry: KindRegistry) -> dict[str, Any]:
    """The answer to /apis: every named group."""
    groups = [_group_entry(name, _group_versions(registry, name)) for name in _group_names(registry) if name]
    return {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}


def api_group(registry: KindRegistry, name: str) -> dict[str, Any] | None:
    """The answer to /apis/GROUP, or None for a group that is not served."""
    served = _group_versions(registry, name)
    return {"kind": "APIGroup", "apiVersion": "v1", **_group_entry(name, served)} if served and name else None


def api_resource_list(registry: KindRegistry, group: str, version: str) -> dict[str, Any] | None:
    """The answer to /api/v1 or /apis/GROUP/VERSION, or None for a version that is not served."""
    kinds = _kinds_in(registry, group, version)
    if not kinds:
        return None
    resources = [
        entry for kind in kinds for entry in (_resource_entry(kind), *map(_subresource_entry, _subresources(kind)))
    ]
    return {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": kinds[0].api_version, "resources": resources}


def aggregated_discovery(registry: KindRegistry, *, is_core: bool, version: str = "v2") -> dict[str, Any]:
    """Everything below /api (`core`) or /apis in one answer; `v2` and `v2beta1` differ only in name."""
    names = [""] if is_core else [name for name in _group_names(registry) if name]
    items = []
    for name in names:
        served = [
            {
                "version": served_version,
                "resources": [_aggregated_resource_entry(kind) for kind in _kinds_in(registry, name, served_version)],
                "freshness": "Current",
            }
            for served_version in _group_versions(registry, name)
        ]
        items.append({"metadata": {"name": name} if name else {}, "versions": served})
    return {
        "kind": "APIGroupDiscoveryList",
        "apiVersion": f"apidiscovery.k8s.io/{version}",
        "metadata": {},
        "items": items,
    }


def version_sort_key(version: str) -> tuple[int, int, int, str]:
    """Sorts versions best first: v2, v1, v1beta2, v1beta1, v1alpha1, then names that are none."""
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


def _subresource_entry(subresource: Subresource) -> dict[str, Any]:
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


def _aggregated_resource_entry(kind: Kind) -> dict[str, Any]:
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
