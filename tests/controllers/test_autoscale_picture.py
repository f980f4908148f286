"""What the autoscaler sees of a cluster."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from pliant.autoscale.model import ClusterSnapshot, ElasticGroup, PendingPods
from pliant.controllers.autoscale.node_usage import ClusterChange, ClusterNodeUsage
from pliant.controllers.autoscale.object_views import ClusterPod, ResourceQuota
from pliant.controllers.autoscale.pod_shapes import PodShapeCache
from pliant.controllers.autoscale.scalable_jobs import ScalableJobs
from pliant.controllers.autoscale.snapshot import GroupSnapshot, SnapshotBuilder, SnapshotOptions
from pliant.frontends.aitrainingjob.job import AITrainingJobFrontend
from pliant.kube.cache.store import ObjectStore
from pliant.kube.objects import Node
from pliant.model.state import EngineState, GroupState, JobPhase, ReplicaOutcome, SizeRequest, SizeRequester
from tests.builders import StoredJob, parse_stored

NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)
READY = [{"type": "Ready", "status": "True"}]


def node(name: str, *, cpu: str = "8", labels: dict[str, str] | None = None, **spec: Any) -> Node:
    has = {"cpu": cpu, "memory": "16Gi", "pods": "110"}
    status = {"allocatable": has, "conditions": READY}
    meta = {"name": name, "uid": name, "labels": labels or {}}
    return msgspec.convert({"metadata": meta, "spec": spec, "status": status}, Node)


def pod(name: str, on: str = "", *, cpu: str = "1", phase: str = "Running", **fields: Any) -> ClusterPod:
    """A pod of anybody; `of` makes it a member, `spec` and `meta` add whatever else is needed."""
    of = fields.get("of")
    meta: dict[str, Any] = {"name": name, "namespace": "default", "uid": name, **fields.get("meta", {})}
    if of:
        owner, index = of
        meta["labels"] = {"TrainingJobReplicaName": "worker", "TrainingJobReplicaIndex": str(index)}
        meta["ownerReferences"] = [{"name": owner, "uid": owner, "controller": True}]
    container = {"resources": {"requests": {"cpu": cpu} if cpu else {}}}
    spec = {"containers": [container], **({"nodeName": on} if on else {}), **fields.get("spec", {})}
    status = {"phase": phase if on else "Pending", **fields.get("status", {})}
    return msgspec.convert({"metadata": meta, "spec": spec, "status": status}, ClusterPod)


def job(size: int = 2, *, phase: JobPhase = JobPhase.RUNNING, name: str = "demo", **group: Any) -> StoredJob:
    """A job of workers whose size the autoscaler may set between 1 and 6."""
    template = {"spec": {"containers": [{"name": "a", "image": "i", "resources": {"requests": {"cpu": "1"}}}]}}
    worker = {"replicas": 2, "minReplicas": 1, "maxReplicas": 6, "edlPolicy": "Auto", "template": template, **group}
    parsed = parse_stored(
        AITrainingJobFrontend(),
        {
            "metadata": {
                "name": name,
                "namespace": "default",
                "uid": name,
                "creationTimestamp": "2030-01-01T00:00:00Z",
            },
            "spec": {"replicaSpecs": {"worker": worker}},
        },
    )
    memory = GroupState(applied_size=size, size_requests={SizeRequester.SPEC: SizeRequest(size=2, at=NOON)})
    return replace(parsed, state=EngineState(phase=phase, started_at=NOON, groups={"worker": memory}))


class Scene:
    """A picture and what it is drawn from."""

    def __init__(self, *nodes: Node) -> None:
        self.nodes: ObjectStore[Node] = ObjectStore()
        self.quotas: ObjectStore[ResourceQuota] = ObjectStore()
        self.nodes.apply_complete_list(nodes, 1)
        self.shapes = PodShapeCache(self.nodes)
        self.ledger = ClusterNodeUsage(self.shapes)
        self.register = ScalableJobs()
        self.picture = SnapshotBuilder(self.nodes, self.quotas, self.ledger, self.shapes, self.register)
        self.pods: dict[str, ClusterPod] = {}

    def put(self, *pods: ClusterPod) -> list[ClusterChange]:
        news = []
        for each in pods:
            news.append(self.ledger.apply_pod_change(self.pods.get(each.metadata.name), each))
            self.pods[each.metadata.name] = each
        self.picture.mark_nodes_changed()
        return news

    def drop(self, name: str) -> ClusterChange:
        return self.ledger.apply_pod_change(self.pods.pop(name), None)

    def note(self, *jobs: StoredJob) -> None:
        for each in jobs:
            self.picture.mark_jobs_changed(self.register.update(each, each.state))

    def drawn(self) -> list[GroupSnapshot]:
        return self.picture.group_snapshots()

    def cluster(self, now: datetime = NOON) -> ClusterSnapshot:
        drawn = {each.elastic.key: each for each in self.drawn()}
        return self.picture.build_cluster(
            drawn, {key: each.elastic for key, each in drawn.items()}, SnapshotOptions(now, 0.97)
        )

    def taken(self, now: datetime = NOON) -> dict[str, int]:
        return {each.name: each.used_by_others.get("cpu", 0) for each in self.cluster(now).nodes}

    def claims(self) -> tuple[PendingPods, ...]:
        return self.cluster().pending_pods

    def elastic(self) -> ElasticGroup:
        [found] = self.cluster().groups
        return found


def test_what_pods_take_is_known_by_node_and_follows_every_change() -> None:
    scene = Scene(node("a"), node("b"))
    scene.put(pod("x", "a", cpu="500m"), pod("y", "a", cpu="2"), pod("z", "b"))
    assert scene.taken() == {"a": 2500, "b": 1000}
    scene.put(pod("y", "a", cpu="3"))
    assert scene.taken() == {"a": 3500, "b": 1000}
    scene.put(pod("x", "a", phase="Succeeded"))
    assert scene.taken() == {"a": 3000, "b": 1000}
    scene.drop("y")
    assert scene.taken() == {"a": 0, "b": 1000}
    scene.drop("z")
    scene.drop("x")
    assert (scene.ledger.used_by_node, scene.ledger.placements, scene.ledger.requested_by_namespace) == ({}, {}, {})


def test_sidecars_limits_and_overhead_count() -> None:
    scene = Scene(node("a"))
    asks = {"resources": {"limits": {"cpu": "1"}}}
    spec = {
        "containers": [asks],
        "initContainers": [{**asks, "restartPolicy": "Always"}, {"resources": {"requests": {"cpu": "1500m"}}}],
        "overhead": {"cpu": "250m"},
    }
    scene.put(pod("x", "a", spec=spec))
    assert scene.taken() == {"a": 2750}


def test_members_of_a_group_are_told_from_other_pods() -> None:
    scene = Scene(node("a"), node("b"))
    scene.put(pod("w0", "a", of=("demo", 0)), pod("w1", "b", of=("demo", 1), spec={"priority": 7}), pod("other", "b"))
    scene.note(job())
    elastic = scene.elastic()
    assert (elastic.replica_nodes, elastic.size, elastic.min_size, elastic.max_size) == (("a", "b"), 2, 1, 6)
    assert str(elastic.key) == "default/demo/worker"
    assert dict(elastic.shape.requests) == {"cpu": 1000, "pods": 1}
    assert elastic.shape.allowed_nodes is None
    assert scene.taken() == {"a": 0, "b": 1000}
    assert scene.drawn()[0].is_fully_running


def test_a_member_that_waits_has_no_place_and_one_that_is_not_made_yet_is_missing() -> None:
    scene = Scene(node("a"))
    scene.put(pod("w0", "a", of=("demo", 0)), pod("w1", of=("demo", 1)))
    scene.note(job(4))
    assert scene.elastic().replica_nodes == ("a", "")
    assert scene.claims() == ()
    assert not scene.drawn()[0].is_fully_running


def test_those_who_leave_take_up_room_until_somebody_waits_for_it() -> None:
    scene = Scene(node("a"))
    leaving = {"deletionTimestamp": NOON.isoformat()}
    scene.note(job(1))
    scene.put(pod("w0", "a", of=("demo", 0)), pod("w1", "a", of=("demo", 1), meta=leaving), pod("s", "a", cpu="2"))
    assert scene.taken() == {"a": 3000}
    scene.put(pod("newcomer", cpu="4"))
    assert scene.taken() == {"a": 2000}
    # Who should have been gone long ago may never go.
    assert scene.taken(NOON + timedelta(minutes=5)) == {"a": 3000}


def test_members_beyond_the_size_make_way_before_they_have_been_told_to() -> None:
    scene = Scene(node("a"))
    scene.put(*(pod(f"w{index}", "a", of=("demo", index)) for index in range(4)))
    scene.note(job(2))
    assert scene.taken() == {"a": 2000}
    scene.put(pod("newcomer", cpu="6"))
    assert scene.taken() == {"a": 0}


def test_like_pods_of_one_owner_wait_as_one_claim() -> None:
    scene = Scene(node("a"))
    owned: dict[str, Any] = {"ownerReferences": [{"name": "nginx", "uid": "rs", "controller": True}]}
    scene.put(*(pod(f"n{index}", cpu="3", meta=owned) for index in range(3)), pod("single"))
    found = {each.key: each for each in scene.claims()}
    assert {key: each.count for key, each in found.items()} == {"default/nginx": 3, "default/single": 1}
    assert dict(found["default/nginx"].shape.requests)["cpu"] == 3000


def test_nobody_makes_room_for_a_newcomer_before_it_is_known_what_it_could_do_without() -> None:
    scene = Scene(node("a"))
    scene.note(replace(job(name="new"), state=None))
    scene.put(pod("n0", of=("new", 0)), pod("n1", of=("new", 1)))
    assert scene.claims() == ()
    scene.note(job(name="new"))
    assert scene.elastic().replica_nodes == ("", "")
    scene.note(job(name="new", edlPolicy="Manual"))
    assert [(each.key, each.count) for each in scene.claims()] == [("default/new", 2)]


def test_nobody_makes_room_for_pods_that_room_would_not_help() -> None:
    scene = Scene(node("a", labels={"zone": "x"}))
    refused = "0/1 nodes are available: pod has unbound immediate PersistentVolumeClaims."
    full = "0/1 nodes are available: 1 Insufficient cpu."
    said = [{"type": "PodScheduled", "status": "False", "message": refused}]
    scene.put(
        pod("gated", spec={"schedulingGates": [{"name": "quota"}]}),
        pod("elsewhere", spec={"nodeSelector": {"zone": "y"}}),
        pod("modest", cpu=""),
        pod("volume", status={"conditions": said}),
        pod("leaving", meta={"deletionTimestamp": NOON.isoformat()}),
    )
    assert scene.claims() == ()
    scene.put(pod("honest", status={"conditions": [{**said[0], "message": full}]}))
    assert [each.key for each in scene.claims()] == ["default/honest"]


def test_nodes_that_take_nobody_are_closed_and_those_that_take_some_are_allowed_to_these() -> None:
    taint = {"key": "gpu", "effect": "NoSchedule"}
    away = {"key": "node.kubernetes.io/unreachable", "effect": "NoExecute"}
    scene = Scene(
        node("open"), node("cordoned", unschedulable=True), node("gpu", taints=[taint]), node("away", taints=[away])
    )
    scene.note(job())
    assert {each.name: each.is_schedulable for each in scene.cluster().nodes} == {
        "open": True,
        "cordoned": False,
        "gpu": True,
        "away": False,
    }
    assert scene.elastic().shape.allowed_nodes == frozenset({"open", "cordoned", "away"})
    tolerant = pod("w0", of=("demo", 0), spec={"tolerations": [{"key": "gpu", "operator": "Exists"}]})
    scene.put(tolerant)
    assert scene.elastic().shape.allowed_nodes is None


def test_a_node_that_is_not_ready_is_closed() -> None:
    broken = node("a")
    scene = Scene(msgspec.structs.replace(broken, status=msgspec.structs.replace(broken.status, conditions=())))
    assert not scene.cluster().nodes[0].is_schedulable


def test_a_quota_leaves_to_elastic_groups_what_others_do_not_use() -> None:
    scene = Scene(node("a"))
    quota = {
        "metadata": {"name": "q", "uid": "q", "namespace": "default"},
        "spec": {"hard": {"requests.cpu": "10", "pods": 9}},
    }
    tighter = {"metadata": {"name": "r", "uid": "r", "namespace": "default"}, "spec": {"hard": {"cpu": "9"}}}
    scoped = {
        "metadata": {"name": "s", "uid": "s", "namespace": "default"},
        "spec": {"hard": {"cpu": "1"}, "scopes": ["BestEffort"]},
    }
    scene.quotas.apply_complete_list([msgspec.convert(each, ResourceQuota) for each in (quota, tighter, scoped)], 1)
    scene.put(pod("w0", "a", of=("demo", 0)), pod("w1", of=("demo", 1)), pod("other", "a", cpu="2"), pod("waits"))
    assert scene.cluster().quotas == {}
    scene.note(job())
    assert scene.cluster().quotas == {"default": {"cpu": 6000, "pods": 7}}


def test_jobs_that_may_not_be_set_are_not_drawn() -> None:
    scene = Scene(node("a"))
    scene.note(
        job(name="manual", edlPolicy="Manual"),
        job(name="over", phase=JobPhase.SUCCEED),
        job(name="rests", phase=JobPhase.SUSPENDED),
        replace(job(name="fresh"), state=None),
        job(0, name="none"),
    )
    assert scene.drawn() == []
    scene.note(job(name="fine"))
    assert len(scene.drawn()) == 1
    scene.note(job(name="fine", phase=JobPhase.TERMINATING))
    assert scene.drawn() == []


def test_a_group_of_which_a_member_has_ended_is_drawn_as_pods_like_any_other() -> None:
    scene = Scene(node("a"))
    scene.put(pod("w0", "a", of=("demo", 0), phase="Succeeded"), pod("w1", "a", of=("demo", 1)))
    memory = GroupState(applied_size=2, replica_outcomes={0: ReplicaOutcome.SUCCEEDED})
    scene.note(replace(job(), state=EngineState(phase=JobPhase.RUNNING, started_at=NOON, groups={"worker": memory})))
    assert scene.drawn()[0].is_finishing
    assert (scene.cluster().groups, scene.taken()) == ((), {"a": 1000})


def test_only_changes_that_matter_are_news() -> None:
    scene = Scene(node("a"))
    assert scene.put(pod("x")) == [ClusterChange.DEMAND]
    assert scene.put(pod("x")) == [ClusterChange.NONE]
    assert scene.put(pod("x", "a", phase="Pending")) == [ClusterChange.CAPACITY]
    assert scene.put(pod("x", "a")) == [ClusterChange.NONE]
    assert scene.put(pod("w0", "a", of=("demo", 0), phase="Pending")) == [ClusterChange.CAPACITY]
    assert scene.put(pod("w0", "a", of=("demo", 0))) == [ClusterChange.DEMAND]
    assert scene.put(pod("x", "a", phase="Failed")) == [ClusterChange.CAPACITY]
    assert scene.drop("x") is ClusterChange.NONE
