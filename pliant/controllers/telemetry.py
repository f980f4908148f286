"""What an operator tells about itself: how it fares and what it has been doing."""

from __future__ import annotations

import os
import platform
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from http import HTTPStatus
from pathlib import Path
from typing import Any

from pliant import __version__
from pliant.controllers.autoscale.controller import Autoscaler
from pliant.controllers.operator import Operator
from pliant.kube.joined import AnyInformer
from pliant.kube.metering import Call
from pliant.kube.pacing import Pace
from pliant.runtime.controller import Controller, Result
from pliant.runtime.health import Page, Pages
from pliant.runtime.metrics import CONTENT_TYPE, Family, Histogram, exposition


class Telemetry:
    """Collects what is asked for at the moment it is asked for; meanwhile it costs next to nothing."""

    def __init__(self) -> None:
        self.operator: Operator | None = None
        """The one at work, once there is one."""
        self.is_leading: Callable[[], bool] = lambda: True
        self._calls: Counter[Call] = Counter()
        self._durations: defaultdict[tuple[str, str], Histogram] = defaultdict(Histogram)

    def note_call(self, call: Call, seconds: float) -> None:
        """Count a call to the API server."""
        self._calls[call] += 1
        self._durations[call.verb, call.resource].note(seconds)

    @property
    def pages(self) -> Pages:
        """Where monitors and probes look."""
        return {"/metrics": self._metrics, "/healthz": lambda: Page("ok\n"), "/readyz": self._readiness}

    def _readiness(self) -> Page:
        """A standby is ready, too: otherwise no roll-out would ever get past the leader it replaces."""
        if self.operator is None or self.operator.is_ready:
            return Page("ok\n")
        missing = [name for name, informer in self.operator.informers.items() if not informer.is_synced]
        return Page(f"not yet listed: {', '.join(missing)}\n", HTTPStatus.SERVICE_UNAVAILABLE)

    def _metrics(self) -> Page:
        return Page(exposition(self._families()), content_type=CONTENT_TYPE)

    def _families(self) -> Iterator[Family]:
        about = {"version": __version__, "python": platform.python_version()}
        yield Family("pliant_build_info", "gauge", "Which Pliant this is.", [(about, 1)])
        yield Family("pliant_leader", "gauge", "Whether this process leads.", [({}, int(self.is_leading()))])
        if self.operator is not None:
            yield from _controllers(self.operator.controllers)
            scaler = self.operator.autoscaler
            yield from _informers({**self.operator.informers, **(scaler.informers if scaler else {})})
            yield from _pace(self.operator.pace)
            yield from _autoscaler(scaler)
        yield Family(
            "pliant_api_requests_total",
            "counter",
            "Calls to the API server by verb, resource and status; none without an answer.",
            [(call._asdict(), count) for call, count in sorted(self._calls.items())],
        )
        yield Family(
            "pliant_api_request_seconds",
            "histogram",
            "How long calls to the API server took; of a watch, until it began.",
            [({"verb": verb, "resource": what}, found) for (verb, what), found in sorted(self._durations.items())],
        )
        yield Family(
            "process_cpu_seconds_total", "counter", "CPU time of this process.", [({}, time.process_time())]
        )
        yield Family(
            "process_resident_memory_bytes", "gauge", "Memory of this process.", [({}, _resident_memory())]
        )


_OF_CONTROLLERS: tuple[tuple[Any, ...], ...] = (
    ("pliant_queue_depth", "gauge", "Keys that wait for a worker.", lambda it: it.queue.depth),
    ("pliant_queue_wait_seconds", "histogram", "How long keys waited for a worker.", lambda it: it.queue.waits),
    ("pliant_workers", "gauge", "Workers there are.", lambda it: it.workers),
    ("pliant_workers_busy", "gauge", "Workers at work.", lambda it: it.queue.active),
    ("pliant_reconcile_seconds", "histogram", "How long reconciliations took.", lambda it: it.durations),
)
_OF_INFORMERS: tuple[tuple[Any, ...], ...] = (
    ("pliant_informer_objects", "gauge", "Objects known.", lambda it: len(it.store)),
    ("pliant_informer_lists_total", "counter", "Whole collections read.", lambda it: it.lists),
    ("pliant_informer_watches_total", "counter", "Watches begun.", lambda it: it.watches),
)


def _controllers(controllers: Mapping[str, Controller[Any]]) -> Iterator[Family]:
    for name, kind, told, value in _OF_CONTROLLERS:
        yield Family(name, kind, told, [({"controller": it}, value(found)) for it, found in controllers.items()])
    ends = [
        ({"controller": it, "result": result}, found.results[result])
        for it, found in controllers.items()
        for result in Result
    ]
    yield Family("pliant_reconciles_total", "counter", "Reconciliations, by how they ended.", ends)


def _informers(informers: Mapping[str, AnyInformer[Any]]) -> Iterator[Family]:
    for name, kind, told, value in _OF_INFORMERS:
        yield Family(name, kind, told, [({"resource": it}, value(found)) for it, found in informers.items()])


def _pace(pace: Pace) -> Iterator[Family]:
    yield Family("pliant_write_limit", "gauge", "Writes that may be in flight now.", [({}, int(pace.limit))])
    yield Family("pliant_writes_in_flight", "gauge", "Writes that are in flight.", [({}, pace.in_flight)])
    yield Family("pliant_writes_waiting", "gauge", "Writes that wait for their turn.", [({}, pace.waiting)])
    yield Family(
        "pliant_write_pushbacks_total",
        "counter",
        "Writes that the API server turned away as too many.",
        [({}, pace.pushbacks)],
    )


def _autoscaler(found: Autoscaler | None) -> Iterator[Family]:
    """How often sizes were planned is the count of how long it took."""
    if found is None:
        return
    yield Family("pliant_autoscaler_jobs", "gauge", "Jobs whose size may be set.", [({}, len(found.register))])
    yield Family(
        "pliant_autoscaler_plan_seconds", "histogram", "How long plans of all sizes took.", [({}, found.planning)]
    )
    orders = [({"reason": reason}, number) for reason, number in sorted(found.resizes.items())]
    yield Family("pliant_autoscaler_resizes_total", "counter", "Sizes ordered, by the kind of reason.", orders)


def _resident_memory() -> int:
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except OSError:
        return 0  # only Linux tells
    return pages * os.sysconf("SC_PAGE_SIZE")
