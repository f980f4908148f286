"""Traces that are made up: the two experiments published for EDL, and one that is large."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from random import Random

from pliant.autoscale.model import Shape
from pliant.simulation.speed import Speed
from pliant.simulation.trace import JobSpec, NodeClass, ServiceSpec, Staff, Trace, Window

GI = 1024**3
PODS = 110
"""How many pods a node takes at most, by default of its kubelet."""

# 133 nodes with 2,348 cores and 13.67 TB between them is what was published, and that some have 12 cores.
EDL_NODES = (
    NodeClass(name="small", count=70, room={"cpu": 12_000, "memory": 64_000_000_000, "pods": PODS}),
    NodeClass(name="large", count=62, room={"cpu": 24_000, "memory": 146_600_000_000, "pods": PODS}),
    NodeClass(name="odd", count=1, room={"cpu": 20_000, "memory": 96_010_000_000, "pods": PODS}),
)
TRAINER = Shape.of({"cpu": 5_000, "memory": 8 * GI, "pods": 1})
STAFF = (
    Staff(name="master", number=1, shape=Shape.of({"cpu": 1_000, "memory": GI, "pods": 1})),
    Staff(name="pserver", number=10, shape=Shape.of({"cpu": 4_000, "memory": 5 * GI, "pods": 1})),
)
NGINX = Shape.of({"cpu": 3_000, "memory": GI, "pods": 1})


def _paddle_job(number: int, submit: float, start: int, fixed: int) -> JobSpec:
    """One of the jobs of both experiments: it does not end while anybody looks."""
    return JobSpec(
        name=f"job-{number:02d}",
        shape=TRAINER,
        least=2,
        most=60,
        start=start,
        fixed=fixed,
        submit=submit,
        staff=STAFF,
    )


def edl_1(random: Random, jobs: int | None) -> Trace:
    """Training alone: 20 jobs of 2 to 60 trainers, one every 10 seconds; 60 each where nobody scales."""
    return Trace(
        nodes=EDL_NODES,
        jobs=tuple(_paddle_job(number, 10.0 * number, 2, 60) for number in range(jobs or 20)),
        windows=(Window(name="plateau", start=400.0, end=550.0),),
        until=550.0,
    )


def edl_2(random: Random, jobs: int | None) -> Trace:
    """Training beside a web service: 6 jobs that come with 15 trainers, and Nginx with 400 to 100 to 400 pods."""
    numbers = (400, 300, 200, 100, 200, 300, 400)
    steps = tuple((90.0 * step, number) for step, number in enumerate(numbers))
    return Trace(
        nodes=EDL_NODES,
        jobs=tuple(_paddle_job(number, 10.0 * number, 15, 15) for number in range(jobs or 6)),
        services=(ServiceSpec(name="nginx", shape=NGINX, steps=steps),),
        windows=(Window(name="plateau", start=90.0, end=630.0), Window(name="off-peak", start=300.0, end=360.0)),
        until=630.0,
    )


LARGE_NODES = (
    NodeClass(name="cpu", count=6_000, room={"cpu": 32_000, "memory": 128 * GI, "pods": PODS}),
    NodeClass(name="big", count=2_000, room={"cpu": 96_000, "memory": 384 * GI, "pods": PODS}),
    NodeClass(
        name="gpu", count=2_000, room={"cpu": 64_000, "memory": 512 * GI, "nvidia.com/gpu": 8, "pods": PODS}
    ),
)
_CPU_SHAPES = tuple(
    Shape.of({"cpu": cores * 1_000, "memory": cores * each * GI, "pods": 1})
    for cores in (4, 8, 16)
    for each in (2, 4)
)
_GPU_SHAPES = tuple(
    Shape.of({"cpu": gpus * 6_000, "memory": gpus * 32 * GI, "nvidia.com/gpu": gpus, "pods": 1})
    for gpus in (1, 2, 4)
)
_SERVER = Shape.of({"cpu": 2_000, "memory": 4 * GI, "pods": 1})
LARGE_JOBS = 100_000
JOBS_A_SECOND = 6.0


def large(random: Random, jobs: int | None) -> Trace:
    """Jobs of all sizes on 10,000 nodes, six a second and a round a minute; 100,000 unless told otherwise."""
    made, submit = [], 0.0
    for number in range(jobs or LARGE_JOBS):
        submit += random.expovariate(JOBS_A_SECOND)
        made.append(_any_job(random, number, round(submit, 3)))
    plateau = Window(name="plateau", start=submit * 0.2, end=submit * 0.8)
    return Trace(nodes=LARGE_NODES, jobs=tuple(made), windows=(plateau,), period=60.0, gap=60.0)


def _any_job(random: Random, number: int, submit: float) -> JobSpec:
    has_gpus = random.random() < 0.12
    least = random.choice((1, 1, 2, 4))
    most = least * random.choice((1, 4, 8, 16))
    serial = random.choice((0.0, 0.002, 0.01))
    minutes = min(random.lognormvariate(2.1, 0.6), 40.0)
    servers = random.choice((0, 0, 1, 2)) if not has_gpus else 0
    return JobSpec(
        name=f"job-{number:06d}",
        namespace=f"team-{random.randrange(20)}",
        shape=random.choice(_GPU_SHAPES if has_gpus else _CPU_SHAPES),
        least=least,
        most=most,
        start=least,
        fixed=most,
        submit=submit,
        priority=random.choice((0, 0, 0, 0, 10)),
        staff=(Staff(name="server", number=servers, shape=_SERVER),) if servers else (),
        work=round(minutes * 60 * most, 1),  # so long with all members, if they did not wait for each other
        speed=Speed(cost=(1.0 - serial, serial, 0.0)),
    )


EXPERIMENTS: Mapping[str, Callable[[Random, int | None], Trace]] = {"edl-1": edl_1, "edl-2": edl_2, "large": large}
"""By name; each is given its own dice, and how many jobs there are to be."""
