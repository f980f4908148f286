"""Traces so small that anybody can work out what must come of them."""

from __future__ import annotations

import pytest

from pliant.autoscale.model import ClusterSnapshot, SizeDecision, SizePlan, SizeReason
from pliant.simulation.autoscaler import SimulatedAutoscalerSettings
from pliant.simulation.delays import SimulatedDelays
from pliant.simulation.run import SimulationResult, SimulationSettings, simulate_trace
from pliant.simulation.trace import (
    MeasurementWindow,
    SimulationTrace,
    ThroughputModel,
    TraceJob,
    TraceService,
    parse_throughput_model,
)
from tests.simulation.traces import cores, job, nodes

AT_ONCE = SimulatedDelays(schedule=0.0, start=0.0, terminate=0.0, reschedule=0.0)


class Most:
    """Gives everybody the most it may have, whether it fits or not."""

    name = "most"

    def plan(self, cluster: ClusterSnapshot) -> SizePlan:
        return {each.key: SizeDecision(each.max_size, SizeReason.SCALE_UP, "told so") for each in cluster.groups}


def run(
    *jobs: TraceJob, cores: int = 4, delays: SimulatedDelays = AT_ONCE, until: float = float("inf")
) -> SimulationResult:
    trace = SimulationTrace(nodes=(nodes(1, cores),), jobs=jobs, end_at=until)
    return simulate_trace(trace, None, SimulationSettings(delays=delays, sample_interval=1.0))


@pytest.mark.parametrize(
    ("jobs", "completion", "used"),
    [
        pytest.param([job("a", 4, work=40)], 10, 1.0, id="four members do forty seconds of work in ten"),
        pytest.param([job("a", 2, work=40)], 20, 0.5, id="two of them in twenty"),
        pytest.param([job("a", 4, work=40), job("b", 4, work=40)], 15, 1.0, id="the second waits for the first"),
        pytest.param([job("a", 2, work=20), job("b", 2, work=20)], 10, 1.0, id="two that fit run side by side"),
        pytest.param([job("a", 2, work=20, servers=2)], 10, 1.0, id="servers take room and do no work"),
        pytest.param(
            [job("a", 4, work=16, speed=ThroughputModel(points=((1, 1.0), (4, 2.0))))],
            8,
            1.0,
            id="a curve says how fast",
        ),
    ],
)
def test_work_takes_its_time(jobs: list[TraceJob], completion: float, used: float) -> None:
    figures = run(*jobs).summary
    assert figures.completion_mean == pytest.approx(completion)
    assert figures.completed_jobs == len(jobs)
    assert figures.cpu_utilization_mean == pytest.approx(used)


def test_delays_add_up() -> None:
    figures = run(job("a", 4, work=40), delays=SimulatedDelays(schedule=1.0, start=2.0, terminate=5.0)).summary
    assert figures.pending_mean == 3.0
    assert figures.completion_mean == 13.0


def test_room_is_free_only_when_those_who_leave_are_gone() -> None:
    delays = SimulatedDelays(schedule=0.0, start=0.0, terminate=5.0, reschedule=2.0)
    figures = run(job("a", 4, work=40), job("b", 4, work=40), delays=delays).summary
    assert figures.pending_max == 10.0 + 5.0 + 2.0


def test_who_never_runs_is_stuck_and_waits_to_the_end() -> None:
    figures = run(job("a", 4), job("b", 4, submit=10.0), until=100.0).summary
    assert (figures.never_started_jobs, figures.pending_max, figures.completed_jobs) == (1, 90.0, 0)


def test_a_job_stands_still_without_its_servers() -> None:
    # Four cores: three servers sit first, then one member of three.
    figures = run(job("a", 3, work=10, servers=3), until=60.0).summary
    assert figures.completed_jobs == 0


def test_of_those_who_wait_the_important_go_first_then_the_older() -> None:
    jobs = [
        job("first", 4, work=40),
        job("plain", 4, work=40, submit=1.0),
        job("vip", 4, work=40, submit=2.0, priority=5),
    ]
    series = run(*jobs).series
    begins = {
        name: series.first_sample_by_job[name] + counts.index(4) for name, counts in series.running_by_job.items()
    }
    assert begins["first"] < begins["vip"] < begins["plain"]


def test_a_policy_is_carried_out_and_newcomers_have_the_highest_index() -> None:
    trace = SimulationTrace(nodes=(nodes(1, 8),), jobs=(job("a", 2, 8, work=80),))
    outcome = simulate_trace(
        trace,
        Most(),
        SimulationSettings(delays=AT_ONCE, sample_interval=1.0, timing=SimulatedAutoscalerSettings(cooldowns=None)),
    )
    # One second with two members, then eight of them.
    assert outcome.summary.completion_mean == pytest.approx(1 + 78 / 8)
    assert outcome.summary.resizes == 1
    assert outcome.resize_counts == {"ScaleUp": 1}


def test_who_starts_anew_loses_time_with_each_resize() -> None:
    trace = SimulationTrace(nodes=(nodes(1, 8),), jobs=(job("a", 2, 8, work=80, pause=5.0),))
    outcome = simulate_trace(
        trace,
        Most(),
        SimulationSettings(delays=AT_ONCE, sample_interval=1.0, timing=SimulatedAutoscalerSettings(cooldowns=None)),
    )
    assert outcome.summary.completion_mean == pytest.approx(1 + 5 + 78 / 8)


def test_without_a_policy_jobs_have_their_fixed_size() -> None:
    assert run(job("a", 1, 4, work=40)).summary.completion_mean == 10.0
    assert run(job("a", 1, 4, work=40, fixed=2)).summary.completion_mean == 20.0


def test_services_come_and_go_by_the_clock() -> None:
    service = TraceService(name="web", shape=cores(1), replica_steps=((0.0, 4), (10.0, 1), (20.0, 6)))
    trace = SimulationTrace(nodes=(nodes(1, 4),), services=(service,), end_at=30.0)
    outcome = simulate_trace(trace, None, SimulationSettings(delays=AT_ONCE, sample_interval=1.0))
    used = dict(zip(outcome.series.times, outcome.series.cpu_utilization, strict=True))
    assert [used[time] for time in (1.0, 10.0, 20.0, 30.0)] == [1.0, 0.25, 1.0, 1.0]
    assert outcome.summary.service_pods_pending == 2


def test_long_jobs_cost_no_more_than_short_ones() -> None:
    outcome = run(job("a", 4, work=4e12))
    assert outcome.summary.completion_mean == pytest.approx(1e12)
    assert outcome.summary.cpu_utilization_plateau == pytest.approx(1.0)
    assert len(outcome.series.times) < 10


def test_windows_that_a_run_never_came_to_are_left_out() -> None:
    late, soon = (
        MeasurementWindow(name="plateau", start=50.0, end=60.0),
        MeasurementWindow(name="soon", start=5.0, end=500.0),
    )
    trace = SimulationTrace(nodes=(nodes(1, 4),), jobs=(job("a", 2),), windows=(late, soon), end_at=20.0)
    figures = simulate_trace(trace, None, SimulationSettings(delays=AT_ONCE, sample_interval=1.0)).summary
    assert (figures.cpu_utilization_windows, figures.cpu_utilization_plateau) == ({"soon": 0.5}, 0.5)


def test_pods_spread_or_pack() -> None:
    trace = SimulationTrace(
        nodes=(nodes(2, 4),), jobs=(job("small", 2), job("big", 1, shape=cores(4), submit=1.0)), end_at=10.0
    )
    spread = simulate_trace(trace, None, SimulationSettings(sample_interval=1.0))
    packed = simulate_trace(trace, None, SimulationSettings(sample_interval=1.0, is_bin_packing=True))
    assert (spread.summary.never_started_jobs, packed.summary.never_started_jobs) == (1, 0)


@pytest.mark.parametrize(
    ("text", "members", "speed"),
    [
        ("linear", 7, 7.0),
        ("cost 0.5 0.5 0", 1, 1.0),
        ("cost 0.5 0.5 0", 1_000_000, 2.0),
        ("1=1 3=2", 2, 1.5),
        ("1=1 3=2", 9, 2.0),
        ("2=4", 1, 2.0),
        ("linear", 0, 0.0),
    ],
)
def test_speeds_are_read(text: str, members: int, speed: float) -> None:
    assert parse_throughput_model(text).throughput_at(members) == pytest.approx(speed, rel=1e-4)
