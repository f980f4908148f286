"""What monitors read of a job: its steps, speed, members, shards and goodput."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING

from pliant.master.rounds import WORKING_TYPES
from pliant.runtime.metrics import Family, Sample, exposition

if TYPE_CHECKING:
    from pliant.master.service import Service


def metrics(service: Service) -> str:
    """All figures in the text form that Prometheus reads."""
    return exposition(_families(service))


def _families(service: Service) -> Iterator[Family]:
    progress, rounds = service.progress, service.rounds
    yield Family("pliant_master_step", "gauge", "The furthest step of any member.", [({}, progress.step)])
    yield Family(
        "pliant_master_samples",
        "gauge",
        "Samples that the present members have learned.",
        [({}, _samples(service))],
    )
    speeds: list[Sample] = [({"workers": str(count)}, speed) for count, speed in service.speeds().items()]
    yield Family("pliant_master_speed", "gauge", "Samples per second by number of workers, as measured.", speeds)
    counts = Counter((node.key.type, node.status.value) for node in service.nodes)
    members: list[Sample] = [({"type": kind, "status": status}, n) for (kind, status), n in counts.items()]
    yield Family("pliant_master_members", "gauge", "Members by type and status.", members)
    yield Family("pliant_master_generation", "gauge", "Of the membership.", [({}, service.membership.generation)])
    yield Family("pliant_master_rounds_total", "counter", "Rounds that closed.", [({}, rounds.number)])
    yield Family("pliant_master_ps_version", "gauge", "Of the parameter servers.", [({}, service.ps.version)])
    sets = service.work.sets
    shards: list[Sample] = [
        ({"state": "done"}, sum(data.done for data in sets)),
        ({"state": "held"}, sum(data.held for data in sets)),
        ({"state": "left"}, sum(data.left for data in sets)),
    ]
    yield Family("pliant_master_shards", "gauge", "Shards of all data sets.", shards)
    yield Family(
        "pliant_master_shards_returned_total",
        "counter",
        "Shards that came back from lost members.",
        [({}, service.work.returned)],
    )
    yield Family(
        "pliant_master_goodput",
        "gauge",
        "Useful time by elapsed time, since the job began.",
        [({}, progress.goodput)],
    )
    yield Family(
        "pliant_master_useful_seconds_total", "counter", "In which the job came further.", [({}, progress.useful)]
    )
    yield Family(
        "pliant_master_elapsed_seconds_total", "counter", "In which a master watched.", [({}, progress.elapsed)]
    )


def _samples(service: Service) -> float:
    beats = [beat for key, beat in service.beats().items() if key.type in WORKING_TYPES]
    return sum(beat.samples or 0.0 for beat in beats)
