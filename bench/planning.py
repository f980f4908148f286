"""What one round of planning costs, and that it grows with the cluster and hardly faster.

    python -m bench.planning [--sizes 1000 2500 5000 10000] [--rounds 3] [--policies fair]

As many elastic jobs as nodes, of a few dozen shapes, one in twenty more important than the others. A quarter of
the nodes has eight GPUs and takes only pods that tolerate their taint. Four pictures of each cluster:

- `first`: all jobs are at their least size, and the cluster is to be filled;
- `rest`: that plan was carried out, and nothing has changed since;
- `busy`: then one job in ten is a newcomer, and a hundredth as many services as there are jobs wait for ten pods;
- `uneven`: half of the jobs have what all should share.
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
PICTURES = ("first", "rest", "busy", "uneven")


def cluster_of(size: int, seed: int = 1) -> ClusterSnapshot:
    """Nodes, and jobs at their least size that sit somewhere."""
    chance = random.Random(seed)
    nodes = tuple(_node(number, chance) for number in range(size))
    plain = frozenset(node.name for node in nodes if "nvidia.com/gpu" not in node.allocatable)
    shapes = [
        PodShape.of({"cpu": 1000 * cpu, "memory": gib * GIB, "pods": 1}, plain)
        for cpu in (1, 2, 3, 4, 6, 8)
        for gib in (2, 4, 8, 16)
    ]
    shapes += [
        PodShape.of({"cpu": 4000 * gpus, "memory": 32 * gpus * GIB, "nvidia.com/gpu": gpus, "pods": 1})
        for gpus in (1, 2, 4)
    ]
    elastics = tuple(_job(number, chance, shapes) for number in range(size))
    young = seated(
        ClusterSnapshot(nodes=nodes, groups=tuple(replace(each, may_grow=False) for each in elastics)), "fair"
    )
    return replace(young, groups=tuple(replace(each, may_grow=True) for each in young.groups))


def _node(number: int, chance: random.Random) -> NodeResources:
    room = {"cpu": chance.choice((16000, 32000, 64000)), "memory": chance.choice((64, 128, 256)) * GIB, "pods": 110}
    if number % 4 == 0:
        room = {"cpu": 96000, "memory": 768 * GIB, "pods": 110, "nvidia.com/gpu": 8}
    return NodeResources(name=f"node-{number}", allocatable=room, used_by_others={"cpu": 500, "memory": GIB, "pods": 5})


def _job(number: int, chance: random.Random, shapes: list[PodShape]) -> ElasticGroup:
    least = chance.randint(1, 3)
    return ElasticGroup(
        key=GroupKey(f"team-{number % 50}", "PaddleJob.paddlepaddle.org", f"job-{number}", "trainer"),
        min_size=least,
        max_size=least + chance.randint(0, 60),
        size=least,
        shape=chance.choice(shapes),
        priority=100 if chance.random() < 0.05 else 0,
        created_at=float(number),
        throughputs=tuple((each, each**0.8) for each in range(least, least + chance.randint(0, 4))),
    )


def seated(cluster: ClusterSnapshot, policy: str) -> ClusterSnapshot:
    """The cluster as a policy would have it, everybody where it planned them to be."""
    draft = draft_with_policies(cluster, {}, policy)
    names = [*draft.capacity.node_names, ""]
    crews = {crew.elastic.key: crew for crew in draft.groups}
    elastics = [
        replace(
            each,
            size=crews[each.key].planned_size,
            replica_nodes=tuple(names[seat] for seat in crews[each.key].replica_nodes),
        )
        for each in cluster.groups
    ]
    return replace(cluster, groups=tuple(elastics))


def pictures(first: ClusterSnapshot, policy: str) -> dict[str, ClusterSnapshot]:
    """A cluster at several times of its life with this policy."""
    rest = seated(first, policy)
    late = [each for number, each in enumerate(rest.groups) if number % 10 == 0]
    newcomers = {each.key: replace(each, size=each.min_size, replica_nodes=("",) * each.min_size) for each in late}
    claims = tuple(
        PendingPods(key=f"web/{number}", shape=PodShape.of({"cpu": 3000, "memory": 4 * GIB}), count=10)
        for number in range(len(first.groups) // 100)
    )
    crowd = seated(replace(rest, groups=tuple(each for each in rest.groups if each.key not in newcomers)), policy)
    busy = replace(rest, groups=(*crowd.groups, *newcomers.values()), pending_pods=claims)
    half = replace(
        first, groups=tuple(replace(each, may_grow=number % 2 == 0) for number, each in enumerate(first.groups))
    )
    uneven = seated(half, policy)
    uneven = replace(uneven, groups=tuple(replace(each, may_grow=True) for each in uneven.groups))
    return {"first": first, "rest": rest, "busy": busy, "uneven": uneven}


def seconds(policy: Policy, cluster: ClusterSnapshot) -> tuple[float, int]:
    """The CPU that one plan takes, and how many sizes it changes."""
    gc.collect()
    begun = time.process_time()
    plan = policy.plan(cluster)
    taken = time.process_time() - begun
    return taken, sum(plan[each.key].size != each.size for each in cluster.groups)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description="What one round of planning costs.")
    parser.add_argument("--sizes", type=int, nargs="+", default=[1000, 2500, 5000, 10000])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--policies", nargs="+", default=sorted(SELECTABLE_POLICIES))
    parser.add_argument("--pictures", nargs="+", default=PICTURES)
    args = parser.parse_args()
    print("policy   snapshot   nodes    jobs replicas  resized   CPU s (least to most)     to linear")
    first: dict[tuple[str, str], float] = {}
    for size in args.sizes:
        cluster = cluster_of(size)
        for policy in args.policies:
            for name, picture in pictures(cluster, policy).items():
                if name in args.pictures:
                    tries = [seconds(SELECTABLE_POLICIES[policy], picture) for _ in range(args.rounds)]
                    here = statistics.median(taken for taken, _ in tries)
                    base = first.setdefault((policy, name), here / size) * size
                    print(line(policy, name, picture, tries), f"{here / base:10.2f} ×", flush=True)


def line(policy: str, name: str, cluster: ClusterSnapshot, tries: list[tuple[float, int]]) -> str:
    """What is printed about one picture."""
    times, changed = [taken for taken, _ in tries], tries[0][1]
    members = sum(each.size for each in cluster.groups)
    counts = f"{len(cluster.nodes):>7} {len(cluster.groups):>7} {members:>8} {changed:>8}"
    return f"{policy:<8} {name:<8} {counts}   {statistics.median(times):5.2f} ({min(times):.2f} to {max(times):.2f})"


if __name__ == "__main__":
    main()
