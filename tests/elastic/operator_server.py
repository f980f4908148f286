"""A small server with the operator's side of the elastic contract, on loopback."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Condition, Thread
from typing import Any
from urllib.parse import parse_qs, urlsplit

from pliant.runtime.clock import SystemClock

TOKEN = "secret"
PATH = "/report/default/demo/worker-1"


class OperatorServer(ThreadingHTTPServer):
    """Serves one replica, whose state the test changes with `publish`; all requests are recorded."""

    daemon_threads = True
    block_on_close = False
    request_queue_size = 50

    def __init__(self, port: int = 0) -> None:
        super().__init__(("127.0.0.1", port), _Handler)
        self.changed = Condition()
        self.generation, self.rank, self.size = 1, 1, 2
        self.checkpoint: dict[str, Any] | None = None
        self.reports: list[dict[str, Any]] = []
        self.acknowledged: list[int] = []
        self.polls: list[dict[str, float]] = []
        self.responses = 0
        self.clock_offset = timedelta()
        self.delay = 0.0
        self.answer: tuple[int, bytes] | None = None
        """Status and body of all responses, instead of the real ones."""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}{PATH}"

    @property
    def environment(self) -> dict[str, str]:
        return {"PLIANT_REPORT_URL": self.url, "PLIANT_REPORT_TOKEN": TOKEN}

    def publish(self, **state: Any) -> None:
        with self.changed:
            for name, value in state.items():
                assert hasattr(self, name)
                setattr(self, name, value)
            self.changed.notify_all()

    def request_checkpoint(self, number: int, *, seconds: float = 30.0, reason: str = "Resized", **state: Any) -> None:
        deadline = SystemClock().now() + self.clock_offset + timedelta(seconds=seconds)
        fields = {"id": number, "reason": reason, "deadline": f"{deadline:%Y-%m-%dT%H:%M:%SZ}"}
        self.publish(checkpoint=fields, **state)

    def wait_for(self, name: str, count: int = 1, timeout: float = 20.0) -> None:
        """Wait for a number of recorded requests."""
        with self.changed:
            assert self.changed.wait_for(lambda: len(getattr(self, name)) >= count, timeout), f"no {name}"

    def acknowledge(self, number: int) -> None:
        """Record an acknowledgement; like the operator, no longer send the request."""
        self.acknowledged.append(number)
        if self.checkpoint is not None and self.checkpoint["id"] <= number:
            self.checkpoint = None

    def membership(self) -> dict[str, Any]:
        members = [
            {"name": f"worker-{index}", "group": "worker", "index": index, "rank": index, "address": f"demo-{index}"}
            for index in range(self.size)
        ]
        return {"generation": self.generation, "rank": self.rank, "members": members, "checkpoint": self.checkpoint}

    def handle_error(self, *_: Any) -> None:
        """Ignore clients that have closed their connection."""


class _Handler(BaseHTTPRequestHandler):
    server: OperatorServer
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self._is_refused():
            return
        operator = self.server
        with operator.changed:
            if "acknowledgedCheckpoint" in body:
                operator.acknowledge(body["acknowledgedCheckpoint"])
            else:
                operator.reports.append(body)
            operator.changed.notify_all()
        self._respond(202, {"checkpoint": operator.checkpoint} if operator.checkpoint else {})

    def do_GET(self) -> None:
        if self._is_refused():
            return
        operator = self.server
        query = {name: float(values[0]) for name, values in parse_qs(urlsplit(self.path).query).items()}
        with operator.changed:
            operator.polls.append(query)
            operator.changed.notify_all()
            operator.changed.wait_for(lambda: self._has_news(query) or operator.answer is not None, query["wait"])
            answer = operator.membership()
        if operator.answer is None:
            self._respond(200, answer)
        else:
            self._is_refused()

    def _has_news(self, query: dict[str, float]) -> bool:
        checkpoint = self.server.checkpoint
        is_new = checkpoint is not None and checkpoint["id"] != query["checkpoint"]
        return is_new or query["generation"] != self.server.generation

    def _is_refused(self) -> bool:
        time.sleep(self.server.delay)
        if self.server.answer is not None:
            self._write(*self.server.answer)
            return True
        if self.headers["Authorization"] != f"Bearer {TOKEN}":
            self._respond(401, {"error": "send the token"})
            return True
        return False

    def _respond(self, status: int, answer: dict[str, Any]) -> None:
        self._write(status, json.dumps(answer).encode())

    def _write(self, status: int, body: bytes) -> None:
        self.server.responses += 1
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def date_time_string(self, timestamp: float | None = None) -> str:
        return super().date_time_string((SystemClock().now() + self.server.clock_offset).timestamp())

    def log_message(self, *_: Any) -> None:
        """Do not log requests."""


@contextmanager
def serve_operator(port: int = 0) -> Iterator[OperatorServer]:
    with OperatorServer(port) as operator:
        thread = Thread(target=operator.serve_forever, args=[0.02])
        thread.start()
        try:
            yield operator
        finally:
            operator.publish(answer=(503, b"stopped"))
            operator.shutdown()
            thread.join()
