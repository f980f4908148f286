"""Compares the autoscaler with the published one: simulates both experiments of EDL, and a large one.

    python -m bench.autoscale [edl-1] [edl-2] [large] [--runs 10] [--jobs 100000]

Each policy runs ten times, as in the publication, with a jitter of one half on all delays: the delays of current
clusters, and those with which the published autoscaler approximately reproduces its published results. The columns
`OFF` and `ON` are the published results: means of ten runs on 133 real nodes, recomputed from the raw logs. Each cell
is the mean, with minimum and maximum where runs differ. All results except CPU times are deterministic.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from random import Random
from statistics import fmean

from pliant.autoscale.policies.registry import SIMULATION_POLICIES
from pliant.simulation.delays import EDL_DELAYS, SimulatedDelays
from pliant.simulation.experiments import TRACE_FACTORY_BY_EXPERIMENT
from pliant.simulation.metrics import RunSummary
from pliant.simulation.run import NO_POLICY_NAME, SimulationSettings, settings_with_policy_timing, simulate_trace

POLICIES = (NO_POLICY_NAME, "edl-published", "edl", "fair", "goodput")
DELAYS = {"delays of current clusters": SimulatedDelays(jitter=0.5), "delays of the published cluster": EDL_DELAYS}
Row = tuple[str, Callable[[RunSummary], float], str]
"""A label, a function that reads the value, and its format."""

PENDING: Row = ("pending, mean, s", lambda summary: summary.pending_mean, "{:.1f}")
NEVER_STARTED: Row = ("never started", lambda summary: summary.never_started_jobs, "{:.0f}")
FAIRNESS: Row = ("Jain at the plateau", lambda summary: summary.jain_plateau, "{:.2f}")
USED: Row = ("CPU used, %", lambda summary: summary.cpu_utilization_mean * 100, "{:.1f}")
PLATEAU: Row = ("  at the plateau, %", lambda summary: summary.cpu_utilization_plateau * 100, "{:.1f}")
OFF_PEAK: Row = ("  off-peak, %", lambda summary: summary.cpu_utilization_windows["off-peak"] * 100, "{:.1f}")
NGINX_MEAN: Row = ("Nginx pending, mean, s", lambda summary: summary.service_pod_wait_mean, "{:.1f}")
NGINX_MAX: Row = ("  maximum, s", lambda summary: summary.service_pod_wait_max, "{:.1f}")
RESIZES: Row = ("resizes", lambda summary: summary.resizes, "{:.0f}")
ROUNDS: Row = ("planning rounds", lambda summary: summary.planning_rounds, "{:.0f}")
COMPLETION: Row = ("completion, mean, s", lambda summary: summary.completion_mean or 0.0, "{:.0f}")

ROWS: Mapping[str, tuple[Row, ...]] = {
    "edl-1": (PENDING, NEVER_STARTED, FAIRNESS, USED, PLATEAU, RESIZES, ROUNDS),
    "edl-2": (PENDING, NEVER_STARTED, FAIRNESS, USED, OFF_PEAK, NGINX_MEAN, NGINX_MAX, RESIZES, ROUNDS),
    "large": (PENDING, NEVER_STARTED, COMPLETION, PLATEAU, RESIZES, ROUNDS),
}
PUBLISHED: Mapping[str, Mapping[str, tuple[str, str]]] = {
    "edl-1": {
        PENDING[0]: ("308.5", "47.2"),
        NEVER_STARTED[0]: ("14", "0 to 3"),
        FAIRNESS[0]: ("", "0.44"),
        USED[0]: ("76.2", "76.3"),
        PLATEAU[0]: ("88", "86"),
    },
    "edl-2": {PENDING[0]: ("1.5", "49.1"), USED[0]: ("61.9", "83.4"), OFF_PEAK[0]: ("44.9", "79.4")},
    "large": {},
}
"""The published results, without the autoscaler and with it."""


@dataclass(frozen=True, slots=True)
class PolicyResult:
    """The results of several runs under one policy."""

    policy: str
    summaries: list[RunSummary]
    seconds: float
    """Mean CPU time of one run."""
    planning_seconds: float

    def format_cell(self, row: Row) -> str:
        """Format the mean, with minimum and maximum if they differ."""
        _, read, number_format = row
        values = [read(summary) for summary in self.summaries]
        minimum, mean, maximum = (number_format.format(value) for value in (min(values), fmean(values), max(values)))
        return mean if minimum == maximum else f"{mean} ({minimum}–{maximum})"


def run_experiment(name: str, policy: str, delays: SimulatedDelays, runs: int, jobs: int | None = None) -> PolicyResult:
    """Simulate an experiment this number of times."""
    trace = TRACE_FACTORY_BY_EXPERIMENT[name](Random(1), jobs)
    started, planning, summaries = time.process_time(), 0.0, []
    for seed in range(runs):
        settings = settings_with_policy_timing(policy, trace, SimulationSettings(delays=delays, seed=seed))
        outcome = simulate_trace(trace, SIMULATION_POLICIES.get(policy), settings, stopwatch=time.process_time)
        planning += outcome.planning_seconds
        summaries.append(outcome.summary)
    return PolicyResult(policy, summaries, (time.process_time() - started) / runs, planning / runs)


def print_table(name: str, title: str, results: list[PolicyResult]) -> None:
    """Print a table with one row per measure; the columns are the published results, then the policies."""
    published = PUBLISHED[name]
    headers = ["OFF", "ON"] if published else []
    print(f"{name}, {title}")
    print(
        " " * 22 + "".join(f"{header:>8}" for header in headers) + "".join(f"{result.policy:>21}" for result in results)
    )
    for row in ROWS[name]:
        published_cells = "".join(f"{cell:>8}" for cell in published.get(row[0], ("", ""))) if published else ""
        print(f"{row[0]:<22}{published_cells}" + "".join(f"{result.format_cell(row):>21}" for result in results))
    blank = " " * 8 * len(headers)
    print(f"{'CPU per run, s':<22}{blank}" + "".join(f"{result.seconds:>21.2f}" for result in results))
    print(f"{'  planning, s':<22}{blank}" + "".join(f"{result.planning_seconds:>21.2f}" for result in results))


def main() -> None:
    """Simulate and print."""
    parser = argparse.ArgumentParser(description="Compare the autoscaler with the published one.")
    parser.add_argument("experiments", nargs="*", metavar="NAME", help="edl-1 and edl-2, or large")
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--jobs", type=int, default=100_000, help="number of jobs of the large experiment")
    parser.add_argument("--policies", default="", help="comma-separated policies (default: all)")
    args = parser.parse_args()
    chosen = tuple(filter(None, args.policies.split(",")))
    for name in args.experiments or ["edl-1", "edl-2"]:
        if name == "large":
            policies = chosen or (NO_POLICY_NAME, "fair", "goodput")
            print_table(
                name,
                f"{args.jobs:,} jobs",
                [run_experiment(name, policy, SimulatedDelays(), 1, args.jobs) for policy in policies],
            )
            continue
        for title, delays in DELAYS.items():
            print_table(name, title, [run_experiment(name, policy, delays, args.runs) for policy in chosen or POLICIES])
            print()


if __name__ == "__main__":
    main()
