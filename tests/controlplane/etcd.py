"""The few words with etcd that tests need, over the socket that only we and the API server know."""

from __future__ import annotations

import base64
import http.client
import json
import os
import socket
from pathlib import Path
from typing import Any


class Etcd:
    """A running etcd."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def url(self) -> str:
        """What the API server calls it, from the same folder: a whole path may be too long for a socket."""
        return f"unix://{self.path.name}"

    def revision(self) -> int:
        """The version of the last write, which is the newest resource version there is."""
        answer = self._post("/v3/kv/range", {"key": base64.b64encode(b"/").decode(), "count_only": True})
        return int(answer["header"]["revision"])

    def compact(self, revision: int | None = None) -> int:
        """Forget all versions before this one, by default all but the newest; the version."""
        kept = self.revision() if revision is None else revision
        self._post("/v3/kv/compaction", {"revision": str(kept), "physical": True})
        return kept

    def is_up(self) -> bool:
        """Whether it answers."""
        try:
            return self.revision() > 0
        except OSError:
            return False

    def _post(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        connection = _UnixConnection(self.path)
        try:
            connection.request("POST", path, json.dumps(body), {"Content-Type": "application/json"})
            reply = connection.getresponse()
            answer: dict[str, Any] = json.loads(reply.read())
        finally:
            connection.close()
        if reply.status != http.client.OK:
            raise RuntimeError(f"etcd: {path}: {answer}")
        return answer


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: Path) -> None:
        super().__init__("localhost", timeout=10)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        folder = os.open(self._path.parent, os.O_PATH)
        try:
            self.sock.connect(f"/proc/self/fd/{folder}/{self._path.name}")
        finally:
            os.close(folder)
