"""A bare session with an API server, and the writes of one job as they were recorded.

Needs nothing but aiohttp and PyYAML: floor and peer share it, the operator does not.
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

NAME = "bench-00000"
UID = "00000000-0000-4000-8000-000000000000"
AT_ONCE = 64
"""Requests in flight at a time: more bring nothing, and with fewer etcd has less to write together."""


class Write(NamedTuple):
    """One request of one job, with `NAME` and `UID` in the places of the job's own."""

    method: str
    path: str
    content_type: str
    body: str

    @property
    def is_status(self) -> bool:
        """Whether it tells how the job is."""
        return self.path.endswith("/status")


def read_recipe(path: Path) -> list[Write]:
    """The writes of one job, in the order in which the operator sent them."""
    return [Write(*fields) for fields in json.loads(path.read_text())]


class Door:
    """Sends recorded writes; looks at no answer but whether it is one of success."""

    def __init__(self, session: aiohttp.ClientSession, url: str) -> None:
        self._session = session
        self._url = url
        self._slots = asyncio.Semaphore(AT_ONCE)

    async def send(self, write: Write, name: str, uid: str) -> None:
        """Make a recorded write for one job."""
        url = self._url + write.path.replace(NAME, name)
        body = write.body.replace(NAME, name).replace(UID, uid).encode()
        headers = {"Content-Type": write.content_type}
        async with self._slots, self._session.request(write.method, url, data=body, headers=headers) as answer:
            said = await answer.read()
            if answer.status >= 300:
                raise RuntimeError(f"{write.method} {url}: {answer.status} {said[:300]!r}")


@asynccontextmanager
async def opened(kubeconfig: Path) -> AsyncIterator[Door]:
    """A door to the cluster of a kubeconfig that holds everything itself."""
    cluster, user = _understood(kubeconfig)
    headers = {"Accept": "application/json", "Accept-Encoding": "identity"}
    if "token" in user:
        headers["Authorization"] = f"Bearer {user['token']}"
    connector = aiohttp.TCPConnector(limit=0, ssl=_context(cluster, user))
    async with aiohttp.ClientSession(connector=connector, headers=headers) as session:
        yield Door(session, cluster["server"])


def _understood(kubeconfig: Path) -> tuple[dict[str, str], dict[str, str]]:
    said: dict[str, Any] = yaml.safe_load(kubeconfig.read_text())
    return said["clusters"][0]["cluster"], said["users"][0]["user"]


def _context(cluster: dict[str, str], user: dict[str, str]) -> ssl.SSLContext:
    authority = base64.b64decode(cluster["certificate-authority-data"]).decode()
    context = ssl.create_default_context(cadata=authority)
    if "client-certificate-data" in user:
        with tempfile.NamedTemporaryFile() as pair:
            pair.write(base64.b64decode(user["client-certificate-data"]) + b"\n")
            pair.write(base64.b64decode(user["client-key-data"]))
            pair.flush()
            context.load_cert_chain(pair.name)
    return context
