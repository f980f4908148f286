"""Starts the receiver of progress reports for the operator, on a local cluster or on any other."""

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

EMBEDDED_PROGRESS_REPORT_PORT = 3129  # in the pod network, next to the egress proxy
SECRET_DATA_FIELD = "key"  # noqa: S105 - the name of a field

log = logging.getLogger(__name__)


@asynccontextmanager
async def open_embedded_receiver(
    cluster: EmbeddedCluster, client: KubeClient
) -> AsyncIterator[ProgressReceiver | None]:
    """Start a receiver in the pod network; yield None if that fails, because training does not need it."""
    try:
        address, listener = await cluster.listen_for_pods(EMBEDDED_PROGRESS_REPORT_PORT)
    except OSError as error:
        log.warning("progress reports are disabled", extra={"error": str(error)})
        yield None
        return
    # The key need not outlive the cluster: no pod does.
    url = f"http://{address}:{EMBEDDED_PROGRESS_REPORT_PORT}"
    receiver = ProgressReceiver(client, SystemClock(), secrets.token_bytes(32), url)
    async with receiver.serve(listener):
        yield receiver


@asynccontextmanager
async def open_operator_receiver(
    args: Namespace, client: KubeClient, namespace: str
) -> AsyncIterator[ProgressReceiver | None]:
    """Start the receiver on --report-bind-address; yield None without that option."""
    if args.report_bind_address is None:
        yield None
        return
    try:
        key = await get_or_create_report_key(client, namespace, report_secret_name(args.lease_name))
    except ApiError as error:
        log.warning("progress reports are disabled: no secret", extra={"namespace": namespace, "error": str(error)})
        yield None
        return
    host, port = args.report_bind_address
    receiver = ProgressReceiver(client, SystemClock(), key, args.report_url)
    async with AsyncExitStack() as stack:
        try:
            await stack.enter_async_context(receiver.serve((host, port)))
        except OSError as error:
            reason = error.strerror or error
            raise UnsupportedEnvironment(f"cannot receive reports on {host or ''}:{port}: {reason}") from None
        log.info("receiving progress reports", extra={"host": host or "all", "port": port})
        yield receiver


async def get_or_create_report_key(client: KubeClient, namespace: str, name: str) -> bytes:
    """Return the key that all operators of a cluster share; the first operator creates it."""
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
