"""Built-in traces: the two published EDL experiments and a large random one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from random import Random

from pliant.autoscale.model import PodShape
from pliant.simulation.trace import (
    FixedReplicas,
    MeasurementWindow,
    NodeClass,
    SimulationTrace,
    ThroughputModel,
    TraceJob,
    TraceService,
)

GIB = 1024**3
MAX_PODS_PER_NODE = 110  # the kubelet's default limit

# Published were 133 nodes with 2,348 cores and 13.67 TB in total, some of them with 12 cores.
EDL_NODES = (
    NodeClass(name="small", count=70, allocatable={"cpu": 12_000, "memory": 64_000_000_000, "pods": MAX_PODS_PER_NODE}),
    NodeClass(
        name="large", count=62, allocatable={"cpu": 24_000, "memory": 146_600_000_000, "pods": MAX_PODS_PER_NODE}
    ),
    NodeClass(name="odd", count=1, allocatable={"cpu": 20_000, "memory": 96_010_000_000, "pods": MAX_PODS_PER_NODE}),
)
TRAINER_SHAPE = PodShape.of({"cpu": 5_000, "memory": 8 * GIB, "pods": 1})
EDL_FIXED_REPLICAS = (
    FixedReplicas(name="master", count=1, shape=PodShape.of({"cpu": 1_000, "memory": GIB, "pods": 1})),
    FixedReplicas(name="pserver", count=10, shape=PodShape.of({"cpu": 4_000, "memory": 5 * GIB, "pods": 1})),
)
NGINX_SHAPE = PodShape.of({"cpu": 3_000, "memory": GIB, "pods": 1})


def _edl_job(number: int, submitted_at: float, initial_size: int, static_size: int) -> TraceJob:
    return TraceJob(
        name=f"job-{number:02d}",
        shape=TRAINER_SHAPE,
        min_size=2,
        max_size=60,
        initial_size=initial_size,
        static_size=static_size,
        submitted_at=submitted_at,
        fixed_replicas=EDL_FIXED_REPLICAS,
    )


def edl_training_trace(rng: Random, job_count: int | None) -> SimulationTrace:
    """Return 20 jobs of 2 to 60 trainers, one submitted every 10 seconds; without autoscaling 60 trainers each."""
    return SimulationTrace(
        nodes=EDL_NODES,
        jobs=tuple(_edl_job(number, 10.0 * number, 2, 60) for number in range(job_count or 20)),
        windows=(MeasurementWindow(name="plateau", start=400.0, end=550.0),),
        end_at=550.0,
    )


def edl_mixed_trace(rng: Random, job_count: int | None) -> SimulationTrace:
    """Return 6 jobs with initially 15 trainers beside an Nginx service with 400 to 100 to 400 pods."""
    counts = (400, 300, 200, 100, 200, 300, 400)
    steps = tuple((90.0 * step, number) for step, number in enumerate(counts))
    return SimulationTrace(
        nodes=EDL_NODES,
        jobs=tuple(_edl_job(number, 10.0 * number, 15, 15) for number in range(job_count or 6)),
        services=(TraceService(name="nginx", shape=NGINX_SHAPE, replica_steps=steps),),
        windows=(
            MeasurementWindow(name="plateau", start=90.0, end=630.0),
            MeasurementWindow(name="off-peak", start=300.0, end=360.0),
        ),
        end_at=630.0,
    )


LARGE_CLUSTER_NODES = (
    NodeClass(name="cpu", count=6_000, allocatable={"cpu": 32_000, "memory": 128 * GIB, "pods": MAX_PODS_PER_NODE}),
    NodeClass(name="big", count=2_000, allocatable={"cpu": 96_000, "memory": 384 * GIB, "pods": MAX_PODS_PER_NODE}),
    NodeClass(
        name="gpu",
        count=2_000,
        allocatable={"cpu": 64_000, "memory": 512 * GIB, "nvidia.com/gpu": 8, "pods": MAX_PODS_PER_NODE},
    ),
)
_CPU_SHAPES = tuple(
    PodShape.of({"cpu": cores * 1_000, "memory": cores * gib_per_core * GIB, "pods": 1})
    for cores in (4, 8, 16)
    for gib_per_core in (2, 4)
)
_GPU_SHAPES = tuple(
    PodShape.of({"cpu": gpus * 6_000, "memory": gpus * 32 * GIB, "nvidia.com/gpu": gpus, "pods": 1})
    for gpus in (1, 2, 4)
)
_SERVER_SHAPE = PodShape.of({"cpu": 2_000, "memory": 4 * GIB, "pods": 1})
LARGE_JOB_COUNT = 100_000
SUBMITTED_JOBS_PER_SECOND = 6.0


def large_cluster_trace(rng: Random, job_count: int | None) -> SimulationTrace:
    """Return random jobs on 10,000 nodes, six per second, planned once a minute; 100,000 by default."""
    jobs, submitted_at = [], 0.0
    for number in range(job_count or LARGE_JOB_COUNT):
        submitted_at += rng.expovariate(SUBMITTED_JOBS_PER_SECOND)
        jobs.append(_random_job(rng, number, round(submitted_at, 3)))
    plateau = MeasurementWindow(name="plateau", start=submitted_at * 0.2, end=submitted_at * 0.8)
    return SimulationTrace(
        nodes=LARGE_CLUSTER_NODES, jobs=tuple(jobs), windows=(plateau,), period=60.0, urgent_period=60.0
    )


def _random_job(rng: Random, number: int, submitted_at: float) -> TraceJob:
    has_gpus = rng.random() < 0.12
    min_size = rng.choice((1, 1, 2, 4))
    max_size = min_size * rng.choice((1, 4, 8, 16))
    serial = rng.choice((0.0, 0.002, 0.01))
    minutes = min(rng.lognormvariate(2.1, 0.6), 40.0)
    servers = rng.choice((0, 0, 1, 2)) if not has_gpus else 0
    return TraceJob(
        name=f"job-{number:06d}",
        namespace=f"team-{rng.randrange(20)}",
        shape=rng.choice(_GPU_SHAPES if has_gpus else _CPU_SHAPES),
        min_size=min_size,
        max_size=max_size,
        initial_size=min_size,
        static_size=max_size,
        submitted_at=submitted_at,
        priority=rng.choice((0, 0, 0, 0, 10)),
        fixed_replicas=(FixedReplicas(name="server", count=servers, shape=_SERVER_SHAPE),) if servers else (),
        total_work=round(minutes * 60 * max_size, 1),  # this duration at full size with linear speedup
        throughput=ThroughputModel(cost_terms=(1.0 - serial, serial, 0.0)),
    )


TRACE_FACTORY_BY_EXPERIMENT: Mapping[str, Callable[[Random, int | None], SimulationTrace]] = {
    "edl-1": edl_training_trace,
    "edl-2": edl_mixed_trace,
    "large": large_cluster_trace,
}
"""Trace factories by name; the arguments are a random generator and the number of jobs."""
