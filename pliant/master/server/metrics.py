"""Prometheus metrics of a job: steps, speed, members, shards and goodput."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Literal

from pliant.master.members.membership import WORKER_TYPES
from pliant.runtime.metrics import MetricFamily, MetricSample, render_exposition

if TYPE_CHECKING:
    from pliant.master.server.service import MasterService


def render_metrics(service: MasterService) -> str:
    return render_exposition(_metric_families(service))


def _metric_families(service: MasterService) -> Iterator[MetricFamily]:
    goodput, dispatcher = service.goodput, service.dispatcher
    yield _single("step", "gauge", "Highest step of any member.", goodput.max_step)
    heartbeats = [heartbeat for key, heartbeat in service.heartbeats().items() if key.type in WORKER_TYPES]
    samples = sum(heartbeat.samples or 0.0 for heartbeat in heartbeats)
    yield _single("samples", "gauge", "Samples processed by the present members.", samples)
    speeds: list[MetricSample] = [({"workers": str(n)}, speed) for n, speed in service.speed_by_worker_count().items()]
    yield MetricFamily("pliant_master_speed", "gauge", "Measured samples per second by number of workers.", speeds)
    counts = Counter((member.key.type, member.status.value) for member in service.members)
    members: list[MetricSample] = [({"type": type_, "status": status}, n) for (type_, status), n in counts.items()]
    yield MetricFamily("pliant_master_members", "gauge", "Members by type and status.", members)
    yield _single("generation", "gauge", "Generation of the membership.", service.membership.generation)
    yield _single("rounds_total", "counter", "Closed rendezvous rounds.", service.rendezvous.round_number)
    yield _single("ps_version", "gauge", "Version of the parameter server set.", service.parameter_servers.version)
    shards: list[MetricSample] = [
        ({"state": "done"}, sum(data.done_count for data in dispatcher.datasets)),
        ({"state": "assigned"}, sum(data.assigned_count for data in dispatcher.datasets)),
        ({"state": "available"}, sum(data.available_count for data in dispatcher.datasets)),
    ]
    yield MetricFamily("pliant_master_shards", "gauge", "Shards of all datasets by state.", shards)
    returned = dispatcher.returned_count
    yield _single("shards_returned_total", "counter", "Shards taken back from lost members.", returned)
    yield _single("goodput", "gauge", "Useful time divided by elapsed time since the job started.", goodput.goodput)
    useful, elapsed = goodput.useful_seconds, goodput.elapsed_seconds
    yield _single("useful_seconds_total", "counter", "Time in which the job made progress.", useful)
    yield _single("elapsed_seconds_total", "counter", "Time in which a master was running.", elapsed)


def _single(name: str, kind: Literal["counter", "gauge"], description: str, value: float) -> MetricFamily:
    return MetricFamily(f"pliant_master_{name}", kind, description, [({}, value)])
