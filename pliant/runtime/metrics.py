"""Counters, gauges and histograms in the Prometheus text format."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import accumulate
from typing import Literal

DURATION_BUCKET_BOUNDS_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
"""Upper bounds in seconds, from a local call to one that hangs."""

METRICS_CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class Histogram:
    __slots__ = ("bounds", "counts", "total")

    def __init__(self, bounds: tuple[float, ...] = DURATION_BUCKET_BOUNDS_SECONDS) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.total = 0.0

    def observe(self, value: float) -> None:
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value

    @property
    def count(self) -> int:
        return sum(self.counts)


MetricLabels = Mapping[str, str]
MetricSample = tuple[MetricLabels, float | Histogram]


@dataclass(frozen=True, slots=True)
class MetricFamily:
    """A metric with its samples. Labels never hold names chosen by users, which would be unbounded."""

    name: str
    kind: Literal["counter", "gauge", "histogram"]
    help: str
    samples: Iterable[MetricSample]


def render_exposition(families: Iterable[MetricFamily]) -> str:
    return "".join(f"{line}\n" for family in families for line in _family_lines(family))


def _family_lines(family: MetricFamily) -> Iterator[str]:
    yield f"# HELP {family.name} {family.help}"
    yield f"# TYPE {family.name} {family.kind}"
    for labels, value in family.samples:
        if isinstance(value, Histogram):
            yield from _histogram_lines(family.name, labels, value)
        else:
            yield f"{family.name}{_format_labels(labels)} {value}"


def _histogram_lines(name: str, labels: MetricLabels, histogram: Histogram) -> Iterator[str]:
    bounds = [*(f"{bound:g}" for bound in histogram.bounds), "+Inf"]
    for bound, count in zip(bounds, accumulate(histogram.counts), strict=True):
        yield f"{name}_bucket{_format_labels({**labels, 'le': bound})} {count}"
    yield f"{name}_sum{_format_labels(labels)} {histogram.total}"
    yield f"{name}_count{_format_labels(labels)} {histogram.count}"


def _format_labels(labels: MetricLabels) -> str:
    if not labels:
        return ""
    return "{" + ",".join(f'{name}="{_escape_label_value(value)}"' for name, value in labels.items()) + "}"


def _escape_label_value(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
