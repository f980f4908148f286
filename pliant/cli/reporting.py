"""A desk for reports beside an operator: on the embedded cluster in the pods' own network, else on a port."""

from __future__ import annotations

import base64
import logging
import secrets
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING

from pliant.controllers.reports import ReportDesk
from pliant.controllers.rights import secret_name
from pliant.errors import AlreadyExists, ApiError, NotFound, NotPossibleHere
from pliant.kube.client import KubeClient
from pliant.kube.resources import SECRETS
from pliant.runtime.clock import SystemClock

if TYPE_CHECKING:
    from argparse import Namespace

    from pliant.embedded.cluster import EmbeddedCluster

PORT = 3129
"""In the network of the embedded cluster's pods, beside the proxy."""
KEY = "key"

log = logging.getLogger(__name__)


@asynccontextmanager
async def desk_for_pods(cluster: EmbeddedCluster, client: KubeClient) -> AsyncIterator[ReportDesk | None]:
    """A desk that pods of an embedded cluster reach; None where no socket can be had, for training needs none."""
    try:
        address, listener = await cluster.listener(PORT)
    except OSError as problem:
        log.warning("reports are not taken", extra={"because": str(problem)})
        yield None
        return
    # Processes end with their cluster, so a secret that ends with it too is enough.
    desk = ReportDesk(client, SystemClock(), secrets.token_bytes(32), f"http://{address}:{PORT}")
    async with desk.open(listener):
        yield desk


@asynccontextmanager
async def desk_of_operator(args: Namespace, client: KubeClient, home: str) -> AsyncIterator[ReportDesk | None]:
    """The desk of an operator, if it is to have one."""
    if args.report_bind_address is None:
        yield None
        return
    try:
        secret = await shared_secret(client, home, secret_name(args.lease_name))
    except ApiError as problem:
        log.warning("reports are not taken", extra={"because": f"no secret in namespace {home}: {problem}"})
        yield None
        return
    host, port = args.report_bind_address
    desk = ReportDesk(client, SystemClock(), secret, args.report_url)
    async with AsyncExitStack() as stack:
        try:
            await stack.enter_async_context(desk.open((host, port)))
        except OSError as problem:
            where = f"{host or ''}:{port}"
            raise NotPossibleHere(f"reports cannot be taken on {where}: {problem.strerror or problem}") from None
        log.info("taking reports", extra={"host": host or "every address", "port": port})
        yield desk


async def shared_secret(client: KubeClient, namespace: str, name: str) -> bytes:
    """What all operators of a cluster know: made by the first of them, and read by the others."""
    try:
        found = await client.get(SECRETS, namespace, name)
    except NotFound:
        fresh = base64.b64encode(secrets.token_bytes(32)).decode()
        made = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "data": {KEY: fresh}}
        try:
            found = await client.create(SECRETS, namespace, made)
        except AlreadyExists:
            found = await client.get(SECRETS, namespace, name)
    secret = base64.b64decode((found.get("data") or {}).get(KEY, ""))
    if not secret:
        raise NotPossibleHere(f"Secret {namespace}/{name} has no `{KEY}`: delete it, and it is made anew")
    return secret
