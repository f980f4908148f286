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
from pliant.controllers.autoscale.controller import AutoscaleController
from pliant.controllers.operator import Operator
from pliant.kube.cache.multi_namespace import AnyInformer
from pliant.kube.transport.metered import ApiCall
from pliant.kube.transport.write_limiter import AdaptiveWriteLimiter
from pliant.runtime.controller import Controller, ReconcileResult
from pliant.runtime.http_pages import HttpPage, HttpPages
from pliant.runtime.metrics import CONTENT_TYPE, Histogram, MetricFamily, render_exposition


class OperatorTelemetry:
    """Collects what is asked for at the moment it is asked for; meanwhile it costs next to nothing."""

    def __init__(self) -> None:
        self.operator: Operator | None = None
        """The one at work, once there is one."""
        self.is_leading: Callable[[], bool] = lambda: True
        self._call_counts: Counter[ApiCall] = Counter()
        self._call_durations: defaultdict[tuple[str, str], Histogram] = defaultdict(Histogram)

    def record_api_call(self, call: ApiCall, seconds: float) -> None:
        """Count a call to the API server."""
        self._call_counts[call] += 1
        self._call_durations[call.verb, call.resource].observe(seconds)

    @property
    def http_pages(self) -> HttpPages:
        """Where monitors and probes look."""
        return {"/metrics": self._metrics_page, "/healthz": lambda: HttpPage("ok\n"), "/readyz": self._readiness_page}

    def _readiness_page(self) -> HttpPage:
        """A standby is ready, too: otherwise no roll-out would ever get past the leader it replaces."""
        if self.operator is None or self.operator.is_ready:
            return HttpPage("ok\n")
        missing = [name for name, informer in self.operator.informers.items() if not informer.is_synced]
        return HttpPage(f"not yet listed: {', '.join(missing)}\n", HTTPStatus.SERVICE_UNAVAILABLE)

    def _metrics_page(self) -> HttpPage:
        return HttpPage(render_exposition(self._metric_families()), content_type=CONTENT_TYPE)

    def _metric_families(self) -> Iterator[MetricFamily]:
        about = {"version": __version__, "python": platform.python_version()}
        yield MetricFamily("pliant_build_info", "gauge", "Which Pliant this is.", [(about, 1)])
        yield MetricFamily("pliant_leader", "gauge", "Whether this process leads.", [({}, int(self.is_leading()))])
        if self.operator is not None:
            yield from _controller_families(self.operator.controllers)
            scaler = self.operator.autoscaler
            yield from _informer_families({**self.operator.informers, **(scaler.own_informers if scaler else {})})
            yield from _write_limit_families(self.operator.write_limiter)
            yield from _autoscaler_families(scaler)
        yield MetricFamily(
            "pliant_api_requests_total",
            "counter",
            "Calls to the API server by verb, resource and status; none without an answer.",
            [(call._asdict(), count) for call, count in sorted(self._call_counts.items())],
        )
        yield MetricFamily(
            "pliant_api_request_seconds",
            "histogram",
            "How long calls to the API server took; of a watch, until it began.",
            [({"verb": verb, "resource": what}, found) for (verb, what), found in sorted(self._call_durations.items())],
        )
        yield MetricFamily(
            "process_cpu_seconds_total", "counter", "CPU time of this process.", [({}, time.process_time())]
        )
        yield MetricFamily(
            "process_resident_memory_bytes", "gauge", "Memory of this process.", [({}, _resident_memory_bytes())]
        )


_CONTROLLER_METRICS: tuple[tuple[Any, ...], ...] = (
    ("pliant_queue_depth", "gauge", "Keys that wait for a worker.", lambda it: it.queue.depth),
    (
        "pliant_queue_wait_seconds",
        "histogram",
        "How long keys waited for a worker.",
        lambda it: it.queue.wait_durations,
    ),
    ("pliant_workers", "gauge", "Workers there are.", lambda it: it.workers),
    ("pliant_workers_busy", "gauge", "Workers at work.", lambda it: it.queue.active_count),
    ("pliant_reconcile_seconds", "histogram", "How long reconciliations took.", lambda it: it.durations),
)
_INFORMER_METRICS: tuple[tuple[Any, ...], ...] = (
    ("pliant_informer_objects", "gauge", "Objects known.", lambda it: len(it.store)),
    ("pliant_informer_lists_total", "counter", "Whole collections read.", lambda it: it.list_count),
    ("pliant_informer_watches_total", "counter", "Watches begun.", lambda it: it.watch_count),
)


def _controller_families(controllers: Mapping[str, Controller[Any]]) -> Iterator[MetricFamily]:
    for name, kind, told, value in _CONTROLLER_METRICS:
        yield MetricFamily(name, kind, told, [({"controller": it}, value(found)) for it, found in controllers.items()])
    ends = [
        ({"controller": it, "result": result}, found.results[result])
        for it, found in controllers.items()
        for result in ReconcileResult
    ]
    yield MetricFamily("pliant_reconciles_total", "counter", "Reconciliations, by how they ended.", ends)


def _informer_families(informers: Mapping[str, AnyInformer[Any]]) -> Iterator[MetricFamily]:
    for name, kind, told, value in _INFORMER_METRICS:
        yield MetricFamily(name, kind, told, [({"resource": it}, value(found)) for it, found in informers.items()])


def _write_limit_families(write_limiter: AdaptiveWriteLimiter) -> Iterator[MetricFamily]:
    yield MetricFamily(
        "pliant_write_limit", "gauge", "Writes that may be in flight now.", [({}, int(write_limiter.limit))]
    )
    yield MetricFamily(
        "pliant_writes_in_flight", "gauge", "Writes that are in flight.", [({}, write_limiter.in_flight)]
    )
    yield MetricFamily(
        "pliant_writes_waiting", "gauge", "Writes that wait for their turn.", [({}, write_limiter.queued_count)]
    )
    yield MetricFamily(
        "pliant_write_pushbacks_total",
        "counter",
        "Writes that the API server turned away as too many.",
        [({}, write_limiter.throttled_count)],
    )


def _autoscaler_families(autoscaler: AutoscaleController | None) -> Iterator[MetricFamily]:
    """How often sizes were planned is the count of how long it took."""
    if autoscaler is None:
        return
    yield MetricFamily(
        "pliant_autoscaler_jobs", "gauge", "Jobs whose size may be set.", [({}, len(autoscaler.scalable_jobs))]
    )
    yield MetricFamily(
        "pliant_autoscaler_plan_seconds",
        "histogram",
        "How long plans of all sizes took.",
        [({}, autoscaler.plan_durations)],
    )
    orders = [({"reason": reason}, number) for reason, number in sorted(autoscaler.resize_counts.items())]
    yield MetricFamily("pliant_autoscaler_resizes_total", "counter", "Sizes ordered, by the kind of reason.", orders)


def _resident_memory_bytes() -> int:
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except OSError:
        return 0  # only Linux tells
    return pages * os.sysconf("SC_PAGE_SIZE")
