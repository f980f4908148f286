"""For training programs: `report(step=10, loss=0.5)` prints a line, tells the operator, and never waits.

It needs nothing but Python, so that this one file can be copied into an image.
"""

from __future__ import annotations

import atexit
import encodings.idna  # noqa: F401 - connecting needs it; a fork while a thread imports it leaves the child without
import json
import os
import sys
import threading
import urllib.request
from typing import Any

REQUEST_TIMEOUT = 1.0
"""Seconds for one report; training does not wait for it."""
MIN_SEND_INTERVAL = 1.0
"""Seconds between two reports: of those that come meanwhile the last one is sent."""


class _ReportSender:
    """Sends the latest figures in the background; whatever goes wrong there is nobody's concern."""

    def __init__(self) -> None:
        self._pending: dict[str, float] = {}
        self._wakeup = threading.Event()
        self._closing = threading.Event()
        self._thread: threading.Thread | None = None

    def send(self, metrics: dict[str, float]) -> None:
        self._pending = {**self._pending, **metrics}
        self._wakeup.set()
        if self._thread is None:
            self._thread = threading.Thread(target=self._send_loop, name="pliant-report", daemon=True)
            self._thread.start()

    def close(self) -> None:
        """Let the last report out, if it goes quickly."""
        self._closing.set()
        self._wakeup.set()
        if self._thread is not None:
            self._thread.join(2 * REQUEST_TIMEOUT)

    def _send_loop(self) -> None:
        while not self._closing.is_set() or self._pending:
            self._wakeup.wait()
            self._wakeup.clear()
            figures, self._pending = self._pending, {}
            if figures:
                _post(figures)
            self._closing.wait(MIN_SEND_INTERVAL)


def _post(metrics: dict[str, float]) -> None:
    # JSON has no word for nan and the infinities, but losses have.
    body = json.dumps({name: value if abs(value) < float("inf") else str(value) for name, value in metrics.items()})
    headers = {"Authorization": f"Bearer {os.environ.get('PLIANT_REPORT_TOKEN', '')}"}
    try:
        request = urllib.request.Request(os.environ["PLIANT_REPORT_URL"], body.encode(), headers)  # noqa: S310
        urllib.request.urlopen(request, timeout=REQUEST_TIMEOUT).close()  # noqa: S310
    except (OSError, ValueError):
        pass  # nobody listens: training goes on


_sender = _ReportSender()


def _reset_after_fork() -> None:
    """A child that was forked has no thread, and locks that nobody will open."""
    global _sender
    _sender = _ReportSender()


os.register_at_fork(after_in_child=_reset_after_fork)
atexit.register(lambda: _sender.close())


def report(**metrics: Any) -> None:
    """Tell how the training goes: `report(step=10, total=1000, loss=0.5)`; only numbers are told."""
    told = {name: float(value) for name, value in metrics.items() if value is not None}
    words = [f"{name}={int(value) if value.is_integer() else f'{value:.6g}'}" for name, value in told.items()]
    sys.stdout.write(" ".join(("pliant:", *words)) + "\n")
    sys.stdout.flush()
    if os.environ.get("PLIANT_REPORT_URL"):
        _sender.send(told)
