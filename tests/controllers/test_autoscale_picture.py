"""What the autoscaler sees of a cluster."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from pliant.autoscale.model import Claim, Cluster, Elastic
from pliant.controllers.autoscale.ledger import Ledger, News
from pliant.controllers.autoscale.picture import Drawn, Picture, Terms
from pliant.controllers.autoscale.register import Register
from pliant.controllers.autoscale.shapes import Shapes
from pliant.controllers.autoscale.views import AnyPod, Quota
from pliant.frontends.aitrainingjob import AITrainingJob
from pliant.kube.objects import Node
from pliant.kube.store import ObjectStore
from pliant.model.job import Job
from pliant.model.state import EngineState, GroupState, Outcome, Phase, Request, Requester

NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)
READY = [{"type": "Ready", "status": "True"}]


def node(name: str, *, cpu: str = "8", labels: dict[str, str] | None = None, **spec: Any) -> Node:
    has = {"cpu": cpu, "memory": "16Gi", "pods": "110"}
    status = {"allocatable": has, "conditions": READY}
    meta = {"name": name, "uid": name, "labels": labels or {}}
    return msgspec.convert({"metadata": meta, "spec": spec, "status": status}, Node)


def pod(name: str, on: str = "", *, cpu: str = "1", phase: str = "Running", **fields: Any) -> AnyPod:
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
    return msgspec.convert({"metadata": meta, "spec": spec, "status": status}, AnyPod)


def job(size: int = 2, *, phase: Phase = Phase.RUNNING, name: str = "demo", **group: Any) -> Job:
    """A job of workers whose size the autoscaler may set between 1 and 6."""
    template = {"spec": {"containers": [{"name": "a", "image": "i", "resources": {"requests": {"cpu": "1"}}}]}}
    worker = {
        "replicas": 2,
        "minReplicas": 1,
        "maxReplicas": 6,
        "edlPolicy": "Auto",
        "template": template,
        **group,
    }
    parsed = AITrainingJob().parse(
        {
            "metadata": {
                "name": name,
                "namespace": "default",
                "uid": name,
                "creationTimestamp": "2030-01-01T00:00:00Z",
            },
            "spec": {"replicaSpecs": {"worker": worker}},
        }
    )
    memory = GroupState(size=size, requests={Requester.SPEC: Request(size=2, at=NOON)})
    return replace(parsed, state=EngineState(phase=phase, started_at=NOON, groups={"worker": memory}))


class Scene:
    """A picture and what it is drawn from."""

    def __init__(self, *nodes: Node) -> None:
        self.nodes: ObjectStore[Node] = ObjectStore()
        self.quotas: ObjectStore[Quota] = ObjectStore()
        self.nodes.replace(nodes, 1)
        self.shapes = Shapes(self.nodes)
        self.ledger = Ledger(self.shapes)
        self.register = Register()
        self.picture = Picture(self.nodes, self.quotas, self.ledger, self.shapes, self.register)
        self.pods: dict[str, AnyPod] = {}

    def put(self, *pods: AnyPod) -> list[News]:
        news = []
        for each in pods:
            news.append(self.ledger.changed(self.pods.get(each.metadata.name), each))
            self.pods[each.metadata.name] = each
        self.picture.touch_nodes()
        return news

    def drop(self, name: str) -> News:
        return self.ledger.changed(self.pods.pop(name), None)

    def note(self, *jobs: Job) -> None:
        for each in jobs:
            self.picture.touch(self.register.note(each))

    def drawn(self) -> list[Drawn]:
        return self.picture.groups()

    def cluster(self, now: datetime = NOON) -> Cluster:
        drawn = {each.elastic.key: each for each in self.drawn()}
        return self.picture.cluster(drawn, {key: each.elastic for key, each in drawn.items()}, Terms(now, 0.97))

    def taken(self, now: datetime = NOON) -> dict[str, int]:
        return {each.name: each.taken.get("cpu", 0) for each in self.cluster(now).nodes}

    def claims(self) -> tuple[Claim, ...]:
        return self.cluster().claims

    def elastic(self) -> Elastic:
        [found] = self.cluster().elastics
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
    assert (scene.ledger.used, scene.ledger.seats, scene.ledger.asked) == ({}, {}, {})


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
    scene.put(
        pod("w0", "a", of=("demo", 0)), pod("w1", "b", of=("demo", 1), spec={"priority": 7}), pod("other", "b")
    )
    scene.note(job())
    elastic = scene.elastic()
    assert (elastic.places, elastic.size, elastic.least, elastic.most) == (("a", "b"), 2, 1, 6)
    assert str(elastic.key) == "default/demo/worker"
    assert dict(elastic.shape.needs) == {"cpu": 1000, "pods": 1}
    assert elastic.shape.allowed is None
    assert scene.taken() == {"a": 0, "b": 1000}
    assert scene.drawn()[0].is_up


def test_a_member_that_waits_has_no_place_and_one_that_is_not_made_yet_is_missing() -> None:
    scene = Scene(node("a"))
    scene.put(pod("w0", "a", of=("demo", 0)), pod("w1", of=("demo", 1)))
    scene.note(job(4))
    assert scene.elastic().places == ("a", "")
    assert scene.claims() == ()
    assert not scene.drawn()[0].is_up


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
    assert {key: each.number for key, each in found.items()} == {"default/nginx": 3, "default/single": 1}
    assert dict(found["default/nginx"].shape.needs)["cpu"] == 3000


def test_nobody_makes_room_for_a_newcomer_before_it_is_known_what_it_could_do_without() -> None:
    scene = Scene(node("a"))
    scene.note(replace(job(name="new"), state=None))
    scene.put(pod("n0", of=("new", 0)), pod("n1", of=("new", 1)))
    assert scene.claims() == ()
    scene.note(job(name="new"))
    assert scene.elastic().places == ("", "")
    scene.note(job(name="new", edlPolicy="Manual"))
    assert [(each.key, each.number) for each in scene.claims()] == [("default/new", 2)]


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
        node("open"),
        node("cordoned", unschedulable=True),
        node("gpu", taints=[taint]),
        node("away", taints=[away]),
    )
    scene.note(job())
    assert {each.name: each.is_open for each in scene.cluster().nodes} == {
        "open": True,
        "cordoned": False,
        "gpu": True,
        "away": False,
    }
    assert scene.elastic().shape.allowed == frozenset({"open", "cordoned", "away"})
    tolerant = pod("w0", of=("demo", 0), spec={"tolerations": [{"key": "gpu", "operator": "Exists"}]})
    scene.put(tolerant)
    assert scene.elastic().shape.allowed is None


def test_a_node_that_is_not_ready_is_closed() -> None:
    broken = node("a")
    scene = Scene(msgspec.structs.replace(broken, status=msgspec.structs.replace(broken.status, conditions=())))
    assert not scene.cluster().nodes[0].is_open


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
    scene.quotas.replace([msgspec.convert(each, Quota) for each in (quota, tighter, scoped)], 1)
    scene.put(pod("w0", "a", of=("demo", 0)), pod("w1", of=("demo", 1)), pod("other", "a", cpu="2"), pod("waits"))
    assert scene.cluster().quotas == {}
    scene.note(job())
    assert scene.cluster().quotas == {"default": {"cpu": 6000, "pods": 7}}


def test_jobs_that_may_not_be_set_are_not_drawn() -> None:
    scene = Scene(node("a"))
    scene.note(
        job(name="manual", edlPolicy="Manual"),
        job(name="over", phase=Phase.SUCCEED),
        job(name="rests", phase=Phase.SUSPENDED),
        replace(job(name="fresh"), state=None),
        job(0, name="none"),
    )
    assert scene.drawn() == []
    scene.note(job(name="fine"))
    assert len(scene.drawn()) == 1
    scene.note(job(name="fine", phase=Phase.TERMINATING))
    assert scene.drawn() == []


def test_a_group_of_which_a_member_has_ended_is_drawn_as_pods_like_any_other() -> None:
    scene = Scene(node("a"))
    scene.put(pod("w0", "a", of=("demo", 0), phase="Succeeded"), pod("w1", "a", of=("demo", 1)))
    memory = GroupState(size=2, finished={0: Outcome.SUCCEEDED})
    scene.note(replace(job(), state=EngineState(phase=Phase.RUNNING, started_at=NOON, groups={"worker": memory})))
    assert scene.drawn()[0].is_ending
    assert (scene.cluster().elastics, scene.taken()) == ((), {"a": 1000})


def test_only_changes_that_matter_are_news() -> None:
    scene = Scene(node("a"))
    assert scene.put(pod("x")) == [News.NEED]
    assert scene.put(pod("x")) == [News.NONE]
    assert scene.put(pod("x", "a", phase="Pending")) == [News.ROOM]
    assert scene.put(pod("x", "a")) == [News.NONE]
    assert scene.put(pod("w0", "a", of=("demo", 0), phase="Pending")) == [News.ROOM]
    assert scene.put(pod("w0", "a", of=("demo", 0))) == [News.NEED]
    assert scene.put(pod("x", "a", phase="Failed")) == [News.ROOM]
    assert scene.drop("x") is News.NONE
