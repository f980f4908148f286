"""Starts the receiver of progress reports, and reads the secret from which the operator derives the keys of jobs."""

from __future__ import annotations

import base64
import logging
import secrets
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING

from pliant.controllers.progress_reports import ProgressReceiver
from pliant.controllers.rbac.permissions import key_secret_name
from pliant.errors import AlreadyExists, Forbidden, NotFound, UnsupportedEnvironment
from pliant.kube.client import KubeClient
from pliant.kube.resources import SECRETS
from pliant.runtime.clock import SystemClock

if TYPE_CHECKING:
    from argparse import Namespace

    from pliant.embedded.cluster import EmbeddedCluster

EMBEDDED_PROGRESS_REPORT_PORT = 3129  # in the pod network, next to the egress proxy
EMBEDDED_SECRET_NAMESPACE, EMBEDDED_LEASE_NAME = "kube-system", "pliant"
SECRET_DATA_FIELD = "key"  # noqa: S105 - the name of a field

log = logging.getLogger(__name__)


@asynccontextmanager
async def open_embedded_receiver(
    cluster: EmbeddedCluster, client: KubeClient, secret: bytes
) -> AsyncIterator[ProgressReceiver | None]:
    """Start a receiver in the pod network; yield None if that fails, because training does not need it."""
    try:
        address, listener = await cluster.listen_for_pods(EMBEDDED_PROGRESS_REPORT_PORT)
    except OSError as error:
        log.warning("progress reports are disabled", extra={"error": str(error)})
        yield None
        return
    url = f"http://{address}:{EMBEDDED_PROGRESS_REPORT_PORT}"
    receiver = ProgressReceiver(client, SystemClock(), secret, url)
    async with receiver.serve(listener):
        yield receiver


@asynccontextmanager
async def open_operator_receiver(
    args: Namespace, client: KubeClient, secret: bytes | None
) -> AsyncIterator[ProgressReceiver | None]:
    """Start the receiver on --report-bind-address; yield None without that option or without a secret."""
    if args.report_bind_address is None or secret is None:
        yield None
        return
    host, port = args.report_bind_address
    receiver = ProgressReceiver(client, SystemClock(), secret, args.report_url)
    async with AsyncExitStack() as stack:
        try:
            await stack.enter_async_context(receiver.serve((host, port)))
        except OSError as error:
            reason = error.strerror or error
            raise UnsupportedEnvironment(f"cannot receive reports on {host or ''}:{port}: {reason}") from None
        log.info("receiving progress reports", extra={"host": host or "all", "port": port})
        yield receiver


async def read_embedded_secret(client: KubeClient) -> bytes:
    """Return the secret of the embedded cluster. It is stored, because pods may start after the next `pliant up`."""
    return await get_or_create_secret(client, EMBEDDED_SECRET_NAMESPACE, key_secret_name(EMBEDDED_LEASE_NAME))


async def read_operator_secret(client: KubeClient, namespace: str, lease_name: str) -> bytes | None:
    """Return the secret of the operators of a lease; None if the operator may not read or create it."""
    name = key_secret_name(lease_name)
    try:
        return await get_or_create_secret(client, namespace, name)
    except (Forbidden, NotFound) as error:
        log.warning(
            "no secret: progress reports are disabled, and Pliant's masters of ElasticJobs do not start",
            extra={"secret": f"{namespace}/{name}", "error": str(error)},
        )
        return None


async def get_or_create_secret(client: KubeClient, namespace: str, name: str) -> bytes:
    """Return the secret that all operators of a cluster share; the first operator creates it."""
    try:
        secret = await client.get(SECRETS, namespace, name)
    except NotFound:
        new_key = base64.b64encode(secrets.token_bytes(32)).decode()
        body = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "data": {SECRET_DATA_FIELD: new_key}}
        try:
            secret = await client.create(SECRETS, namespace, body)
        except AlreadyExists:
            secret = await client.get(SECRETS, namespace, name)
    key = base64.b64decode((secret.get("data") or {}).get(SECRET_DATA_FIELD, ""))
    if not key:
        raise UnsupportedEnvironment(
            f"Secret {namespace}/{name} has no field `{SECRET_DATA_FIELD}`; delete it to recreate it"
        )
    return key
