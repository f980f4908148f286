"""Runs the operator of a local cluster, with the rights that `pliant install` grants it on a real one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from pliant.cli.cluster.apply import install_crds
from pliant.cli.cluster.local_leadership import LocalLeadership
from pliant.cli.cluster.operator_manifests import OPERATOR_NAME, OPERATOR_NAMESPACE, crd_manifests
from pliant.cli.cluster.progress_receiver import open_embedded_receiver, read_embedded_secret
from pliant.cli.input.operator_options import DEFAULT_LEASE_NAME
from pliant.controllers.autoscale.options import AutoscaleOptions
from pliant.controllers.operator import Operator
from pliant.controllers.rbac.operator_roles import RBAC_API_GROUP, OperatorAccount, operator_role_manifests
from pliant.controllers.rbac.permissions import operator_permissions
from pliant.controllers.rbac.user_roles import user_role_manifests
from pliant.errors import AlreadyExists
from pliant.frontends.frontend import Frontend
from pliant.kube.client import KubeClient
from pliant.kube.resources import Resource
from pliant.model.operator_config import OperatorConfig
from pliant.plugins.registry import registered_kinds
from pliant.runtime.clock import SystemClock

if TYPE_CHECKING:
    from pliant.embedded.cluster import EmbeddedCluster
    from pliant.kube.transport.base import Transport

_ACCOUNT = OperatorAccount(namespace=OPERATOR_NAMESPACE, name=OPERATOR_NAME)


@asynccontextmanager
async def run_local_operator(
    cluster: EmbeddedCluster,
    config: OperatorConfig,
    autoscale: AutoscaleOptions | None,
    frontends: Iterable[Frontend] | None = None,
) -> AsyncIterator[None]:
    """Install the CRDs of some job kinds, by default of all, and run their operator until the context exits.

    While an installed operator leads, this one stands by.
    """
    owner = KubeClient(cluster.transport)
    await install_crds(owner, frontends)
    client = await create_operator_client(cluster, owner, frontends)
    secret = await read_embedded_secret(owner)
    async with open_embedded_receiver(cluster, client, secret) as receiver, asyncio.TaskGroup() as tasks:
        leadership = LocalLeadership.observe(cluster, DEFAULT_LEASE_NAME)
        gated = KubeClient(leadership.with_gate(_account_transport(cluster)))
        is_started = asyncio.Event()

        async def reconcile_jobs() -> None:
            operator = Operator(
                gated,
                SystemClock(),
                frontends=frontends,
                config=config,
                key_secret=secret,
                progress_receiver=receiver,
                autoscale_options=autoscale,
            )
            async with asyncio.TaskGroup() as parts:
                parts.create_task(operator.run())
                await operator.wait_ready()
                is_started.set()

        running = tasks.create_task(leadership.run_while_free(reconcile_jobs, on_standby=is_started.set))
        await is_started.wait()
        try:
            yield
        finally:
            running.cancel()


async def create_operator_client(
    cluster: EmbeddedCluster, owner: KubeClient, frontends: Iterable[Frontend] | None = None
) -> KubeClient:
    """Create the roles of the operator and of users of these kinds; return a client with the operator's account."""
    kinds = tuple(registered_kinds().values() if frontends is None else frontends)
    for manifest in _role_manifests(kinds):
        await _create_or_update(owner, manifest)
    return KubeClient(_account_transport(cluster))


def _account_transport(cluster: EmbeddedCluster) -> Transport:
    return cluster.transport_for_account(_ACCOUNT.namespace, _ACCOUNT.name)


def _role_manifests(frontends: tuple[Frontend, ...]) -> Iterator[dict[str, Any]]:
    roles = operator_role_manifests(operator_permissions(DEFAULT_LEASE_NAME, frontends), _ACCOUNT, ())
    # The operator of a local cluster has no lease and no Secret, so it needs no namespace of its own.
    yield from (role for role in roles if "namespace" not in role["metadata"])
    yield from user_role_manifests(crd_manifests(frontends), _ACCOUNT.namespace)


async def _create_or_update(owner: KubeClient, manifest: dict[str, Any]) -> None:
    kind, name = manifest["kind"], manifest["metadata"]["name"]
    resource = Resource(RBAC_API_GROUP, "v1", f"{kind.lower()}s", kind, namespaced=False)
    try:
        await owner.create(resource, None, manifest)
    except AlreadyExists:
        # An earlier version of Pliant created it.
        await owner.patch(resource, None, name, {field: manifest[field] for field in manifest if field != "metadata"})
