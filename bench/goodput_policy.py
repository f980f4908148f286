"""Measures by how much `goodput` shortens jobs: it gives replicas to the jobs that gain most throughput.

    python -m bench.goodput_policy [--jobs 150] [--seeds 3 4 5]

Jobs of 1 to 32 replicas with 2 CPUs each are submitted to 30 nodes with 16 CPUs. Some scale linearly, some have a
serial part, and some slow down with many replicas. The same jobs are then simulated with replicas that all restart
at each resize, which costs 20 seconds.
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
REPLICA_SHAPE = PodShape.of({"cpu": 2_000, "memory": 4 * GIB, "pods": 1})
STATIC_SIZE = 8
"""The size of all jobs without an autoscaler."""


def make_trace(jobs: int, seed: int, interval: float, pause: float) -> SimulationTrace:
    """Return jobs with exponentially distributed submission intervals of this mean."""
    rng = Random(seed)
    trace_jobs, submitted_at = [], 0.0
    for number in range(jobs):
        submitted_at += rng.expovariate(1 / interval)
        trace_jobs.append(_make_job(rng, number, submitted_at, pause))
    return SimulationTrace(nodes=(NODES,), jobs=tuple(trace_jobs))


def _make_job(rng: Random, number: int, submitted_at: float, pause: float) -> TraceJob:
    serial, communication = rng.choice((0.0, 0.01, 0.05, 0.2)), rng.choice((0.0, 0.0, 0.001, 0.01))
    work = rng.lognormvariate(8.5, 0.7) * (1.0 if serial < 0.05 else 0.3)
    return TraceJob(
        name=f"job-{number:03d}",
        shape=REPLICA_SHAPE,
        min_size=1,
        max_size=32,
        initial_size=1,
        static_size=STATIC_SIZE,
        submitted_at=round(submitted_at, 2),
        total_work=round(work, 1),
        throughput=ThroughputModel(cost_terms=(1.0 - serial, serial, communication)),
        resize_pause=pause,
    )


def main() -> None:
    """Simulate and print."""
    parser = argparse.ArgumentParser(description="Measure by how much the goodput policy shortens jobs.")
    parser.add_argument("--jobs", type=int, default=150)
    parser.add_argument("--seeds", type=int, nargs="+", default=[3, 4, 5])
    args = parser.parse_args()
    print("   interval     resize pause   policy     completion, mean   CPU used   resizes / job")
    for pause in (0.0, 20.0):
        for interval in (20.0, 30.0, 60.0):
            for name in (NO_POLICY_NAME, *sorted(SELECTABLE_POLICIES)):
                runs = [_simulate(name, make_trace(args.jobs, seed, interval, pause)) for seed in args.seeds]
                completion, utilization, resizes = (statistics.mean(values) for values in zip(*runs, strict=True))
                print(
                    f"{interval:>9.0f} s   {pause:>12.0f} s   {name:<8} {completion:>16.0f} s   {utilization:>8.0%}"
                    f"   {resizes / args.jobs:>13.1f}",
                    flush=True,
                )


def _simulate(name: str, jobs: SimulationTrace) -> tuple[float, float, float]:
    outcome = simulate_trace(
        jobs, SELECTABLE_POLICIES.get(name), settings_with_policy_timing(name, jobs, SimulationSettings())
    )
    summary = outcome.summary
    return (
        summary.completion_mean or float("nan"),
        summary.cpu_utilization_mean,
        float(sum(outcome.resize_counts.values())),
    )


if __name__ == "__main__":
    main()
