"""The autoscaler beside the one that was published: both experiments of EDL, simulated, and a large one.

    python -m bench.autoscale [edl-1] [edl-2] [large] [--runs 10] [--jobs 100000]

Each policy runs ten times, as was done for the publication, with delays that vary by half: those of a cluster of
today, and those with which the published autoscaler comes to about its published figures. These stand in the
columns `OFF` and `ON`: means of ten runs on 133 real nodes, recomputed from the raw logs. Means, and where runs
differ the least and the most of them. Everything but CPU time is the same each time this is run.
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
DELAYS = {"delays of today": SimulatedDelays(jitter=0.5), "delays as on the cluster of the publication": EDL_DELAYS}
Row = tuple[str, Callable[[RunSummary], float], str]
"""A measure, how to read it, and how to write it."""

PENDING: Row = ("pending, mean, s", lambda it: it.pending_mean, "{:.1f}")
STUCK: Row = ("stuck", lambda it: it.never_started_jobs, "{:.0f}")
FAIRNESS: Row = ("Jain at the plateau", lambda it: it.jain_plateau, "{:.2f}")
USED: Row = ("CPU used, %", lambda it: it.cpu_utilization_mean * 100, "{:.1f}")
PLATEAU: Row = ("  at the plateau, %", lambda it: it.cpu_utilization_plateau * 100, "{:.1f}")
OFF_PEAK: Row = ("  off-peak, %", lambda it: it.cpu_utilization_windows["off-peak"] * 100, "{:.1f}")
NGINX: Row = ("Nginx waits, mean, s", lambda it: it.service_pod_wait_mean, "{:.1f}")
LONGEST: Row = ("  longest, s", lambda it: it.service_pod_wait_max, "{:.1f}")
RESIZES: Row = ("resizes", lambda it: it.resizes, "{:.0f}")
ROUNDS: Row = ("rounds", lambda it: it.planning_rounds, "{:.0f}")
COMPLETION: Row = ("completion, mean, s", lambda it: it.completion_mean or 0.0, "{:.0f}")

ROWS: Mapping[str, tuple[Row, ...]] = {
    "edl-1": (PENDING, STUCK, FAIRNESS, USED, PLATEAU, RESIZES, ROUNDS),
    "edl-2": (PENDING, STUCK, FAIRNESS, USED, OFF_PEAK, NGINX, LONGEST, RESIZES, ROUNDS),
    "large": (PENDING, STUCK, COMPLETION, PLATEAU, RESIZES, ROUNDS),
}
KNOWN: Mapping[str, Mapping[str, tuple[str, str]]] = {
    "edl-1": {
        PENDING[0]: ("308.5", "47.2"),
        STUCK[0]: ("14", "0 to 3"),
        FAIRNESS[0]: ("", "0.44"),
        USED[0]: ("76.2", "76.3"),
        PLATEAU[0]: ("88", "86"),
    },
    "edl-2": {PENDING[0]: ("1.5", "49.1"), USED[0]: ("61.9", "83.4"), OFF_PEAK[0]: ("44.9", "79.4")},
    "large": {},
}
"""What was published, without scaling and with it."""


@dataclass(frozen=True, slots=True)
class Runs:
    """What came of several runs under one policy."""

    policy: str
    figures: list[RunSummary]
    seconds: float
    """CPU that one took, on average."""
    planning: float

    def text(self, row: Row) -> str:
        """The mean, and the least and the most where they differ."""
        _, read, form = row
        values = [read(each) for each in self.figures]
        least, mean, most = (form.format(value) for value in (min(values), fmean(values), max(values)))
        return mean if least == most else f"{mean} ({least}–{most})"


def run(name: str, policy: str, delays: SimulatedDelays, runs: int, jobs: int | None = None) -> Runs:
    """Simulate an experiment so many times."""
    trace = TRACE_FACTORY_BY_EXPERIMENT[name](Random(1), jobs)
    begun, planning, found = time.process_time(), 0.0, []
    for seed in range(runs):
        settings = settings_with_policy_timing(policy, trace, SimulationSettings(delays=delays, seed=seed))
        outcome = simulate_trace(trace, SIMULATION_POLICIES.get(policy), settings, stopwatch=time.process_time)
        planning += outcome.planning_seconds
        found.append(outcome.summary)
    return Runs(policy, found, (time.process_time() - begun) / runs, planning / runs)


def show(name: str, title: str, found: list[Runs]) -> None:
    """Print a table: measures down, the published figures first and then policies across."""
    known = KNOWN[name]
    published = ["OFF", "ON"] if known else []
    print(f"{name}, {title}")
    print(" " * 22 + "".join(f"{word:>8}" for word in published) + "".join(f"{each.policy:>21}" for each in found))
    for row in ROWS[name]:
        there = "".join(f"{cell:>8}" for cell in known.get(row[0], ("", ""))) if known else ""
        print(f"{row[0]:<22}{there}" + "".join(f"{each.text(row):>21}" for each in found))
    blank = " " * 8 * len(published)
    print(f"{'CPU of a run, s':<22}{blank}" + "".join(f"{each.seconds:>21.2f}" for each in found))
    print(f"{'  of that planning':<22}{blank}" + "".join(f"{each.planning:>21.2f}" for each in found))


def main() -> None:
    """Simulate and print."""
    parser = argparse.ArgumentParser(description="The autoscaler beside the one that was published.")
    parser.add_argument("experiments", nargs="*", metavar="NAME", help="edl-1 and edl-2, or large")
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--jobs", type=int, default=100_000, help="of the large one")
    parser.add_argument("--policies", default="", help="in place of all, with commas")
    args = parser.parse_args()
    chosen = tuple(filter(None, args.policies.split(",")))
    for name in args.experiments or ["edl-1", "edl-2"]:
        if name == "large":
            policies = chosen or (NO_POLICY_NAME, "fair", "goodput")
            show(
                name, f"{args.jobs:,} jobs", [run(name, policy, SimulatedDelays(), 1, args.jobs) for policy in policies]
            )
            continue
        for title, delays in DELAYS.items():
            show(name, title, [run(name, policy, delays, args.runs) for policy in chosen or POLICIES])
            print()


if __name__ == "__main__":
    main()
