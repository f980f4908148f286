"""How long decisions about big jobs take, and that they grow with the job and no faster.

    python -m bench.decide [--sizes 1000 4000] [--rounds 7]

Each round decides about every size once, so that whatever else the machine does falls on all of them alike. The
job has one group that listens on one port. `startup` creates every pod and service with
their manifests; `unshared` does the same with a framework that shares nothing among replicas; in `running`
all replicas run and there is nothing to do; `one lost` must replace a single pod.
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


def job_of(size: int) -> Job:
    """A job of one group, as its YAML says it."""
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


def running(job: Job, lost: int = 0) -> Observed:
    """Every member but the last few."""
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


def seconds(job: Job, seen: Observed, framework: Framework) -> float:
    """The CPU one decision takes."""
    begun = time.process_time()
    decide(job, seen, framework, NOW)
    return time.process_time() - begun


CASES: dict[str, tuple[Callable[[Job], Observed], Framework]] = {
    "startup": (lambda job: Observed(), Generic()),
    "unshared": (lambda job: Observed(), UnsharedFramework()),
    "running": (running, Generic()),
    "one lost": (lambda job: running(job, lost=1), Generic()),
}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description="How long decisions about big jobs take.")
    parser.add_argument("--sizes", type=int, nargs="+", default=[1000, 4000])
    parser.add_argument("--rounds", type=int, default=7)
    args = parser.parse_args()
    jobs = {size: job_of(size) for size in args.sizes}
    sights = {(case, size): see(jobs[size]) for case, (see, _) in CASES.items() for size in args.sizes}
    taken: dict[tuple[str, int], list[float]] = {key: [] for key in sights}
    for _ in range(args.rounds):
        for (case, size), seen in sights.items():
            taken[case, size].append(seconds(jobs[size], seen, CASES[case][1]))
    least = args.sizes[0]
    for case in CASES:
        for size in args.sizes:
            times = taken[case, size]
            here, first = statistics.median(times), statistics.median(taken[case, least])
            spread = f"({min(times) * 1e3:.1f} to {max(times) * 1e3:.1f})"
            print(f"{case:<10} {size:>6} replicas {here * 1e3:8.1f} ms {spread:<18} {here / first:6.2f} ×")


if __name__ == "__main__":
    main()
