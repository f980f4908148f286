"""ElasticJobs: masters come, fail and go, and plans say who their members are."""

from __future__ import annotations

from typing import Any

import pytest

from pliant.controllers.rbac.master_access import ROLE_BINDINGS_RESOURCE, ROLES_RESOURCE
from pliant.kube.client import KubeClient
from pliant.kube.resources import PODS, SERVICE_ACCOUNTS
from tests.controllers.elastic import PLANS, workers
from tests.scenarios.elastic import ElasticScene, elastic_scene, job, master
from tests.scenarios.nodes import Ends, Evicted, PaperNodes
from tests.scenarios.table import side_by_side


async def plans_grow_and_shrink_a_job(scene: ElasticScene, nodes: PaperNodes, name: str) -> None:
    await scene.begin(nodes, name)
    assert f"elasticjob-{name}-dlrover-master" in scene.services
    await scene.plan(f"{name}-scaleplan-0", name, **workers(3), reason="to begin with")
    first = await scene.until_workers(name, 0, 1, 2)
    assert await scene.until_done(f"{name}-scaleplan-0") == "to begin with"
    assert scene.phases_of(f"{name}-scaleplan-0") == ["Created", "Pending", "Scaling", "Succeeded"]
    labels = scene.pods[f"{name}-edljob-worker-1"]["metadata"]["labels"]
    wanted = {"name": name, "replica-type": "worker", "replica-index": "1", "rank-index": "1", "relaunch-count": "0"}
    assert labels.items() >= {(f"elasticjob.dlrover/{key}", value) for key, value in wanted.items()}
    await scene.plan(f"{name}-less", name, "manual", **workers(1))
    assert (await scene.until_workers(name, 0))["0"] == first["0"]
    await scene.until_done(f"{name}-less")


async def pods_are_created_removed_and_migrated_by_name(scene: ElasticScene, nodes: PaperNodes, name: str) -> None:
    await scene.begin(nodes, name)
    listed = {"dlrover-master": {"replicas": 0}, "worker": {"replicas": 2}}
    await scene.plan(f"{name}-0", name, replicaResourceSpecs=listed)
    first = await scene.until_workers(name, 0, 1)
    again = {"name": f"{name}-edljob-worker-2", "type": "worker", "id": 2, "rankIndex": 1, "service": None}
    gone = {"name": f"{name}-edljob-worker-1", "type": "worker"}
    await scene.plan(f"{name}-1", name, createPods=[again], removePods=[gone])
    assert (await scene.until_workers(name, 0, 2))["0"] == first["0"]
    await scene.plan(f"{name}-2", name, migratePods=[{"name": f"{name}-edljob-worker-0", "type": "worker"}])
    await scene.until_workers(name, 2, 3)
    await scene.until_done(f"{name}-2")
    assert scene.pods[f"{name}-edljob-worker-3"]["metadata"]["labels"]["elasticjob.dlrover/rank-index"] == "0"


async def an_empty_plan_makes_way_for_the_one_of_its_name(scene: ElasticScene, nodes: PaperNodes, name: str) -> None:
    await scene.begin(nodes, name)
    plan = f"{name}-scaleplan-0"
    await scene.plan(plan, name, replicaResourceSpecs={}, createPods=[], removePods=[], psHosts=[])
    await scene.until(lambda: plan not in scene.plans, "an empty plan that is gone")
    await scene.plan(plan, name, **workers(1))
    await scene.until_workers(name, 0)
    await scene.until_done(plan)
    await scene.plan(f"{name}-same", name, **workers(1))
    await scene.until(lambda: f"{name}-same" not in scene.plans, "a plan that changes nothing gone")


async def a_suspended_job_holds_its_plans(scene: ElasticScene, nodes: PaperNodes, name: str) -> None:
    await scene.begin(nodes, name)
    await scene.plan(f"{name}-0", name, **workers(2))
    await scene.until_workers(name, 0, 1)
    await scene.until_done(f"{name}-0")
    await scene.edit(name, {"spec": {"suspend": True}})
    await scene.until_phase(name, "Suspended")
    await scene.until_workers(name)
    await scene.plan(f"{name}-held", name, "manual", **workers(1))
    said = "waiting: the job is suspended"
    await scene.until(lambda: _within(scene.plans, f"{name}-held", "status", "message") == said, said)
    await scene.edit(name, {"spec": {"suspend": False}})
    await scene.until_done(f"{name}-held")
    assert len(scene.members(name)) == 1


async def a_deleted_master_is_replaced_and_its_workers_work_on(
    scene: ElasticScene, nodes: PaperNodes, name: str
) -> None:
    await scene.begin(nodes, name)
    await scene.plan(f"{name}-0", name, **workers(2))
    before = await scene.until_workers(name, 0, 1)
    first = await scene.until_master(name)
    await scene.delete_pod(master(name))
    await scene.until_master(name, other_than=first)
    assert await scene.until_workers(name, 0, 1) == before


async def a_master_that_may_not_be_replaced_fails_its_job(scene: ElasticScene, nodes: PaperNodes, name: str) -> None:
    await scene.begin(nodes, name, restartCount=0)
    nodes.order(master(name), Evicted())
    await scene.until_phase(name, "Failed")


async def a_master_that_may_is_replaced_once(scene: ElasticScene, nodes: PaperNodes, name: str) -> None:
    await scene.begin(nodes, name, restartCount=1)
    first = await scene.until_master(name)
    nodes.order(master(name), Evicted())
    await scene.until_master(name, other_than=first)
    nodes.order(master(name), Evicted())
    await scene.until_phase(name, "Failed")


async def a_master_says_by_1_that_the_job_has_failed(scene: ElasticScene, nodes: PaperNodes, name: str) -> None:
    await scene.begin(nodes, name)
    await scene.plan(f"{name}-0", name, **workers(2))
    await scene.until_workers(name, 0, 1)
    nodes.order(master(name), Ends(1))
    await scene.until_phase(name, "Failed")
    await scene.until_workers(name)


async def the_end_leaves_no_pod_of_a_foreign_master(scene: ElasticScene, nodes: PaperNodes, name: str) -> None:
    made = await scene.begin(nodes, name, theirs=True)
    for index in range(2):
        await scene.make_foreign(nodes, made, index)
    counts = ("status", "replicaStatuses", "worker", "active")
    await scene.until(lambda: _within(scene.status(name), *counts) == 2, "two workers counted")
    nodes.order(master(name), Ends(0))
    status = await scene.until_phase(name, "Succeeded")
    assert [each["type"] for each in status["conditions"] if each["status"] == "True"] == ["Created", "Succeeded"]
    await scene.until_workers(name)


async def editing_replicas_resizes_a_job(scene: ElasticScene, nodes: PaperNodes, name: str) -> None:
    await scene.submit(job(nodes, name, size=2))
    await scene.until_master(name)
    await scene.plan(f"{name}-0", name, **workers(2))
    await scene.until_workers(name, 0, 1)
    await scene.edit(name, {"spec": {"replicaSpecs": {"worker": {"replicas": 3}}}})
    await scene.until_workers(name, 0, 1, 2)
    await scene.edit(name, {"spec": {"replicas": 1}}, subresource="scale")
    await scene.until_workers(name, 0)


async def a_plan_that_is_older_than_its_job_waits_for_it(scene: ElasticScene, nodes: PaperNodes, name: str) -> None:
    await scene.plan(f"{name}-auto", name, **workers(2))
    await scene.plan(f"{name}-manual", name, "manual", **workers(2))
    said = f"ElasticJob {name} not found in this namespace"
    plans = (f"{name}-auto", f"{name}-manual")
    await scene.until(lambda: all(_within(scene.plans, plan, "status", "message") == said for plan in plans), said)
    await scene.begin(nodes, name)
    await scene.until_workers(name, 0, 1)
    assert await scene.until_done(f"{name}-manual") == "no changes required"


async def a_plan_of_resources_alone_is_for_those_who_come(scene: ElasticScene, nodes: PaperNodes, name: str) -> None:
    await scene.begin(nodes, name)
    await scene.plan(f"{name}-0", name, **workers(1))
    await scene.until_workers(name, 0)
    await scene.plan(f"{name}-larger", name, "manual", replicaResourceSpecs={"worker": {"resource": {"memory": "7Mi"}}})
    await scene.until_done(f"{name}-larger")
    await scene.plan(f"{name}-more", name, "manual", **workers(2))
    await scene.until_workers(name, 0, 1)
    amounts = [_memory(scene.pods[f"{name}-edljob-worker-{index}"]) for index in range(2)]
    assert amounts[0] != amounts[1] == "7Mi"


async def a_pod_of_another_job_is_not_removed(scene: ElasticScene, nodes: PaperNodes, name: str) -> None:
    await scene.begin(nodes, name)
    await scene.plan(f"{name}-0", name, **workers(2))
    before = await scene.until_workers(name, 0, 1)
    await scene.plan(f"{name}-wrong", name, "manual", removePods=[{"name": "other-job-worker-1"}])
    assert "is not a pod of job" in await scene.until_done(f"{name}-wrong", "Failed")
    assert scene.members(name) == before


async def a_plan_is_done_when_its_pods_are_gone_and_edits_come_too_late(
    scene: ElasticScene, nodes: PaperNodes, name: str
) -> None:
    await scene.begin(nodes, name)
    await scene.plan(f"{name}-0", name, **workers(2))
    await scene.until_workers(name, 0, 1)
    plan = f"{name}-less"
    await scene.plan(plan, name, "manual", **workers(1))
    await scene.until_done(plan)
    pods = (await scene.client.list(PODS, scene.namespace)).items
    assert f"{name}-edljob-worker-1" not in [pod["metadata"]["name"] for pod in pods]
    await scene.client.patch(PLANS, scene.namespace, plan, {"spec": workers(2)})
    told = await scene.until(lambda: scene.told_of_plan(plan), "an answer to the edit")
    assert told == {"PlanEditIgnored"}
    assert list(scene.members(name)) == ["0"]


async def a_foreign_master_is_told_of_those_who_leave_for_good(
    scene: ElasticScene, nodes: PaperNodes, name: str
) -> None:
    made = await scene.begin(nodes, name, theirs=True)
    for index in range(2):
        await scene.make_foreign(nodes, made, index)
    await scene.until_workers(name, 0, 1)
    await scene.plan(f"{name}-less", name, "manual", **workers(1))
    await scene.until_workers(name, 0)
    await scene.until_done(f"{name}-less")
    labels = [each.object["metadata"]["labels"] for each in scene.history if each.name == f"{name}-edljob-worker-1"]
    assert labels[-1]["elasticjob.dlrover/relaunch-count"] == "5"
    assert "scale-type" not in scene.plans[f"{name}-less"]["metadata"]["labels"]


async def a_plan_makes_thirty_anew_who_were_lost_at_once(scene: ElasticScene, nodes: PaperNodes, name: str) -> None:
    await scene.begin(nodes, name)
    await scene.plan(f"{name}-0", name, **workers(30))
    await scene.until_workers(name, *range(30))
    await scene.until_done(f"{name}-0")
    for index in range(30):
        await scene.delete_pod(f"{name}-edljob-worker-{index}")
    await scene.until_workers(name)
    anew = [{"type": "worker", "id": 30 + rank, "rankIndex": rank} for rank in range(30)]
    await scene.plan(f"{name}-1", name, createPods=anew)
    await scene.until_workers(name, *range(30, 60))
    await scene.until_done(f"{name}-1")


def _memory(pod: dict[str, Any]) -> str:
    return str(pod["spec"]["containers"][0]["resources"]["requests"]["memory"])


def _within(found: object, *path: str) -> object:
    for word in path:
        found = found.get(word) if isinstance(found, dict) else None
    return found


async def test_plans_say_who_the_members_are(client: KubeClient) -> None:
    async with elastic_scene(client) as (scene, nodes):
        await side_by_side(
            scene,
            nodes,
            plans_grow_and_shrink_a_job,
            pods_are_created_removed_and_migrated_by_name,
            an_empty_plan_makes_way_for_the_one_of_its_name,
            a_suspended_job_holds_its_plans,
            editing_replicas_resizes_a_job,
            a_foreign_master_is_told_of_those_who_leave_for_good,
        )


@pytest.mark.on_real
async def test_a_plan_does_what_it_says_or_says_why_not(client: KubeClient) -> None:
    async with elastic_scene(client) as (scene, nodes):
        await side_by_side(
            scene,
            nodes,
            a_plan_that_is_older_than_its_job_waits_for_it,
            a_plan_of_resources_alone_is_for_those_who_come,
            a_pod_of_another_job_is_not_removed,
            a_plan_is_done_when_its_pods_are_gone_and_edits_come_too_late,
        )


@pytest.mark.on_real
async def test_a_master_begins_and_ends_its_job(client: KubeClient) -> None:
    async with elastic_scene(client) as (scene, nodes):
        await side_by_side(
            scene,
            nodes,
            a_deleted_master_is_replaced_and_its_workers_work_on,
            a_master_that_may_not_be_replaced_fails_its_job,
            a_master_that_may_is_replaced_once,
            a_master_says_by_1_that_the_job_has_failed,
            the_end_leaves_no_pod_of_a_foreign_master,
        )


async def test_thirty_members_come_back_by_one_plan(client: KubeClient) -> None:
    async with elastic_scene(client) as (scene, nodes):
        await a_plan_makes_thirty_anew_who_were_lost_at_once(scene, nodes, "many")


async def test_names_may_be_as_long_as_services_allow(client: KubeClient) -> None:
    async with elastic_scene(client) as (scene, nodes):
        longest, too_long = "a" * 37, "a" * 38
        await scene.begin(nodes, longest)
        await scene.plan("longest", longest, **workers(1))
        await scene.until_workers(longest, 0)
        await scene.submit(job(nodes, too_long))
        await scene.until_phase(too_long, "Invalid")
        told = await scene.until(lambda: scene.complaint(too_long), "a refusal")
        assert "metadata.name" in told
        assert "is too long" in told


async def test_jobs_of_one_name_in_two_namespaces_have_nothing_to_do_with_each_other(client: KubeClient) -> None:
    async with elastic_scene(client) as (one, ones), elastic_scene(client) as (other, others):
        await one.begin(ones, "same")
        await other.begin(others, "same")
        await one.plan("same-0", "same", **workers(2))
        await one.until_workers("same", 0, 1)
        ones.order(master("same"), Ends(0))
        await one.until_phase("same", "Succeeded")
        assert other.phase("same") == "Running"
        assert (other.plans, other.members("same")) == ({}, {})


@pytest.mark.on_real
async def test_a_deleted_job_leaves_nothing(client: KubeClient) -> None:
    async with elastic_scene(client) as (scene, nodes):
        made = await scene.begin(nodes, "gone")
        await scene.plan("gone-scaleplan-0", "gone", **workers(2))
        await scene.until_workers("gone", 0, 1)
        await scene.make_foreign(nodes, made, 5)
        await scene.delete("gone")
        await scene.until_gone()
        for resource in (SERVICE_ACCOUNTS, ROLES_RESOURCE, ROLE_BINDINGS_RESOURCE, PODS):
            left = [each["metadata"]["name"] for each in (await client.list(resource, scene.namespace)).items]
            assert [name for name in left if "gone" in name] == []
