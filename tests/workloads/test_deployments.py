"""A Deployment replaces its pods step by step, keeps its history, and reports the progress."""

from __future__ import annotations

from typing import Any

import pytest

from pliant.embedded.controllers.workloads.rollout import (
    max_surge,
    max_unavailable,
    plan_new_size,
    plan_old_sizes,
    plan_proportional_sizes,
)
from pliant.embedded.controllers.workloads.views import (
    DEPLOYMENTS,
    REPLICA_SETS,
    Deployment,
    DeploymentSpec,
    DeploymentStrategy,
    ReplicaSet,
    ReplicaSetSpec,
)
from pliant.kube.objects import ObjectMeta
from pliant.kube.resources import PODS
from tests.virtual_time import on_virtual_time
from tests.workloads.stage import SPACE, Stage, container_spec, staged

REVISION = "deployment.kubernetes.io/revision"


def template(version: str) -> dict[str, Any]:
    return {"metadata": {"labels": {"app": "web", "version": version}}, "spec": container_spec()}


async def roll_out(stage: Stage, version: str, seconds: float = 30) -> None:
    await stage.patch(DEPLOYMENTS, "web", {"spec": {"template": template(version)}})
    await stage.settle(seconds)


async def conditions(stage: Stage) -> dict[str, tuple[str, str]]:
    listed = (await stage.get(DEPLOYMENTS, "web"))["status"]["conditions"]
    return {each["type"]: (each["status"], each["reason"]) for each in listed}


async def sizes(stage: Stage) -> dict[str, int]:
    """Return the size of each ReplicaSet, by revision."""
    listed = await stage.list_objects(REPLICA_SETS)
    return {each["metadata"]["annotations"][REVISION]: each["spec"]["replicas"] for each in listed}


@on_virtual_time
async def test_a_rollout_completes_and_nothing_is_written_afterwards() -> None:
    async with staged() as stage:
        await stage.create_deployment(replicas=3)
        await stage.settle()
        deployment = await stage.get(DEPLOYMENTS, "web")
        assert deployment["metadata"]["annotations"] == {REVISION: "1"}
        assert deployment["metadata"]["generation"] == deployment["status"]["observedGeneration"] == 1
        done = {"Available": ("True", "MinimumReplicasAvailable"), "Progressing": ("True", "NewReplicaSetAvailable")}
        assert await conditions(stage) == done
        await roll_out(stage, "2")
        assert await sizes(stage) == {"1": 0, "2": 3}
        assert await conditions(stage) == done
        assert {each["metadata"]["labels"]["version"] for each in await stage.list_objects(PODS)} == {"2"}
        before = len(stage.writes)
        await stage.settle(4_000)
        assert stage.writes[before:] == []


@on_virtual_time
async def test_a_rollout_never_has_too_few_or_too_many_pods() -> None:
    async with staged() as stage:
        update = {"maxSurge": 1, "maxUnavailable": 0}
        await stage.create_deployment(replicas=4, strategy={"rollingUpdate": update})
        await stage.settle()
        await stage.patch(DEPLOYMENTS, "web", {"spec": {"template": template("2")}})
        for _ in range(100):
            await stage.settle(0.05)
            active = await stage.active_pods()
            ready = [x for x in active if x["status"].get("conditions", [{}])[-1].get("status") == "True"]
            assert len(ready) >= 4
            assert len(active) <= 5
        assert await sizes(stage) == {"1": 0, "2": 4}


@on_virtual_time
async def test_recreate_waits_until_the_old_pods_are_gone() -> None:
    async with staged() as stage:
        await stage.create_deployment(replicas=2, strategy={"type": "Recreate"})
        await stage.settle()
        await stage.patch(DEPLOYMENTS, "web", {"spec": {"template": template("2")}})
        for _ in range(40):
            await stage.settle(0.05)
            versions = {each["metadata"]["labels"].get("version") for each in await stage.list_objects(PODS)}
            assert len(versions) < 2
        assert await sizes(stage) == {"1": 0, "2": 2}


@on_virtual_time
async def test_an_earlier_template_becomes_a_new_revision() -> None:
    async with staged() as stage:
        await stage.create_deployment(template=template("1"))
        await stage.settle()
        await roll_out(stage, "2")
        await roll_out(stage, "1")
        assert await sizes(stage) == {"3": 1, "2": 0}
        by_revision = {x["metadata"]["annotations"][REVISION]: x for x in await stage.list_objects(REPLICA_SETS)}
        assert by_revision["3"]["metadata"]["annotations"]["deployment.kubernetes.io/revision-history"] == "1"
        assert (await stage.get(DEPLOYMENTS, "web"))["metadata"]["annotations"][REVISION] == "3"


@on_virtual_time
async def test_the_history_is_limited() -> None:
    async with staged() as stage:
        await stage.create_deployment(revisionHistoryLimit=1, template=template("1"))
        await stage.settle()
        for version in ("2", "3", "4"):
            await roll_out(stage, version)
        assert await sizes(stage) == {"3": 0, "4": 1}


@on_virtual_time
async def test_a_paused_deployment_is_scaled_but_not_updated() -> None:
    async with staged() as stage:
        await stage.create_deployment(replicas=2, template=template("1"))
        await stage.settle()
        await stage.patch(DEPLOYMENTS, "web", {"spec": {"paused": True}})
        await roll_out(stage, "2")
        assert (await conditions(stage))["Progressing"] == ("Unknown", "DeploymentPaused")
        await stage.patch(DEPLOYMENTS, "web", {"spec": {"replicas": 4}})
        await stage.settle()
        assert await sizes(stage) == {"1": 4}
        await stage.patch(DEPLOYMENTS, "web", {"spec": {"paused": False}})
        await stage.settle(30)
        assert await sizes(stage) == {"1": 0, "2": 4}
        assert (await conditions(stage))["Progressing"] == ("True", "NewReplicaSetAvailable")


@on_virtual_time
async def test_a_rollout_without_progress_exceeds_its_deadline_and_can_be_undone() -> None:
    async with staged() as stage:
        await stage.create_deployment(replicas=4, progressDeadlineSeconds=60, template=template("1"))
        await stage.settle()
        stage.is_unready = lambda pod: pod.metadata.labels.get("version") == "2"
        await roll_out(stage, "2", seconds=50)
        assert (await conditions(stage))["Progressing"] == ("True", "ReplicaSetUpdated")
        await stage.settle(30)
        assert (await conditions(stage))["Progressing"] == ("False", "ProgressDeadlineExceeded")
        assert await sizes(stage) == {"1": 3, "2": 2}
        await roll_out(stage, "1")
        assert await sizes(stage) == {"3": 4, "2": 0}
        assert (await conditions(stage))["Progressing"] == ("True", "NewReplicaSetAvailable")


@on_virtual_time
async def test_a_template_that_is_replaced_during_its_rollout_is_abandoned() -> None:
    async with staged() as stage:
        await stage.create_deployment(replicas=4, template=template("1"))
        await stage.settle()
        stage.is_unready = lambda pod: pod.metadata.labels.get("version") == "2"
        await roll_out(stage, "2", seconds=5)
        await roll_out(stage, "3")
        assert await sizes(stage) == {"1": 0, "2": 0, "3": 4}


@on_virtual_time
async def test_a_taken_name_of_a_replica_set_is_avoided() -> None:
    async with staged() as stage:
        await stage.create_deployment(replicas=1)
        await stage.settle()
        [replica_set] = await stage.list_objects(REPLICA_SETS)
        name = replica_set["metadata"]["name"]
        await stage.client.delete(DEPLOYMENTS, SPACE, "web")
        await stage.settle()
        await stage.create_replica_set(name)
        await stage.create_deployment(replicas=1)
        await stage.settle()
        deployment = await stage.get(DEPLOYMENTS, "web")
        assert deployment["status"]["collisionCount"] == 1
        assert deployment["status"]["availableReplicas"] == 1


@on_virtual_time
async def test_everything_of_a_deleted_deployment_is_deleted_or_orphaned_and_adopted_again() -> None:
    async with staged() as stage:
        await stage.create_deployment(replicas=2)
        await stage.settle()
        await stage.client.delete(DEPLOYMENTS, SPACE, "web", propagation="Orphan")
        await stage.settle()
        before = {each["metadata"]["uid"] for each in await stage.list_objects(PODS)}
        assert len(before) == 2
        await stage.create_deployment(replicas=2)
        await stage.settle()
        assert {each["metadata"]["uid"] for each in await stage.list_objects(PODS)} == before
        await stage.client.delete(DEPLOYMENTS, SPACE, "web")
        await stage.settle()
        assert await stage.list_objects(REPLICA_SETS) == await stage.list_objects(PODS) == []


@on_virtual_time
async def test_the_failure_of_a_replica_set_is_a_condition_of_the_deployment() -> None:
    async with staged() as stage:
        bad = {**template("1"), "spec": {**container_spec(), "priorityClassName": "nonexistent"}}
        await stage.create_deployment(template=bad)
        await stage.settle()
        assert (await conditions(stage))["ReplicaFailure"] == ("True", "FailedCreate")
        good = {**template("2"), "spec": {**container_spec(), "priorityClassName": None}}
        await stage.patch(DEPLOYMENTS, "web", {"spec": {"template": good}})
        await stage.settle(30)
        assert "ReplicaFailure" not in await conditions(stage)


def deployment_of(replicas: int, surge: Any = "25%", unavailable: Any = "25%") -> Deployment:
    strategy = DeploymentStrategy(rolling_update={"maxSurge": surge, "maxUnavailable": unavailable})
    return Deployment(metadata=ObjectMeta(name="web"), spec=DeploymentSpec(replicas=replicas, strategy=strategy))


def replica_set_of(name: str, size: int, available: int | None = None, max_replicas: int = 0) -> ReplicaSet:
    annotations = {"deployment.kubernetes.io/max-replicas": str(max_replicas)} if max_replicas else {}
    status = {"availableReplicas": size if available is None else available}
    metadata = ObjectMeta(name=name, annotations=annotations)
    return ReplicaSet(metadata=metadata, spec=ReplicaSetSpec(replicas=size), status=status)


@pytest.mark.parametrize(
    ("replicas", "surge", "unavailable", "limits"),
    [
        (4, "25%", "25%", (1, 1)),
        (1, "25%", "25%", (1, 0)),
        (10, "25%", "25%", (3, 2)),
        (3, 0, "10%", (0, 1)),
        (2, 3, 5, (3, 2)),
        (0, 1, 1, (1, 0)),
    ],
)
def test_limits_are_rounded_in_favour_of_available_pods(
    replicas: int, surge: Any, unavailable: Any, limits: tuple[int, int]
) -> None:
    deployment = deployment_of(replicas, surge, unavailable)
    assert (max_surge(deployment), max_unavailable(deployment)) == limits


def test_the_new_replica_set_grows_within_the_surge() -> None:
    assert plan_new_size(deployment_of(10, 3, 2), [replica_set_of("a", 10)], 0) == 3
    assert plan_new_size(deployment_of(10, 3, 2), [replica_set_of("a", 8)], 3) == 5
    assert plan_new_size(deployment_of(10, 3, 2), [replica_set_of("a", 13)], 0) == 0
    assert plan_new_size(deployment_of(2), [], 5) == 2


def test_unavailable_old_pods_are_removed_first() -> None:
    new = replica_set_of("new", 0)
    old = [replica_set_of("a", 8, available=8), replica_set_of("b", 5, available=1)]
    assert plan_old_sizes(deployment_of(10, 3, 2), new, old) == {"a": 7, "b": 1}
    assert plan_old_sizes(deployment_of(10, 3, 2), replica_set_of("new", 5, 0), [replica_set_of("a", 8)]) == {"a": 8}


def test_a_scaled_rollout_keeps_its_proportions() -> None:
    new, old = replica_set_of("new", 3, max_replicas=13), [replica_set_of("old", 10, max_replicas=13)]
    assert plan_proportional_sizes(deployment_of(20, 3, 2), new, old) == {"old": 18, "new": 5}
    assert plan_proportional_sizes(deployment_of(5, 3, 2), new, old) == {"old": 6, "new": 2}
    assert plan_proportional_sizes(deployment_of(7), new, []) == {"new": 7}
    assert plan_proportional_sizes(deployment_of(7), None, [replica_set_of("old", 0)]) == {"old": 7}
