"""A desk for reports beside an operator: on the embedded cluster in the pods' own network, else on a port."""

from __future__ import annotations

import base64
import logging
import secrets
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING

from pliant.controllers.progress_reports import ProgressReceiver
from pliant.controllers.rbac.permissions import report_secret_name
from pliant.errors import AlreadyExists, ApiError, NotFound, UnsupportedEnvironment
from pliant.kube.client import KubeClient
from pliant.kube.resources import SECRETS
from pliant.runtime.clock import SystemClock

if TYPE_CHECKING:
    from argparse import Namespace

    from pliant.embedded.cluster import EmbeddedCluster

EMBEDDED_REPORT_PORT = 3129
"""In the network of the embedded cluster's pods, beside the proxy."""
SECRET_KEY = "key"  # noqa: S105 - the name of a field

log = logging.getLogger(__name__)


@asynccontextmanager
async def open_embedded_receiver(
    cluster: EmbeddedCluster, client: KubeClient
) -> AsyncIterator[ProgressReceiver | None]:
    """A desk that pods of an embedded cluster reach; None where no socket can be had, for training needs none."""
    try:
        address, listener = await cluster.open_listener(EMBEDDED_REPORT_PORT)
    except OSError as problem:
        log.warning("reports are not taken", extra={"because": str(problem)})
        yield None
        return
    # Processes end with their cluster, so a secret that ends with it too is enough.
    desk = ProgressReceiver(client, SystemClock(), secrets.token_bytes(32), f"http://{address}:{EMBEDDED_REPORT_PORT}")
    async with desk.serve(listener):
        yield desk


@asynccontextmanager
async def open_operator_receiver(
    args: Namespace, client: KubeClient, namespace: str
) -> AsyncIterator[ProgressReceiver | None]:
    """The desk of an operator, if it is to have one."""
    if args.report_bind_address is None:
        yield None
        return
    try:
        secret = await get_or_create_secret(client, namespace, report_secret_name(args.lease_name))
    except ApiError as problem:
        log.warning("reports are not taken", extra={"because": f"no secret in namespace {namespace}: {problem}"})
        yield None
        return
    host, port = args.report_bind_address
    desk = ProgressReceiver(client, SystemClock(), secret, args.report_url)
    async with AsyncExitStack() as stack:
        try:
            await stack.enter_async_context(desk.serve((host, port)))
        except OSError as problem:
            where = f"{host or ''}:{port}"
            raise UnsupportedEnvironment(f"reports cannot be taken on {where}: {problem.strerror or problem}") from None
        log.info("taking reports", extra={"host": host or "every address", "port": port})
        yield desk


async def get_or_create_secret(client: KubeClient, namespace: str, name: str) -> bytes:
    """What all operators of a cluster know: made by the first of them, and read by the others."""
    try:
        found = await client.get(SECRETS, namespace, name)
    except NotFound:
        fresh = base64.b64encode(secrets.token_bytes(32)).decode()
        made = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "data": {SECRET_KEY: fresh}}
        try:
            found = await client.create(SECRETS, namespace, made)
        except AlreadyExists:
            found = await client.get(SECRETS, namespace, name)
    secret = base64.b64decode((found.get("data") or {}).get(SECRET_KEY, ""))
    if not secret:
        raise UnsupportedEnvironment(f"Secret {namespace}/{name} has no `{SECRET_KEY}`: delete it, and it is made anew")
    return secret
