"""Brings the objects of the files into the cluster; what the server refuses is told field by field."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from pliant.cli.checks import frontend_of, refused
from pliant.cli.manifests import Manifest
from pliant.embedded.catalog.resources import Catalog
from pliant.errors import AlreadyExists, ApiError
from pliant.frontends.base import Frontend, definitions
from pliant.kube.client import KubeClient
from pliant.kube.resources import CRDS, NAMESPACES, Resource
from pliant.plugins.known import kinds


def served_catalog(manifests: list[Manifest]) -> Catalog:
    """What will be served once the files are applied: built-in kinds, our own, and those the files define."""
    catalog = Catalog.standard()
    for manifest in manifests:
        if manifest.kind == CRDS.kind and manifest.api_version == CRDS.api_version:
            catalog.put_crd(manifest.raw)
    _put(catalog, kinds_in(manifests))
    if any(catalog.of_kind(manifest.api_version, manifest.kind) is None for manifest in manifests):
        _put(catalog, kinds().values())  # one of them may be meant
    return catalog


def _put(catalog: Catalog, frontends: Iterable[Frontend]) -> None:
    for frontend in frontends:
        for crd in definitions(frontend):
            catalog.put_crd(crd)


def kinds_in(manifests: list[Manifest]) -> list[Frontend]:
    """The kinds of the jobs in some files: to know all of them takes time."""
    return list(dict.fromkeys(filter(None, map(frontend_of, manifests))))


async def install_crds(client: KubeClient, frontends: Iterable[Frontend] | None = None) -> None:
    """Teach the cluster some kinds of jobs, or every one; definitions that are there are brought up to date."""
    chosen = kinds().values() if frontends is None else frontends
    for crd in (each for frontend in chosen for each in definitions(frontend)):
        try:
            await client.create(CRDS, None, crd)
        except AlreadyExists:
            name = crd["metadata"]["name"]
            present = await client.get(CRDS, None, name)
            await client.replace(CRDS, None, name, {**present, "spec": crd["spec"]})


class Applier:
    """Creates the objects of one run."""

    def __init__(self, client: KubeClient, catalog: Catalog, namespace: str) -> None:
        self._client = client
        self._catalog = catalog
        self._namespace = namespace

    async def apply(self, manifests: list[Manifest]) -> list[dict[str, Any]]:
        """Create everything, jobs last, so that nothing they need is missing; the jobs as the server has them."""
        ordered = sorted(manifests, key=_turn)
        for namespace in dict.fromkeys(self._namespaces(ordered)):
            await self._ensure_namespace(namespace)
        created = [(manifest, await self._create(manifest)) for manifest in ordered]
        return [obj for manifest, obj in created if frontend_of(manifest)]

    async def _create(self, manifest: Manifest) -> dict[str, Any]:
        kind = self._catalog.of_kind(manifest.api_version, manifest.kind)
        assert kind is not None, "kinds are checked before anything is applied"
        resource = Resource(kind.group, kind.version, kind.plural, kind.kind, kind.namespaced)
        namespace = (manifest.namespace or self._namespace) if kind.namespaced else None
        try:
            return await self._client.create(resource, namespace, manifest.raw, strict=True)
        except ApiError as error:
            raise refused(manifest, error, kind.schema.openapi if kind.schema else {}) from error

    def _namespaces(self, manifests: list[Manifest]) -> Iterator[str]:
        """Namespaces that objects live in and no file defines."""
        defined = {manifest.name for manifest in manifests if manifest.kind == NAMESPACES.kind}
        for manifest in manifests:
            kind = self._catalog.of_kind(manifest.api_version, manifest.kind)
            namespace = manifest.namespace or self._namespace
            if kind is not None and kind.namespaced and namespace not in defined:
                yield namespace

    async def _ensure_namespace(self, name: str) -> None:
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
        try:
            await self._client.create(NAMESPACES, None, body)
        except AlreadyExists:
            return


def _turn(manifest: Manifest) -> int:
    if manifest.kind in (NAMESPACES.kind, CRDS.kind):
        return 0
    return 2 if frontend_of(manifest) else 1
