"""Measures the CPU time of one planning round, and how it grows with the cluster.

    python -m bench.planning [--sizes 1000 2500 5000 10000] [--rounds 3] [--policies fair]

There are as many elastic jobs as nodes, with 27 pod shapes; one job in twenty has a higher priority. A quarter of the
nodes have eight GPUs and a taint. Four snapshots of each cluster:

- `initial`: all jobs have their minimum size, and the cluster is to be filled;
- `steady`: that plan was applied, and nothing has changed since;
- `busy`: one job in ten is new, and services (one for every hundred jobs) have ten pending pods each;
- `uneven`: half of the jobs have the capacity that all should share.
"""

from __future__ import annotations

import argparse
import gc
import random
import statistics
import time
from dataclasses import replace

from pliant.autoscale.model import ClusterSnapshot, ElasticGroup, GroupKey, NodeResources, PendingPods, PodShape, Policy
from pliant.autoscale.policies.registry import SELECTABLE_POLICIES, draft_with_policies

GIB = 2**30
SNAPSHOTS = ("initial", "steady", "busy", "uneven")


def make_cluster(size: int, seed: int = 1) -> ClusterSnapshot:
    """Return a cluster whose jobs have their minimum size, with replicas assigned to nodes."""
    rng = random.Random(seed)
    nodes = tuple(_make_node(number, rng) for number in range(size))
    nodes_without_gpus = frozenset(node.name for node in nodes if "nvidia.com/gpu" not in node.allocatable)
    shapes = [
        PodShape.of({"cpu": 1000 * cpu, "memory": gib * GIB, "pods": 1}, nodes_without_gpus)
        for cpu in (1, 2, 3, 4, 6, 8)
        for gib in (2, 4, 8, 16)
    ]
    shapes += [
        PodShape.of({"cpu": 4000 * gpus, "memory": 32 * gpus * GIB, "nvidia.com/gpu": gpus, "pods": 1})
        for gpus in (1, 2, 4)
    ]
    groups = tuple(_make_job(number, rng, shapes) for number in range(size))
    cluster = apply_policy(
        ClusterSnapshot(nodes=nodes, groups=tuple(replace(group, may_grow=False) for group in groups)), "fair"
    )
    return replace(cluster, groups=tuple(replace(group, may_grow=True) for group in cluster.groups))


def _make_node(number: int, rng: random.Random) -> NodeResources:
    allocatable = {"cpu": rng.choice((16000, 32000, 64000)), "memory": rng.choice((64, 128, 256)) * GIB, "pods": 110}
    if number % 4 == 0:
        allocatable = {"cpu": 96000, "memory": 768 * GIB, "pods": 110, "nvidia.com/gpu": 8}
    return NodeResources(
        name=f"node-{number}", allocatable=allocatable, used_by_others={"cpu": 500, "memory": GIB, "pods": 5}
    )


def _make_job(number: int, rng: random.Random, shapes: list[PodShape]) -> ElasticGroup:
    min_size = rng.randint(1, 3)
    return ElasticGroup(
        key=GroupKey(f"team-{number % 50}", "PaddleJob.paddlepaddle.org", f"job-{number}", "trainer"),
        min_size=min_size,
        max_size=min_size + rng.randint(0, 60),
        size=min_size,
        shape=rng.choice(shapes),
        priority=100 if rng.random() < 0.05 else 0,
        created_at=float(number),
        throughputs=tuple((size, size**0.8) for size in range(min_size, min_size + rng.randint(0, 4))),
    )


def apply_policy(cluster: ClusterSnapshot, policy: str) -> ClusterSnapshot:
    """Return the cluster after the plan of a policy: planned sizes, and replicas on their planned nodes."""
    draft = draft_with_policies(cluster, {}, policy)
    names = [*draft.capacity.node_names, ""]
    planned = {group.elastic.key: group for group in draft.groups}
    groups = [
        replace(
            group,
            size=planned[group.key].planned_size,
            replica_nodes=tuple(names[node] for node in planned[group.key].replica_nodes),
        )
        for group in cluster.groups
    ]
    return replace(cluster, groups=tuple(groups))


def make_snapshots(initial: ClusterSnapshot, policy: str) -> dict[str, ClusterSnapshot]:
    """Return the snapshots of a cluster under this policy by name."""
    steady = apply_policy(initial, policy)
    restarted = [group for number, group in enumerate(steady.groups) if number % 10 == 0]
    new_jobs = {
        group.key: replace(group, size=group.min_size, replica_nodes=("",) * group.min_size) for group in restarted
    }
    pending = tuple(
        PendingPods(key=f"web/{number}", shape=PodShape.of({"cpu": 3000, "memory": 4 * GIB}), count=10)
        for number in range(len(initial.groups) // 100)
    )
    others = apply_policy(
        replace(steady, groups=tuple(group for group in steady.groups if group.key not in new_jobs)), policy
    )
    busy = replace(steady, groups=(*others.groups, *new_jobs.values()), pending_pods=pending)
    half = replace(
        initial, groups=tuple(replace(group, may_grow=number % 2 == 0) for number, group in enumerate(initial.groups))
    )
    uneven = apply_policy(half, policy)
    uneven = replace(uneven, groups=tuple(replace(group, may_grow=True) for group in uneven.groups))
    return {"initial": initial, "steady": steady, "busy": busy, "uneven": uneven}


def measure_plan(policy: Policy, cluster: ClusterSnapshot) -> tuple[float, int]:
    """Return the CPU seconds of one plan, and the number of sizes that it changes."""
    gc.collect()
    started = time.process_time()
    plan = policy.plan(cluster)
    elapsed = time.process_time() - started
    return elapsed, sum(plan[group.key].size != group.size for group in cluster.groups)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description="Measure the CPU time of one planning round.")
    parser.add_argument("--sizes", type=int, nargs="+", default=[1000, 2500, 5000, 10000])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--policies", nargs="+", default=sorted(SELECTABLE_POLICIES))
    parser.add_argument("--snapshots", nargs="+", default=SNAPSHOTS)
    args = parser.parse_args()
    print("policy   snapshot   nodes    jobs replicas  resized   CPU s (min to max)        to linear")
    base_per_node: dict[tuple[str, str], float] = {}
    for size in args.sizes:
        cluster = make_cluster(size)
        for policy in args.policies:
            for name, snapshot in make_snapshots(cluster, policy).items():
                if name in args.snapshots:
                    samples = [measure_plan(SELECTABLE_POLICIES[policy], snapshot) for _ in range(args.rounds)]
                    median = statistics.median(cpu for cpu, _ in samples)
                    base = base_per_node.setdefault((policy, name), median / size) * size
                    print(format_row(policy, name, snapshot, samples), f"{median / base:10.2f} ×", flush=True)


def format_row(policy: str, name: str, cluster: ClusterSnapshot, samples: list[tuple[float, int]]) -> str:
    """Format the row of one snapshot."""
    times, changed = [cpu for cpu, _ in samples], samples[0][1]
    replicas = sum(group.size for group in cluster.groups)
    counts = f"{len(cluster.nodes):>7} {len(cluster.groups):>7} {replicas:>8} {changed:>8}"
    return f"{policy:<8} {name:<8} {counts}   {statistics.median(times):5.2f} ({min(times):.2f} to {max(times):.2f})"


if __name__ == "__main__":
    main()
