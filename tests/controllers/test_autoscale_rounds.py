"""Sizes as they are planned and taken on, on a cluster whose time a test can let pass."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

from pliant.errors import NotFound
from pliant.kube.resources import NODES, PODS
from tests.controllers.autoscaling import QUICK, seconds, staged
from tests.faults.rig import JOBS
from tests.scenarios.messages import resized
from tests.virtual_time import on_virtual_time


@on_virtual_time
async def test_a_group_grows_into_free_room_within_a_moment_and_says_why() -> None:
    async with staged() as stage:
        await stage.submit("demo")
        await seconds(3)
        assert await stage.size("demo") == 6
        assert await stage.resizes("demo") == [resized("worker", 2, 6, "autoscaler", "4 more fit")]
        told = await stage.scaling("demo")
        assert (told["requestedBy"], told["message"], told["recommendedSize"]) == ("autoscaler", "4 more fit", 6)
        pods = (await stage.client.list(PODS, "default")).items
        assert sum(each["status"]["phase"] == "Running" for each in pods) == 6


@on_virtual_time
async def test_whoever_waits_is_let_in_and_what_is_free_again_is_used_again() -> None:
    async with staged() as stage:
        await stage.submit("demo")
        await seconds(5)
        await stage.pod("service", "2")
        await seconds(3)
        assert (await stage.places.of("service")).startswith("node-")
        assert await stage.size("demo") == 5
        why = "makes room for default/service: 1 pod of 2 CPU is pending"
        assert (await stage.resizes("demo"))[-1] == resized("worker", 6, 5, "autoscaler", why)
        await seconds(60)
        assert await stage.size("demo") == 5
        await stage.client.delete(PODS, "default", "service")
        await seconds(10)
        assert await stage.size("demo") == 6


@on_virtual_time
async def test_nobody_else_has_to_leave_while_those_who_make_way_take_their_time() -> None:
    async with staged() as stage:
        await stage.submit("demo")
        await seconds(5)
        stage.kubelet.grace = 20.0
        await stage.pod("service", "2")
        for _ in range(15):
            await seconds(1)
            assert await stage.size("demo") in (5, 6)
            assert not await stage.places.of("service")
        await seconds(15)
        assert (await stage.places.of("service")).startswith("node-")
        assert await stage.size("demo") == 5


@on_virtual_time
async def test_nobody_grows_into_room_that_is_not_free_yet() -> None:
    async with staged(nodes=1) as stage:
        await stage.pod("service", "2")
        await stage.submit("demo", minReplicas=1)
        await seconds(10)
        assert await stage.size("demo") == 2
        stage.kubelet.grace = 20.0
        await stage.client.delete(PODS, "default", "service")
        await seconds(15)
        assert await stage.size("demo") == 2
        await seconds(15)
        assert await stage.size("demo") == 3


@on_virtual_time
async def test_no_group_goes_below_its_least_whoever_waits() -> None:
    async with staged() as stage:
        await stage.submit("demo")
        await seconds(5)
        for number in range(8):
            await stage.pod(f"service-{number}", "1")
        await seconds(60)
        assert await stage.size("demo") == 2
        placed = [bool(await stage.places.of(f"service-{number}")) for number in range(8)]
        assert sum(placed) == 6


@on_virtual_time
async def test_several_jobs_share_a_cluster() -> None:
    async with staged() as stage:
        for name in ("a", "b", "c"):
            await stage.submit(name, minReplicas=1)
        await seconds(60)
        assert sorted(await stage.sizes("a", "b", "c")) == [2, 2, 3]


@on_virtual_time
async def test_groups_that_ask_for_nothing_stay_as_they_are() -> None:
    async with staged() as stage:
        await stage.submit("demo", cpu="")
        await seconds(10)
        told = await stage.scaling("demo")
        assert (told["size"], told["requestedBy"]) == (2, "spec")
        assert "request no CPU, memory or devices" in told["recommendationMessage"]


@on_virtual_time
async def test_advice_is_told_and_nothing_is_changed_by_it() -> None:
    async with staged(options=replace(QUICK, is_advice_only=True)) as stage:
        await stage.submit("demo")
        await seconds(30)
        told = await stage.scaling("demo")
        assert (told["size"], told["requestedBy"], told["recommendedSize"], told["recommendationMessage"]) == (
            2,
            "spec",
            6,
            "4 more fit",
        )
        assert await stage.resizes("demo") == []


@on_virtual_time
async def test_a_job_may_want_advice_while_others_are_set() -> None:
    async with staged() as stage:
        await stage.submit("asks", annotations={"pliant/autoscale": "recommend"})
        await stage.submit("moves")
        await seconds(30)
        told = await stage.scaling("asks")
        assert (told["size"], told["requestedBy"]) == (2, "spec")
        assert told["recommendedSize"] > 2
        # Whoever only asks keeps what it has, and nobody counts on more or less of it.
        assert await stage.size("moves") == 5


@on_virtual_time
async def test_an_annotation_keeps_the_autoscaler_out_and_lets_it_in() -> None:
    async with staged() as stage:
        await stage.submit("demo", annotations={"pliant/autoscale": "off"})
        await seconds(10)
        assert await stage.size("demo") == 2
        assert "recommended" not in await stage.scaling("demo")
        await stage.edit("demo", {"metadata": {"annotations": {"pliant/autoscale": "on"}}})
        await seconds(5)
        assert await stage.size("demo") == 6
        await stage.edit("demo", {"metadata": {"annotations": {"pliant/autoscale": "off"}}})
        await seconds(5)
        assert await stage.size("demo") == 2


@on_virtual_time
async def test_a_size_set_by_hand_wins_and_is_left_alone_for_a_while() -> None:
    async with staged() as stage:
        await stage.submit("demo")
        await seconds(10)
        await stage.edit("demo", {"spec": {"replicaSpecs": {"worker": {"replicas": 3}}}})
        await seconds(200)
        told = await stage.scaling("demo")
        assert (told["size"], told["requestedBy"]) == (3, "spec")
        assert "a user set its size" in told["recommendationMessage"]
        await seconds(110)
        assert await stage.size("demo") == 6


@on_virtual_time
async def test_another_operator_finds_sizes_right_and_changes_nothing() -> None:
    async with staged() as stage:
        for name in ("a", "b", "c"):
            await stage.submit(name, minReplicas=1)
        await stage.pod("service", "2")
        await seconds(120)
        before = {each["metadata"]["name"]: each for each in (await stage.client.list(JOBS)).items}
        await stage.restart(QUICK)
        await seconds(120)
        for after in (await stage.client.list(JOBS)).items:
            old = before[after["metadata"]["name"]]
            assert after["metadata"]["resourceVersion"] == old["metadata"]["resourceVersion"]


@on_virtual_time
async def test_nobody_plans_while_nothing_changes() -> None:
    async with staged() as stage:
        await stage.submit("demo")
        await seconds(60)
        planned = stage.rounds()
        assert 1 <= planned < 10
        written = (await stage.client.list(PODS)).resource_version
        await seconds(600)
        assert (stage.rounds(), (await stage.client.list(PODS)).resource_version) == (planned, written)


@on_virtual_time
async def test_other_people_s_pods_are_not_looked_at_before_there_is_a_group_to_set() -> None:
    async with staged() as stage:
        await stage.submit("demo", edlPolicy=None)
        await stage.pod("service", "1")
        await seconds(30)
        assert stage.operator.autoscaler is not None
        assert stage.operator.autoscaler.cluster_informers.pods.list_count == 0
        await stage.submit("other")
        await seconds(5)
        assert stage.operator.autoscaler.cluster_informers.pods.list_count == 1


@on_virtual_time
async def test_nodes_that_take_nobody_are_not_counted_until_they_do() -> None:
    async with staged(nodes=1) as stage:
        await stage.places.node("tainted", taints=("gpu:NoSchedule",))
        await stage.places.node("cordoned")
        await stage.client.patch(NODES, None, "cordoned", {"spec": {"unschedulable": True}})
        await stage.submit("demo")
        await seconds(20)
        assert await stage.size("demo") == 4
        await stage.client.patch(NODES, None, "cordoned", {"spec": {"unschedulable": False}})
        await seconds(20)
        assert await stage.size("demo") == 6


@on_virtual_time
async def test_a_group_of_which_a_member_has_ended_is_left_alone() -> None:
    async with staged(nodes=1) as stage:
        await stage.submit("demo", completePolicy="All")
        await seconds(10)
        assert await stage.size("demo") == 3
        await stage.kubelet.report("demo-worker-1", "Succeeded", {"terminated": {"exitCode": 0}})
        await seconds(2)
        await stage.places.node("node-1")
        await seconds(20)
        told = await stage.scaling("demo")
        assert (told["size"], "a replica has completed" in told["recommendationMessage"]) == (3, True)


@on_virtual_time
async def test_suspended_jobs_and_those_that_are_over_are_not_set() -> None:
    async with staged() as stage:
        await stage.submit("demo")
        await seconds(10)
        await stage.edit("demo", {"spec": {"suspend": True}})
        await seconds(10)
        await stage.submit("other", size=2, maxReplicas=7)
        await seconds(10)
        assert await stage.sizes("demo", "other") == [6, 7]
        await stage.edit("demo", {"spec": {"suspend": False}})
        await seconds(60)
        assert await stage.sizes("demo", "other") == [4, 4]


@on_virtual_time
async def test_a_job_that_does_not_fit_as_a_whole_begins_with_what_fits() -> None:
    async with staged(nodes=1) as stage:
        await stage.submit("demo", size=6)
        await seconds(10)
        assert await stage.size("demo") in (3, 4)
        status = (await stage.client.get(JOBS, "default", "demo"))["status"]
        assert status["phase"] == "Running"
        # Where no node took its members it is not tried again at once.
        await stage.places.node("node-1")
        await seconds(70)
        assert await stage.size("demo") == 6


@on_virtual_time
async def test_a_deleted_job_is_no_longer_planned_for() -> None:
    async with staged(nodes=1) as stage:
        await stage.submit("demo")
        await stage.submit("other")
        await seconds(10)
        await stage.client.delete(JOBS, "default", "other", propagation="Background")
        for index in range(3):
            with suppress(NotFound):
                await stage.client.delete(PODS, "default", f"other-worker-{index}")
        await seconds(20)
        assert stage.operator.autoscaler is not None
        assert [each.key.name for each in stage.operator.autoscaler.scalable_jobs] == ["demo"]
        assert await stage.size("demo") == 3


@on_virtual_time
async def test_a_job_whose_edit_is_refused_goes_on_making_room() -> None:
    async with staged() as stage:
        await stage.submit("demo")
        await seconds(5)
        await stage.submit("other", minReplicas=1)
        await seconds(60)
        nonsense = {"metadata": {"annotations": {"pliant/autoscale": "banana"}}}
        await stage.client.patch(JOBS, "default", "demo", nonsense)
        await seconds(1)
        await stage.pod("service", "2")
        await seconds(10)
        assert (await stage.places.of("service")).startswith("node-")
        assert await stage.sizes("demo", "other") == [3, 3]
        assert stage.operator.autoscaler is not None
        assert {each.key.name for each in stage.operator.autoscaler.scalable_jobs} == {"demo", "other"}
