from __future__ import annotations

from dataclasses import replace

import pytest

from pliant.autoscale.model import (
    ClusterSnapshot,
    ElasticGroup,
    GroupKey,
    NodeResources,
    PendingPods,
    PodShape,
    SizeReason,
)
from pliant.autoscale.policies.published_edl import (
    ClusterTotals,
    IdleResources,
    PublishedEdlOptions,
    PublishedEdlPolicy,
    TrainerJob,
    elastic_jobs_by_fulfilment,
    plan_growth_step,
    plan_shrink_step,
    plan_size_deltas,
)

GENERATIONS = [PublishedEdlOptions(), PublishedEdlOptions(shrinks_on_memory=True, deducts_from_node=True)]


def a_job(bounds: str, size: int, needs: tuple[int, int, int] = (1000, 105, 0), name: str = "a") -> TrainerJob:
    least, most = (int(each) for each in bounds.split(".."))
    cpu, memory, gpu = needs
    key = GroupKey("default", "PaddleJob.paddlepaddle.org", name, "trainer")
    return TrainerJob(key=key, min_size=least, max_size=most, size=size, cpu=cpu, memory=memory, gpu=gpu)


def sums_of(cpu: str = "0/0", memory: str = "0/0", gpu: str = "0/0", has_nodes: bool = True) -> ClusterTotals:
    used_cpu, all_cpu = (int(each) for each in cpu.split("/"))
    used_memory, all_memory = (int(each) for each in memory.split("/"))
    used_gpu, all_gpu = (int(each) for each in gpu.split("/"))
    return ClusterTotals(
        cpu_requests=used_cpu,
        cpu_total=all_cpu,
        memory_requests=used_memory,
        memory_total=all_memory,
        gpu_limits=used_gpu,
        gpu_total=all_gpu,
        nodes=[IdleResources(cpu=99999, memory=99999)] if has_nodes else [],
    )


UP = [
    ("satisfied", sums_of("0/2000", "0/1000"), a_job("1..2", 2), 0),
    ("more CPU", sums_of("100/3000", "100/1000"), a_job("1..3", 1), 1),
    ("no CPU", sums_of("1000/1000", "100/1000"), a_job("1..3", 1), 0),
    ("more GPU", sums_of("0/2000", "100/1000", "0/10"), a_job("1..3", 1, (1000, 11, 1)), 1),
    ("no GPU", sums_of("0/2000", "100/1000", "10/10"), a_job("1..3", 1, (1000, 11, 1)), 0),
    ("full", sums_of("2000/1000", "100/1000"), a_job("1..3", 3), 0),
    ("no memory", sums_of("1000/1000", "1000/1000"), a_job("1..3", 1), 0),
]
DOWN = [
    ("more GPU", sums_of("0/2000", "100/1000", "0/10"), a_job("1..3", 1, (1000, 11, 1)), [0]),
    ("above max", sums_of("1000/1000", "1000/1000", "10/10", False), a_job("1..3", 6), [-1, -1, -1, 0]),
    ("to min", sums_of("5000/3000", "1000/1000", "10/10"), a_job("1..3", 3), [-1, -1, 0]),
    ("full", sums_of("2000/1000", "100/1000"), a_job("1..3", 3), [-1]),
]
PLANS = [
    ("plan", sums_of("1000/4000", "100/1000", "8/10"), a_job("1..3", 1), 1.0, 2),
    ("plan not full", sums_of("1000/3000", "100/1000"), a_job("1..3", 1), 0.8, 1),
    ("plan down", sums_of("3000/3000", "100/1000"), a_job("1..3", 3), 0.8, -1),
    ("plan less CPU", sums_of("2000/3000", "100/1000", "8/10"), a_job("1..3", 1, (1000, 1, 1)), 1.0, 1),
    ("plan less GPU", sums_of("990/2000", "100/1000", "9/10"), a_job("1..3", 1, (1000, 1, 1)), 1.0, 1),
]


def copied(sums: ClusterTotals) -> ClusterTotals:
    return replace(sums, nodes=[replace(node) for node in sums.nodes])


@pytest.mark.parametrize("rules", GENERATIONS)
@pytest.mark.parametrize(("case", "sums", "job", "change"), UP)
def test_a_trainer_is_added_where_the_original_adds_one(
    case: str, sums: ClusterTotals, job: TrainerJob, change: int, rules: PublishedEdlOptions
) -> None:
    assert plan_growth_step(copied(sums), job, 0, 1.0, rules) == change, case


@pytest.mark.parametrize("rules", GENERATIONS)
@pytest.mark.parametrize(("case", "sums", "job", "changes"), DOWN)
def test_trainers_are_taken_away_where_the_original_takes_them(
    case: str, sums: ClusterTotals, job: TrainerJob, changes: list[int], rules: PublishedEdlOptions
) -> None:
    sums = copied(sums)
    assert [plan_shrink_step(sums, job, -each, 1.0, rules) for each in range(len(changes))] == changes, case


@pytest.mark.parametrize("rules", GENERATIONS)
@pytest.mark.parametrize(("case", "sums", "job", "load", "change"), PLANS)
def test_a_job_is_planned_as_the_original_plans_it(
    case: str, sums: ClusterTotals, job: TrainerJob, load: float, change: int, rules: PublishedEdlOptions
) -> None:
    assert plan_size_deltas(copied(sums), [job], load, rules) == {job.key: change}, case


def test_fulfilment_is_the_part_of_what_a_job_may_have_beyond_its_least() -> None:
    assert [a_job("1..2", 2).fulfilment, a_job("1..2", 1).fulfilment, a_job("1..3", 2).fulfilment] == [1, 0, 0.5]


def test_the_least_fulfilled_comes_first_and_who_cannot_change_not_at_all() -> None:
    jobs = [a_job("1..2", 2, name="a"), a_job("1..20", 2, name="b"), a_job("1..10", 2, name="c")]
    assert [job.key.job for job in elastic_jobs_by_fulfilment([*jobs, a_job("1..1", 1, name="d")])] == ["b", "c", "a"]


def test_among_equals_whoever_asks_for_less_comes_first() -> None:
    needs = {"a": (1000, 1, 1), "b": (1000, 1, 0), "c": (10000, 1, 0), "d": (1000, 2, 0)}
    jobs = [a_job("1..2", 1, each, name) for name, each in needs.items()]
    assert [job.key.job for job in elastic_jobs_by_fulfilment(jobs)] == ["b", "d", "c", "a"]


@pytest.mark.parametrize("rules", GENERATIONS)
def test_a_plan_ends_where_the_original_goes_round_in_circles(rules: PublishedEdlOptions) -> None:
    sums = sums_of("0/100000", "0/100000", "9/10")
    job = a_job("1..20", 9, (1000, 1, 1))
    assert plan_size_deltas(sums, [job], 0.97, rules) == {job.key: 0}  # the last GPU is never used


def a_group(name: str, size: int, places: tuple[str, ...]) -> ElasticGroup:
    return ElasticGroup(
        key=GroupKey("default", "PaddleJob.paddlepaddle.org", name, "trainer"),
        min_size=2,
        max_size=60,
        size=size,
        shape=PodShape.of({"cpu": 1000, "memory": 1_000_000}),
        replica_nodes=places,
    )


def cluster_of(*elastics: ElasticGroup, cores: int = 100) -> ClusterSnapshot:
    room = {"cpu": cores * 1000, "memory": 10**12}
    return ClusterSnapshot(nodes=(NodeResources(name="n", allocatable=room),), groups=elastics, max_load=1.0)


def test_who_has_much_and_who_has_little_lose_alike_and_gain_alike() -> None:
    """The unfairness of the original: everybody changes by one in turn, whatever they have."""
    cluster = cluster_of(a_group("a", 60, ("n",) * 60), a_group("b", 10, ("n",) * 10), cores=64)
    policy = PublishedEdlPolicy()
    assert [verdict.size for verdict in policy.plan(cluster).values()] == [57, 7]
    cluster = cluster_of(a_group("a", 2, ("n",) * 2), a_group("b", 30, ("n",) * 30), cores=42)
    assert [verdict.size for verdict in policy.plan(cluster).values()] == [7, 35]


def test_a_group_that_is_coming_up_is_left_alone_unless_another_is_waiting_as_a_whole() -> None:
    settling = a_group("a", 4, ("n", "n", "n", ""))
    running = a_group("b", 2, ("n", "n"))
    waiting = a_group("c", 2, ("", ""))
    policy = PublishedEdlPolicy()
    verdicts = policy.plan(cluster_of(settling, running, cores=8))
    assert [(verdict.size, verdict.reason) for verdict in verdicts.values()] == [
        (4, SizeReason.STABILIZING),
        (4, SizeReason.SCALE_UP),
    ]
    verdicts = policy.plan(cluster_of(settling, running, waiting, cores=6))
    assert [verdict.size for verdict in verdicts.values()] == [2, 2, 2]


def test_pods_of_services_that_wait_make_trainers_leave() -> None:
    group = a_group("a", 10, ("n",) * 10)
    nginx = PendingPods(key="default/nginx", shape=PodShape.of({"cpu": 3000}), count=2)
    verdict = PublishedEdlPolicy().plan(replace(cluster_of(group, cores=12), pending_pods=(nginx,)))[group.key]
    assert (verdict.size, verdict.reason) == (6, SizeReason.PREEMPTED)


def test_a_group_stays_that_has_all_it_may_have_or_cannot_change() -> None:
    full, fixed = a_group("a", 60, ("n",) * 60), replace(a_group("b", 2, ("n", "n")), max_size=2)
    assert [verdict.reason for verdict in PublishedEdlPolicy().plan(cluster_of(full, fixed)).values()] == [
        SizeReason.AT_MAX_SIZE,
        SizeReason.FIXED,
    ]
