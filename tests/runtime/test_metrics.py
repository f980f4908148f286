from __future__ import annotations

from pliant.runtime.metrics import Histogram, MetricFamily, render_exposition


def test_numbers_are_written_as_prometheus_reads_them() -> None:
    waits = Histogram((0.1, 1.0))
    for seconds in (0.05, 0.1, 0.5, 7.0):
        waits.observe(seconds)
    text = render_exposition(
        [
            MetricFamily("jobs", "gauge", "Jobs known.", [({}, 3)]),
            MetricFamily("calls_total", "counter", "Calls.", [({"verb": "get", "code": "200"}, 2), ({"verb": "x"}, 0)]),
            MetricFamily("wait_seconds", "histogram", "Waits.", [({"controller": "a"}, waits)]),
        ]
    )
    assert text == (
        "# HELP jobs Jobs known.\n# TYPE jobs gauge\njobs 3\n"
        "# HELP calls_total Calls.\n# TYPE calls_total counter\n"
        'calls_total{verb="get",code="200"} 2\ncalls_total{verb="x"} 0\n'
        "# HELP wait_seconds Waits.\n# TYPE wait_seconds histogram\n"
        'wait_seconds_bucket{controller="a",le="0.1"} 2\n'
        'wait_seconds_bucket{controller="a",le="1"} 3\n'
        'wait_seconds_bucket{controller="a",le="+Inf"} 4\n'
        'wait_seconds_sum{controller="a"} 7.65\n'
        'wait_seconds_count{controller="a"} 4\n'
    )


def test_awkward_labels_are_escaped() -> None:
    text = render_exposition([MetricFamily("x", "gauge", "X.", [({"a": 'back\\slash "quote"\nline'}, 1)])])
    assert 'x{a="back\\\\slash \\"quote\\"\\nline"} 1\n' in text


def test_large_counts_keep_their_last_digit() -> None:
    assert "x 9007199254740993\n" in render_exposition([MetricFamily("x", "counter", "X.", [({}, 9007199254740993)])])
