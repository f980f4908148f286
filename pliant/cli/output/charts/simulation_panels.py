"""Turns simulation results into charts: utilization, pending pods, fairness and job sizes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pliant.cli.output.charts.panels import ChartLine, ChartPanel
from pliant.cli.output.charts.svg import render_svg
from pliant.simulation.run import SimulationResult


def render_simulation_svg(results: Sequence[SimulationResult], title: str) -> str:
    """Draw the comparison of policies, then the job sizes under each policy."""
    panels = [
        *_comparison_panels(results),
        *(_job_size_panel(result) for result in results if result.series.running_by_job),
    ]
    return render_svg(panels, title, max((result.series.times[-1] for result in results), default=0.0))


def _comparison_panels(results: Sequence[SimulationResult]) -> list[ChartPanel]:
    def lines(values: Iterable[Sequence[float]]) -> tuple[ChartLine, ...]:
        return tuple(
            ChartLine(name=result.summary.policy, times=result.series.times, values=list(row))
            for result, row in zip(results, values, strict=True)
        )

    runs = [result.series for result in results]
    utilization = lines([fraction * 100 for fraction in run.cpu_utilization] for run in runs)
    return [
        ChartPanel(title="CPU utilization", lines=utilization, unit=" %", min_axis_max=100.0),
        ChartPanel(title="pending pods", lines=lines(run.pending_pods for run in runs), min_axis_max=1.0),
        ChartPanel(title="fairness (Jain’s index)", lines=lines(run.fairness for run in runs), min_axis_max=1.0),
    ]


def _job_size_panel(result: SimulationResult) -> ChartPanel:
    series = result.series
    lines = tuple(
        ChartLine(name=name, times=series.times[series.first_sample_by_job[name] :], values=counts)
        for name, counts in series.running_by_job.items()
    )
    return ChartPanel(title=f"running replicas by job, policy {result.summary.policy}", lines=lines, min_axis_max=1.0)
