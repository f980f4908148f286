"""Health, readiness and metrics pages of the operator."""

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
from pliant.kube.transport.metered import ApiCallLabels
from pliant.kube.transport.write_flows import WriteClass
from pliant.kube.transport.write_limiter import AdaptiveWriteLimiter
from pliant.runtime.controller import Controller, ReconcileResult
from pliant.runtime.http_server import HttpPages, HttpResponse
from pliant.runtime.metrics import METRICS_CONTENT_TYPE, Histogram, MetricFamily, render_exposition


class OperatorTelemetry:
    def __init__(self) -> None:
        self.operator: Operator | None = None  # the running operator; None until it starts
        self.is_leading: Callable[[], bool] = lambda: True
        self._call_counts: Counter[ApiCallLabels] = Counter()
        self._call_durations: defaultdict[tuple[str, str], Histogram] = defaultdict(Histogram)

    def record_api_call(self, call: ApiCallLabels, seconds: float) -> None:
        self._call_counts[call] += 1
        self._call_durations[call.verb, call.resource].observe(seconds)

    @property
    def http_pages(self) -> HttpPages:
        return {
            "/metrics": self._metrics_page,
            "/healthz": lambda: HttpResponse("ok\n"),
            "/readyz": self._readiness_page,
        }

    def _readiness_page(self) -> HttpResponse:
        """Render readiness. A standby is ready, too: otherwise a rolling update would never replace the leader."""
        if self.operator is None or self.operator.is_ready:
            return HttpResponse("ok\n")
        missing = [name for name, informer in self.operator.informers.items() if not informer.is_synced]
        return HttpResponse(f"informers not synced: {', '.join(missing)}\n", HTTPStatus.SERVICE_UNAVAILABLE)

    def _metrics_page(self) -> HttpResponse:
        return HttpResponse(render_exposition(self._metric_families()), content_type=METRICS_CONTENT_TYPE)

    def _metric_families(self) -> Iterator[MetricFamily]:
        build = {"version": __version__, "python": platform.python_version()}
        yield MetricFamily("pliant_build_info", "gauge", "Version of Pliant and of Python.", [(build, 1)])
        yield MetricFamily("pliant_leader", "gauge", "1 if this process leads.", [({}, int(self.is_leading()))])
        if self.operator is not None:
            yield from _controller_families(self.operator.controllers)
            scaler = self.operator.autoscaler
            yield from _informer_families({**self.operator.informers, **(scaler.own_informers if scaler else {})})
            yield from _write_limit_families(self.operator.write_limiter)
            yield from _autoscaler_families(scaler)
        requests = [(call._asdict(), count) for call, count in sorted(self._call_counts.items())]
        durations = [
            ({"verb": verb, "resource": of}, each) for (verb, of), each in sorted(self._call_durations.items())
        ]
        yield MetricFamily("pliant_api_requests_total", "counter", "Requests to the API server.", requests)
        text = "Duration of requests to the API server; for a watch, until it is established."
        yield MetricFamily("pliant_api_request_seconds", "histogram", text, durations)
        cpu_seconds, memory_bytes = time.process_time(), _resident_memory_bytes()
        yield MetricFamily("process_cpu_seconds_total", "counter", "CPU time of this process.", [({}, cpu_seconds)])
        yield MetricFamily("process_resident_memory_bytes", "gauge", "Resident memory.", [({}, memory_bytes)])


_CONTROLLER_METRICS: tuple[tuple[Any, ...], ...] = (
    ("pliant_queue_depth", "gauge", "Keys waiting for a worker.", lambda of: of.queue.depth),
    ("pliant_queue_wait_seconds", "histogram", "Time keys waited for a worker.", lambda of: of.queue.wait_durations),
    ("pliant_workers", "gauge", "Number of workers.", lambda of: of.workers),
    ("pliant_workers_busy", "gauge", "Workers reconciling a key.", lambda of: of.busy_workers),
    ("pliant_reconcile_seconds", "histogram", "Duration of reconciles.", lambda of: of.durations),
)
_INFORMER_METRICS: tuple[tuple[Any, ...], ...] = (
    ("pliant_informer_objects", "gauge", "Objects in the cache.", lambda of: len(of.store)),
    ("pliant_informer_lists_total", "counter", "List requests.", lambda of: of.list_count),
    ("pliant_informer_watches_total", "counter", "Watch requests.", lambda of: of.watch_count),
)


def _controller_families(controllers: Mapping[str, Controller[Any]]) -> Iterator[MetricFamily]:
    for metric, kind, help_text, value_of in _CONTROLLER_METRICS:
        samples = [({"controller": name}, value_of(controller)) for name, controller in controllers.items()]
        yield MetricFamily(metric, kind, help_text, samples)
    results = [
        ({"controller": name, "result": result}, controller.results[result])
        for name, controller in controllers.items()
        for result in ReconcileResult
    ]
    yield MetricFamily("pliant_reconciles_total", "counter", "Reconciles by result.", results)


def _informer_families(informers: Mapping[str, AnyInformer[Any]]) -> Iterator[MetricFamily]:
    for metric, kind, help_text, value_of in _INFORMER_METRICS:
        samples = [({"resource": name}, value_of(informer)) for name, informer in informers.items()]
        yield MetricFamily(metric, kind, help_text, samples)


def _write_limit_families(write_limiter: AdaptiveWriteLimiter) -> Iterator[MetricFamily]:
    limit, in_flight, queue = int(write_limiter.limit), write_limiter.in_flight, write_limiter.queue
    yield MetricFamily("pliant_write_limit", "gauge", "Limit of concurrent writes.", [({}, limit)])
    yield MetricFamily("pliant_writes_in_flight", "gauge", "Writes in flight.", [({}, in_flight)])
    waiting = [({"class": str(each)}, queue.count(each)) for each in WriteClass]
    yield MetricFamily("pliant_writes_waiting", "gauge", "Writes waiting for the limit, by class.", waiting)
    text = "Writes that the API server rejected as too many requests."
    yield MetricFamily("pliant_write_pushbacks_total", "counter", text, [({}, write_limiter.throttled_count)])


def _autoscaler_families(autoscaler: AutoscaleController | None) -> Iterator[MetricFamily]:
    if autoscaler is None:
        return
    jobs, durations = len(autoscaler.scalable_jobs), autoscaler.plan_durations
    yield MetricFamily("pliant_autoscaler_jobs", "gauge", "Jobs whose size the autoscaler sets.", [({}, jobs)])
    yield MetricFamily("pliant_autoscaler_plan_seconds", "histogram", "Duration of planning.", [({}, durations)])
    resizes = [({"reason": reason}, count) for reason, count in sorted(autoscaler.resize_counts.items())]
    yield MetricFamily("pliant_autoscaler_resizes_total", "counter", "Resizes by reason.", resizes)


def _resident_memory_bytes() -> int:
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except OSError:
        return 0  # /proc exists on Linux only
    return pages * os.sysconf("SC_PAGE_SIZE")
