"""The recorded write requests for one job, and a minimal HTTP client that sends them for other jobs.

Requires only aiohttp and PyYAML. The bare client and the kopf operator use it; Pliant's operator does not.
"""

from __future__ import annotations

import asyncio
import base64
import json
import ssl
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import aiohttp
import yaml

PLACEHOLDER_NAME = "bench-00000"
PLACEHOLDER_UID = "00000000-0000-4000-8000-000000000000"
MAX_IN_FLIGHT = 64
"""Concurrent requests: a higher number is not faster, and with a lower one etcd batches fewer writes."""


class RecordedWrite(NamedTuple):
    """One request for one job, with placeholders in place of the name and the uid of the job."""

    method: str
    path: str
    content_type: str
    body: str

    @property
    def is_status(self) -> bool:
        """Whether the request writes the status of the job."""
        return self.path.endswith("/status")


def read_writes(path: Path) -> list[RecordedWrite]:
    """Read the writes for one job, in the order in which the operator sent them."""
    return [RecordedWrite(*fields) for fields in json.loads(path.read_text())]


class WriteSender:
    """Sends recorded writes and checks only the status code of each response."""

    def __init__(self, session: aiohttp.ClientSession, url: str) -> None:
        self._session = session
        self._url = url
        self._slots = asyncio.Semaphore(MAX_IN_FLIGHT)

    async def send(self, write: RecordedWrite, name: str, uid: str) -> None:
        """Send a recorded write for the job with this name and uid."""
        url = self._url + write.path.replace(PLACEHOLDER_NAME, name)
        body = write.body.replace(PLACEHOLDER_NAME, name).replace(PLACEHOLDER_UID, uid).encode()
        headers = {"Content-Type": write.content_type}
        async with self._slots, self._session.request(write.method, url, data=body, headers=headers) as response:
            content = await response.read()
            if response.status >= 300:
                raise RuntimeError(f"{write.method} {url}: {response.status} {content[:300]!r}")


@asynccontextmanager
async def open_sender(kubeconfig: Path) -> AsyncIterator[WriteSender]:
    """Connect to the cluster of a kubeconfig with inline credentials."""
    cluster, user = _read_kubeconfig(kubeconfig)
    headers = {"Accept": "application/json", "Accept-Encoding": "identity"}
    if "token" in user:
        headers["Authorization"] = f"Bearer {user['token']}"
    connector = aiohttp.TCPConnector(limit=0, ssl=_create_ssl_context(cluster, user))
    async with aiohttp.ClientSession(connector=connector, headers=headers) as session:
        yield WriteSender(session, cluster["server"])


def _read_kubeconfig(path: Path) -> tuple[dict[str, str], dict[str, str]]:
    config: dict[str, Any] = yaml.safe_load(path.read_text())
    return config["clusters"][0]["cluster"], config["users"][0]["user"]


def _create_ssl_context(cluster: dict[str, str], user: dict[str, str]) -> ssl.SSLContext:
    ca_data = base64.b64decode(cluster["certificate-authority-data"]).decode()
    context = ssl.create_default_context(cadata=ca_data)
    if "client-certificate-data" in user:
        with tempfile.NamedTemporaryFile() as key_pair:
            key_pair.write(base64.b64decode(user["client-certificate-data"]) + b"\n")
            key_pair.write(base64.b64decode(user["client-key-data"]))
            key_pair.flush()
            context.load_cert_chain(key_pair.name)
    return context
