"""Creates the objects of manifest files on the local cluster."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Any

from pliant.cli.input.api_errors import to_invalid_input
from pliant.cli.input.manifest_checks import frontend_of
from pliant.cli.input.manifests import Manifest
from pliant.embedded.registry.kind_registry import KindRegistry
from pliant.embedded.schema.rules.pending import register_verified_schema
from pliant.errors import AlreadyExists, ApiError
from pliant.frontends.frontend import Frontend, required_crds
from pliant.kube.client import KubeClient
from pliant.kube.resources import CRDS, NAMESPACES, SERVICE_ACCOUNTS, Resource
from pliant.plugins.registry import registered_kinds


def kind_registry_for_manifests(manifests: list[Manifest]) -> KindRegistry:
    """Return the kinds that the API server will serve: built-in kinds, job kinds and CRDs of the manifests."""
    catalog = KindRegistry.with_builtin_kinds()
    for manifest in manifests:
        if manifest.kind == CRDS.kind and manifest.api_version == CRDS.api_version:
            catalog.register_crd(manifest.raw)
    _add_crds(catalog, frontends_in(manifests))
    if any(catalog.find_kind(manifest.api_version, manifest.kind) is None for manifest in manifests):
        _add_crds(catalog, registered_kinds().values())  # the error message suggests similar kinds
    return catalog


def _add_crds(catalog: KindRegistry, frontends: Iterable[Frontend]) -> None:
    for frontend in frontends:
        for crd in required_crds(frontend):
            catalog.register_crd(crd)


def frontends_in(manifests: list[Manifest]) -> list[Frontend]:
    """Return the job kinds that the manifests use; loading all kinds would take longer."""
    return list(dict.fromkeys(filter(None, map(frontend_of, manifests))))


async def install_crds(client: KubeClient, frontends: Iterable[Frontend] | None = None) -> None:
    """Create or update the CRDs of some job kinds, by default of all."""
    chosen = registered_kinds().values() if frontends is None else frontends
    for crd in (required for frontend in chosen for required in required_crds(frontend)):
        for version in crd["spec"]["versions"]:
            # Tests verify these rules; to check them again at every start would take 100 ms.
            register_verified_schema(version["schema"]["openAPIV3Schema"])
        try:
            await client.create(CRDS, None, crd)
        except AlreadyExists:
            name = crd["metadata"]["name"]
            existing = await client.get(CRDS, None, name)
            await client.replace(CRDS, None, name, {**existing, "spec": crd["spec"]})


class LocalObjectCreator:
    """Creates the objects of one run."""

    def __init__(self, client: KubeClient, kind_registry: KindRegistry, namespace: str) -> None:
        self._client = client
        self._catalog = kind_registry
        self._namespace = namespace

    async def create_and_return_jobs(self, manifests: list[Manifest]) -> list[dict[str, Any]]:
        """Create all objects, jobs last; return the jobs as the API server stored them."""
        ordered = sorted(manifests, key=creation_sort_key)
        await self.create_prerequisites(ordered)
        created = [(manifest, await self._create(manifest)) for manifest in ordered]
        return [obj for manifest, obj in created if frontend_of(manifest)]

    async def create_prerequisites(self, manifests: list[Manifest]) -> None:
        """Create the namespaces and the service accounts that objects use and no manifest defines.

        These service accounts have no rights; API servers reject pods whose account does not exist.
        """
        for namespace in dict.fromkeys(self._undefined_namespaces(manifests)):
            await self._create_if_absent(NAMESPACES, None, namespace)
        for namespace, account in dict.fromkeys(self._undefined_service_accounts(manifests)):
            await self._create_if_absent(SERVICE_ACCOUNTS, namespace, account)

    async def _create(self, manifest: Manifest) -> dict[str, Any]:
        kind = self._catalog.find_kind(manifest.api_version, manifest.kind)
        assert kind is not None, "kinds are checked before anything is applied"
        resource = Resource(kind.group, kind.version, kind.plural, kind.kind, kind.namespaced)
        namespace = (manifest.namespace or self._namespace) if kind.namespaced else None
        try:
            return await self._client.create(resource, namespace, manifest.raw, strict=True)
        except ApiError as error:
            raise to_invalid_input(manifest, error, kind.schema.openapi if kind.schema else {}) from error

    def _undefined_namespaces(self, manifests: list[Manifest]) -> Iterator[str]:
        """Yield the namespaces that objects use and no manifest defines."""
        defined = {manifest.name for manifest in manifests if manifest.kind == NAMESPACES.kind}
        for manifest in manifests:
            kind = self._catalog.find_kind(manifest.api_version, manifest.kind)
            namespace = manifest.namespace or self._namespace
            if kind is not None and kind.namespaced and namespace not in defined:
                yield namespace

    def _undefined_service_accounts(self, manifests: list[Manifest]) -> Iterator[tuple[str, str]]:
        """Yield namespace and name of the service accounts that pod templates use and no manifest defines."""
        accounts = [manifest for manifest in manifests if manifest.kind == SERVICE_ACCOUNTS.kind]
        defined = {(manifest.namespace or self._namespace, manifest.name) for manifest in accounts}
        for manifest in manifests:
            namespace = manifest.namespace or self._namespace
            used = ((namespace, account) for account in _service_accounts_in(manifest.raw))
            yield from (each for each in used if each not in defined)

    async def _create_if_absent(self, resource: Resource, namespace: str | None, name: str) -> None:
        with suppress(AlreadyExists):
            body = {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": {"name": name}}
            await self._client.create(resource, namespace, body)


def _service_accounts_in(value: Any) -> Iterator[str]:
    """Yield the names of the service accounts of all pod specs in an object."""
    if isinstance(value, dict):
        account = value.get("serviceAccountName") or value.get("serviceAccount")
        if isinstance(value.get("containers"), list) and isinstance(account, str):
            yield account
    children = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    for child in children:
        yield from _service_accounts_in(child)


def creation_sort_key(manifest: Manifest) -> int:
    """Return a sort key: namespaces and CRDs first, jobs last."""
    if manifest.kind in (NAMESPACES.kind, CRDS.kind):
        return 0
    return 2 if frontend_of(manifest) else 1
