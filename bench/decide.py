"""Measures the CPU time of decisions about large jobs, and how it grows with the size of the job.

    python -m bench.decide [--sizes 1000 4000] [--rounds 7]

Each round measures every size once, so that other load on the machine affects all of them equally. The
job has one group with one port. `startup` creates every pod and service with
their manifests; `unshared` does the same with a framework that shares nothing among replicas; in `running`
all replicas run and there is nothing to do; in `one lost` the
operator must replace a single pod.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime

from pliant.engine.decide import decide
from pliant.frameworks.generic import Generic
from pliant.frontends.aitrainingjob.job import AITrainingJobFrontend
from pliant.model.framework import Framework, Rank
from pliant.model.job import Job
from pliant.model.labels import replica_pod_name
from pliant.model.observed import Observed, ObservedPod, ObservedService, PodPhase

NOW = datetime(2030, 1, 1, tzinfo=UTC)


def make_job(size: int) -> Job:
    """Parse the manifest of a job with one group of this size."""
    container = {
        "name": "aitj-main",
        "image": "registry.example.org/team-a/bert:2030.01",
        "command": ["python", "-m", "train"],
        "ports": [{"name": "aitj-rendezvous", "containerPort": 29500}],
        "resources": {"limits": {"cpu": "8", "memory": "64Gi", "nvidia.com/gpu": "1"}},
    }
    group = {"replicas": size, "template": {"spec": {"containers": [container]}}}
    return AITrainingJobFrontend().parse(
        {
            "metadata": {"name": "bert", "namespace": "team-a", "uid": "1", "creationTimestamp": NOW.isoformat()},
            "spec": {"replicaSpecs": {"worker": group}},
        }
    )


def observe_running(job: Job, lost: int = 0) -> Observed:
    """Return an observation in which all replicas run, except the last `lost` ones."""
    [group] = job.groups
    names = [replica_pod_name(job, group.name, index) for index in range(group.size)]
    pods = tuple(
        ObservedPod(name=name, uid=name, group=group.name, index=index, attempt=0, phase=PodPhase.RUNNING)
        for index, name in enumerate(names[: len(names) - lost])
    )
    return Observed(pods=pods, services={name: ObservedService(name=name, uid=name) for name in names})


class UnsharedFramework(Generic):
    """A framework that lists all replicas for each replica."""

    def shared_environment(self, job: Job) -> Mapping[str, str]:
        return {}

    def environment(self, job: Job, rank: Rank, container: str) -> Mapping[str, str]:
        return {**super().environment(job, rank, container), **super().shared_environment(job)}


def measure_decision(job: Job, observed: Observed, framework: Framework) -> float:
    """Return the CPU seconds of one decision."""
    started = time.process_time()
    decide(job, None, observed, framework, NOW)
    return time.process_time() - started


CASES: dict[str, tuple[Callable[[Job], Observed], Framework]] = {
    "startup": (lambda job: Observed(), Generic()),
    "unshared": (lambda job: Observed(), UnsharedFramework()),
    "running": (observe_running, Generic()),
    "one lost": (lambda job: observe_running(job, lost=1), Generic()),
}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description="Measure the CPU time of decisions about large jobs.")
    parser.add_argument("--sizes", type=int, nargs="+", default=[1000, 4000])
    parser.add_argument("--rounds", type=int, default=7)
    args = parser.parse_args()
    jobs = {size: make_job(size) for size in args.sizes}
    observations = {(case, size): observe(jobs[size]) for case, (observe, _) in CASES.items() for size in args.sizes}
    times: dict[tuple[str, int], list[float]] = {key: [] for key in observations}
    for _ in range(args.rounds):
        for (case, size), observed in observations.items():
            times[case, size].append(measure_decision(jobs[size], observed, CASES[case][1]))
    first_size = args.sizes[0]
    for case in CASES:
        for size in args.sizes:
            samples = times[case, size]
            median, base = statistics.median(samples), statistics.median(times[case, first_size])
            range_text = f"({min(samples) * 1e3:.1f} to {max(samples) * 1e3:.1f})"
            print(f"{case:<10} {size:>6} replicas {median * 1e3:8.1f} ms {range_text:<18} {median / base:6.2f} ×")


if __name__ == "__main__":
    main()
