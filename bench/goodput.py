"""How much sooner jobs end when places go to those that become faster by them.

    python -m bench.goodput [--jobs 150] [--seeds 3 4 5]

Jobs of one to 32 members of 2 CPU come to 30 nodes of 16, one every so often. Some share their work alike
among any number of members, some have a part that they cannot share, some slow down when there are many. The
same jobs again, with members that all start again when their number changes and lose 20 seconds by it. All of
it is simulated.
"""

from __future__ import annotations

import argparse
import statistics
from random import Random

from pliant.autoscale.model import PodShape
from pliant.autoscale.policies.registry import SELECTABLE_POLICIES
from pliant.simulation.run import NO_POLICY_NAME, SimulationSettings, settings_with_policy_timing, simulate_trace
from pliant.simulation.trace import NodeClass, SimulationTrace, ThroughputModel, TraceJob

GIB = 2**30
NODES = NodeClass(name="node", count=30, allocatable={"cpu": 16_000, "memory": 64 * GIB, "pods": 110})
MEMBER = PodShape.of({"cpu": 2_000, "memory": 4 * GIB, "pods": 1})
FIXED = 8
"""The size of all jobs where nobody scales them."""


def trace(jobs: int, seed: int, gap: float, pause: float) -> SimulationTrace:
    """Jobs that come after such gaps on average."""
    chance = Random(seed)
    found, submit = [], 0.0
    for number in range(jobs):
        submit += chance.expovariate(1 / gap)
        found.append(_job(chance, number, submit, pause))
    return SimulationTrace(nodes=(NODES,), jobs=tuple(found))


def _job(chance: Random, number: int, submit: float, pause: float) -> TraceJob:
    alone, talk = chance.choice((0.0, 0.01, 0.05, 0.2)), chance.choice((0.0, 0.0, 0.001, 0.01))
    work = chance.lognormvariate(8.5, 0.7) * (1.0 if alone < 0.05 else 0.3)
    return TraceJob(
        name=f"job-{number:03d}",
        shape=MEMBER,
        min_size=1,
        max_size=32,
        initial_size=1,
        static_size=FIXED,
        submitted_at=round(submit, 2),
        total_work=round(work, 1),
        throughput=ThroughputModel(cost_terms=(1.0 - alone, alone, talk)),
        resize_pause=pause,
    )


def main() -> None:
    """Simulate and print."""
    parser = argparse.ArgumentParser(description="How much sooner jobs end under goodput.")
    parser.add_argument("--jobs", type=int, default=150)
    parser.add_argument("--seeds", type=int, nargs="+", default=[3, 4, 5])
    args = parser.parse_args()
    print("a job every   a resize costs   policy     completion, mean   CPU used   resizes a job")
    for pause in (0.0, 20.0):
        for gap in (20.0, 30.0, 60.0):
            for name in (NO_POLICY_NAME, *sorted(SELECTABLE_POLICIES)):
                runs = [_figures(name, trace(args.jobs, seed, gap, pause)) for seed in args.seeds]
                ended, used, resizes = (statistics.mean(each) for each in zip(*runs, strict=True))
                print(
                    f"{gap:>9.0f} s   {pause:>12.0f} s   {name:<8} {ended:>16.0f} s   {used:>8.0%}"
                    f"   {resizes / args.jobs:>13.1f}",
                    flush=True,
                )


def _figures(name: str, jobs: SimulationTrace) -> tuple[float, float, float]:
    outcome = simulate_trace(
        jobs, SELECTABLE_POLICIES.get(name), settings_with_policy_timing(name, jobs, SimulationSettings())
    )
    figures = outcome.summary
    return (
        figures.completion_mean or float("nan"),
        figures.cpu_utilization_mean,
        float(sum(outcome.resize_counts.values())),
    )


if __name__ == "__main__":
    main()
