"""A ReplicaSet keeps its number of pods, and deletes the least useful ones first."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from pliant.embedded.controllers.workloads.pod_ranking import order_for_deletion
from pliant.embedded.controllers.workloads.views import REPLICA_SETS
from pliant.errors import Invalid
from pliant.kube.objects import Pod
from pliant.kube.resources import NAMESPACES, PODS
from pliant.kube.transport.base import STRATEGIC_MERGE_PATCH
from tests.embedded.serving import pod as make_pod
from tests.virtual_time import on_virtual_time
from tests.workloads.stage import SPACE, staged


@on_virtual_time
async def test_pods_are_created_once_and_nothing_is_written_afterwards() -> None:
    async with staged() as stage:
        await stage.create_replica_set(replicas=3)
        await stage.settle()
        assert len(await stage.active_pods()) == 3
        status = (await stage.get(REPLICA_SETS, "web"))["status"]
        counts = {"fullyLabeledReplicas": 3, "readyReplicas": 3, "availableReplicas": 3, "terminatingReplicas": 0}
        assert status == {"replicas": 3, **counts, "observedGeneration": 1}
        assert await stage.event_reasons("web") == ["SuccessfulCreate"] * 3
        before = len(stage.writes)
        await stage.settle(4_000)
        assert stage.writes[before:] == []


@on_virtual_time
async def test_deleted_failed_and_evicted_pods_are_replaced() -> None:
    async with staged() as stage:
        await stage.create_replica_set(replicas=2)
        await stage.settle()
        deleted, failed = [each["metadata"]["name"] for each in await stage.active_pods()]
        await stage.client.delete(PODS, SPACE, deleted)
        await stage.finish(failed, 1, reason="Evicted")
        await stage.settle()
        names = {each["metadata"]["name"] for each in await stage.active_pods()}
        assert len(names) == 2
        assert names.isdisjoint({deleted, failed})


@on_virtual_time
async def test_scaling_down_and_deletion_remove_pods() -> None:
    async with staged() as stage:
        await stage.create_replica_set(replicas=5)
        await stage.settle()
        await stage.patch(REPLICA_SETS, "web", {"spec": {"replicas": 1}})
        await stage.settle()
        assert len(await stage.list_objects(PODS)) == 1
        await stage.client.delete(REPLICA_SETS, SPACE, "web")
        await stage.settle()
        assert await stage.list_objects(PODS) == []


@on_virtual_time
async def test_orphans_are_adopted_and_pods_with_other_labels_released() -> None:
    async with staged() as stage:
        await stage.client.create(PODS, SPACE, make_pod("orphan", labels={"app": "web"}))
        await stage.create_replica_set(replicas=2)
        await stage.settle()
        names = {each["metadata"]["name"] for each in await stage.list_objects(PODS)}
        assert "orphan" in names
        assert len(names) == 2
        owner = (await stage.get(PODS, "orphan"))["metadata"]["ownerReferences"][0]
        assert (owner["kind"], owner["controller"]) == ("ReplicaSet", True)
        await stage.patch(PODS, "orphan", {"metadata": {"labels": {"app": "other"}}}, STRATEGIC_MERGE_PATCH)
        await stage.settle()
        assert "ownerReferences" not in (await stage.get(PODS, "orphan"))["metadata"]
        assert len(await stage.list_objects(PODS)) == 3


@on_virtual_time
async def test_pods_of_other_controllers_are_left_alone() -> None:
    async with staged() as stage:
        await stage.create_replica_set("first", replicas=1, **_selecting("shared"))
        await stage.settle()
        await stage.create_replica_set("second", replicas=1, **_selecting("shared"))
        await stage.settle()
        owners = {each["metadata"]["ownerReferences"][0]["name"] for each in await stage.list_objects(PODS)}
        assert owners == {"first", "second"}


@on_virtual_time
async def test_a_rejected_pod_is_a_condition_and_is_tried_again() -> None:
    async with staged() as stage:
        await stage.create_replica_set(replicas=2, template=_template_with_priority("nonexistent"))
        await stage.settle()
        [condition] = (await stage.get(REPLICA_SETS, "web"))["status"]["conditions"]
        assert (condition["type"], condition["reason"]) == ("ReplicaFailure", "FailedCreate")
        assert "FailedCreate" in await stage.event_reasons("web")
        await stage.patch(REPLICA_SETS, "web", {"spec": {"template": _template_with_priority(None)}})
        await stage.settle(120)
        assert len(await stage.active_pods()) == 2
        assert "conditions" not in (await stage.get(REPLICA_SETS, "web"))["status"]


@on_virtual_time
async def test_a_pod_is_available_after_min_ready_seconds() -> None:
    async with staged() as stage:
        await stage.create_replica_set(replicas=1, minReadySeconds=30)
        await stage.settle(20)
        status = (await stage.get(REPLICA_SETS, "web"))["status"]
        assert status["readyReplicas"] == 1
        assert "availableReplicas" not in status
        await stage.settle(20)
        assert (await stage.get(REPLICA_SETS, "web"))["status"]["availableReplicas"] == 1


@on_virtual_time
async def test_the_scale_of_a_replica_set_has_its_selector() -> None:
    async with staged() as stage:
        await stage.create_replica_set(replicas=2)
        await stage.settle()
        scale = await stage.client.get(REPLICA_SETS, SPACE, "web", subresource="scale")
        assert scale["spec"] == {"replicas": 2}
        assert scale["status"] == {"replicas": 2, "selector": "app=web"}
        with pytest.raises(Invalid):
            await stage.patch(REPLICA_SETS, "web", {"spec": {"selector": {"matchLabels": {"app": "other"}}}})


@on_virtual_time
async def test_a_namespace_with_workloads_is_deleted_without_new_pods() -> None:
    async with staged() as stage:
        await stage.client.create(NAMESPACES, None, {"metadata": {"name": "team"}})
        body = {"metadata": {"name": "web"}, "spec": {"replicas": 3, **_selecting("web")}}
        await stage.client.create(REPLICA_SETS, "team", body)
        await stage.settle()
        await stage.client.delete(NAMESPACES, None, "team")
        await stage.settle(30)
        assert (await stage.client.list(PODS, "team")).items == []
        assert "team" not in [each["metadata"]["name"] for each in (await stage.client.list(NAMESPACES)).items]


def test_the_least_useful_pods_are_deleted_first() -> None:
    ready: dict[str, Any] = {
        "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": "2030-01-01T00:00:00Z"}]
    }
    later: dict[str, Any] = {
        "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": "2030-01-01T01:00:00Z"}]
    }
    cheap = {"controller.kubernetes.io/pod-deletion-cost": "-5"}
    expected = [
        _view("unassigned", node="", phase="Pending"),
        _view("pending", phase="Pending"),
        _view("not-ready"),
        _view("cheap", annotations=cheap, **ready),
        _view("lately-ready", **later),
        _view("ready", **ready),
    ]
    assert order_for_deletion(list(reversed(expected))) == expected


def _view(name: str, *, node: str = "n", phase: str = "Running", annotations: Any = None, **status: Any) -> Pod:
    raw = {
        "metadata": {"name": name, "annotations": annotations or {}, "creationTimestamp": "2030-01-01T00:00:00Z"},
        "spec": {"nodeName": node},
        "status": {"phase": phase, **status},
    }
    return msgspec.convert(raw, Pod)


def _selecting(app: str) -> dict[str, Any]:
    labels = {"app": app}
    spec = {"containers": [{"name": "main", "image": "none:1"}]}
    return {"selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}, "spec": spec}}


def _template_with_priority(name: str | None) -> dict[str, Any]:
    spec = {"containers": [{"name": "main", "image": "none:1"}], "priorityClassName": name}
    return {"metadata": {"labels": {"app": "web"}}, "spec": spec}
