"""The module for training programs, in a program of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Event, Thread, Timer
from typing import Any, ClassVar

import pytest

ROOT = Path(__file__).parents[1]


class Listener(BaseHTTPRequestHandler):
    """Keeps what is posted."""

    heard: ClassVar[list[tuple[str | None, dict[str, Any]]]] = []

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.heard.append((self.headers["Authorization"], json.loads(body)))
        self.send_response(202)
        self.end_headers()

    def log_message(self, *args: Any) -> None:
        """Say nothing."""


@pytest.fixture
def url() -> Iterator[str]:
    Listener.heard.clear()
    server = HTTPServer(("127.0.0.1", 0), Listener)
    thread = Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/report/x"
    server.shutdown()
    thread.join()
    server.server_close()


class Mute(BaseHTTPRequestHandler):
    """Does not answer until the test allows it."""

    may_answer: ClassVar[Event] = Event()

    def do_POST(self) -> None:
        self.may_answer.wait()
        self.send_response(202)
        self.end_headers()

    def log_message(self, *args: Any) -> None:
        """Say nothing."""


def ran(script: str, **variables: str) -> str:
    plain = {name: value for name, value in os.environ.items() if "proxy" not in name.lower()}
    env = {**plain, "PYTHONPATH": str(ROOT), **variables}
    words = [sys.executable, "-c", f"from pliant.report import report\n{script}"]
    return subprocess.run(words, env=env, check=True, capture_output=True, text=True, timeout=30).stdout


def test_without_an_operator_a_report_is_a_line() -> None:
    assert ran("report(step=3, loss=0.25, note=None)") == "pliant: step=3 loss=0.25\n"


def test_the_last_report_arrives_though_the_program_ends_at_once(url: str) -> None:
    script = "for step in range(100): report(step=step, loss=float('nan'))"
    ran(script, PLIANT_REPORT_URL=url, PLIANT_REPORT_TOKEN="t")
    assert Listener.heard[-1] == ("Bearer t", {"step": 99, "loss": "nan"})
    assert len(Listener.heard) <= 3


def test_training_does_not_wait_for_an_answer() -> None:
    script = """
import pliant.report
pliant.report.REQUEST_TIMEOUT = 600  # a report that is waited for would never end
for step in range(9):
    pliant.report.report(step=step)
print("trained", flush=True)
"""
    with HTTPServer(("127.0.0.1", 0), Mute) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        url = f"http://127.0.0.1:{server.server_port}/report/x"
        env = {**os.environ, "PYTHONPATH": str(ROOT), "PLIANT_REPORT_URL": url, "no_proxy": "*"}
        words = [sys.executable, "-c", script]
        with subprocess.Popen(words, env=env, stdout=subprocess.PIPE, text=True) as program:
            limit = Timer(60, program.kill)
            limit.start()
            assert program.stdout is not None
            has_trained = "trained\n" in program.stdout
            limit.cancel()
            Mute.may_answer.set()
            program.communicate(timeout=60)
        server.shutdown()
        thread.join()
    assert has_trained
    assert program.returncode == 0


def test_a_forked_process_reports_as_well(url: str) -> None:
    script = "import os\nreport(step=1)\nif os.fork() == 0:\n  report(step=2)\nelse:\n  os.wait()"
    ran(script, PLIANT_REPORT_URL=url)
    assert {2} <= {told["step"] for _, told in Listener.heard}


def test_nobody_who_listens_is_no_reason_to_fail() -> None:
    assert ran("report(step=1)", PLIANT_REPORT_URL="http://127.0.0.1:9/x") == "pliant: step=1\n"
    assert ran("report(step=1)", PLIANT_REPORT_URL="no address") == "pliant: step=1\n"
