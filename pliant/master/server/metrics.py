"""What monitors read of a job: its steps, speed, members, shards and goodput."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING

from pliant.master.members.rendezvous import WORKER_TYPES
from pliant.runtime.metrics import MetricFamily, MetricSample, render_exposition

if TYPE_CHECKING:
    from pliant.master.server.service import MasterService


def render_metrics(service: MasterService) -> str:
    """All figures in the text form that Prometheus reads."""
    return render_exposition(_metric_families(service))


def _metric_families(service: MasterService) -> Iterator[MetricFamily]:
    progress, rounds = service.goodput, service.rendezvous
    yield MetricFamily("pliant_master_step", "gauge", "The furthest step of any member.", [({}, progress.max_step)])
    yield MetricFamily(
        "pliant_master_samples",
        "gauge",
        "Samples that the present members have learned.",
        [({}, _total_samples(service))],
    )
    speeds: list[MetricSample] = [
        ({"workers": str(count)}, speed) for count, speed in service.speed_by_workers().items()
    ]
    yield MetricFamily("pliant_master_speed", "gauge", "Samples per second by number of workers, as measured.", speeds)
    counts = Counter((node.key.type, node.status.value) for node in service.members)
    members: list[MetricSample] = [({"type": kind, "status": status}, n) for (kind, status), n in counts.items()]
    yield MetricFamily("pliant_master_members", "gauge", "Members by type and status.", members)
    yield MetricFamily("pliant_master_generation", "gauge", "Of the membership.", [({}, service.membership.generation)])
    yield MetricFamily("pliant_master_rounds_total", "counter", "Rounds that closed.", [({}, rounds.round_number)])
    yield MetricFamily(
        "pliant_master_ps_version", "gauge", "Of the parameter servers.", [({}, service.parameter_servers.version)]
    )
    sets = service.dispatcher.datasets
    shards: list[MetricSample] = [
        ({"state": "done"}, sum(data.done_count for data in sets)),
        ({"state": "held"}, sum(data.held_count for data in sets)),
        ({"state": "left"}, sum(data.available_count for data in sets)),
    ]
    yield MetricFamily("pliant_master_shards", "gauge", "Shards of all data sets.", shards)
    yield MetricFamily(
        "pliant_master_shards_returned_total",
        "counter",
        "Shards that came back from lost members.",
        [({}, service.dispatcher.returned_count)],
    )
    yield MetricFamily(
        "pliant_master_goodput", "gauge", "Useful time by elapsed time, since the job began.", [({}, progress.goodput)]
    )
    yield MetricFamily(
        "pliant_master_useful_seconds_total",
        "counter",
        "In which the job came further.",
        [({}, progress.useful_seconds)],
    )
    yield MetricFamily(
        "pliant_master_elapsed_seconds_total", "counter", "In which a master watched.", [({}, progress.elapsed_seconds)]
    )


def _total_samples(service: MasterService) -> float:
    beats = [beat for key, beat in service.heartbeats().items() if key.type in WORKER_TYPES]
    return sum(beat.samples or 0.0 for beat in beats)
