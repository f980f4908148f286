"""A Job runs pods until enough have succeeded, counts each result once, and ends as Complete or Failed."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pliant.embedded.controllers.workloads.views import DEPLOYMENTS, JOBS, REPLICA_SETS
from pliant.embedded.index_ranges import IndexRanges
from pliant.kube.resources import PODS
from tests.virtual_time import on_virtual_time
from tests.workloads.stage import SPACE, Stage, staged

INDEX = "batch.kubernetes.io/job-completion-index"
FINALIZER = "batch.kubernetes.io/job-tracking"


async def status_of(stage: Stage, name: str = "prepare") -> dict[str, Any]:
    status: dict[str, Any] = (await stage.get(JOBS, name))["status"]
    return status


async def true_conditions(stage: Stage) -> dict[str, str]:
    conditions = (await status_of(stage)).get("conditions") or ()
    return {each["type"]: each["reason"] for each in conditions if each["status"] == "True"}


async def active_names(stage: Stage) -> list[str]:
    return [each["metadata"]["name"] for each in await stage.active_pods()]


async def finish_all(stage: Stage, exit_code: int = 0) -> None:
    for name in await active_names(stage):
        await stage.finish(name, exit_code)
    await stage.settle(2)


@on_virtual_time
async def test_a_job_completes_and_nothing_is_written_afterwards() -> None:
    async with staged() as stage:
        await stage.create_job()
        await stage.settle(2)
        status = await status_of(stage)
        assert status.pop("startTime")
        assert status == {"active": 1, "ready": 1, "terminating": 0, "uncountedTerminatedPods": {}}
        [pod] = await stage.list_objects(PODS)
        assert pod["metadata"]["finalizers"] == [FINALIZER]
        assert pod["metadata"]["labels"]["job-name"] == "prepare"
        await stage.finish(pod["metadata"]["name"])
        await stage.settle(2)
        status = await status_of(stage)
        assert status["succeeded"] == 1
        assert status["completionTime"]
        assert await true_conditions(stage) == dict.fromkeys(["SuccessCriteriaMet", "Complete"], "CompletionsReached")
        [pod] = await stage.list_objects(PODS)
        assert "finalizers" not in pod["metadata"]
        assert await stage.event_reasons("prepare") == ["SuccessfulCreate", "Completed"]
        before = len(stage.writes)
        await stage.settle(4_000)
        assert stage.writes[before:] == []


@on_virtual_time
async def test_as_many_pods_run_at_once_as_the_parallelism_says() -> None:
    async with staged() as stage:
        await stage.create_job(completions=5, parallelism=2)
        running = []
        for _ in range(3):
            await stage.settle(2)
            running.append(len(await active_names(stage)))
            await finish_all(stage)
        assert running == [2, 2, 1]
        assert (await status_of(stage))["succeeded"] == 5
        assert "Complete" in await true_conditions(stage)


@on_virtual_time
async def test_failed_pods_are_replaced_later_and_later_until_the_limit() -> None:
    async with staged() as stage:
        await stage.create_job(backoffLimit=2)
        for wait in (7, 17, 27):
            await stage.settle(2)
            assert len(await active_names(stage)) == 1
            await finish_all(stage, 1)
            assert await active_names(stage) == []
            await stage.settle(wait)
        assert await true_conditions(stage) == dict.fromkeys(["FailureTarget", "Failed"], "BackoffLimitExceeded")
        status = await status_of(stage)
        assert status["failed"] == 3
        assert len(await stage.list_objects(PODS)) == 3
        assert (await stage.event_reasons("prepare"))[-1] == "BackoffLimitExceeded"


@on_virtual_time
async def test_each_result_is_counted_once_however_the_controllers_are_interrupted() -> None:
    """The controllers are restarted after every third of their writes."""
    async with staged() as stage:
        await stage.create_job(completions=6, parallelism=3, backoffLimit=10)
        ended = 0
        for _ in range(60):
            await stage.restart_controllers(after_writes=3)
            await stage.settle(21)
            for name in await active_names(stage):
                ended += 1
                await stage.finish(name, 1 if ended % 3 == 0 else 0)
            if "Complete" in await true_conditions(stage):
                break
        await stage.restart_controllers()
        await stage.settle(700)
        status = await status_of(stage)
        phases = [each["status"]["phase"] for each in await stage.list_objects(PODS)]
        assert status["succeeded"] == 6 == phases.count("Succeeded")
        assert status["failed"] == phases.count("Failed") > 0
        assert status["uncountedTerminatedPods"] == {}


@on_virtual_time
async def test_indexed_jobs_give_each_pod_its_index() -> None:
    async with staged() as stage:
        await stage.create_job(completions=3, parallelism=3, completionMode="Indexed")
        await stage.settle(2)
        pods = sorted(await stage.active_pods(), key=lambda pod: str(pod["metadata"]["annotations"][INDEX]))
        assert [each["metadata"]["labels"][INDEX] for each in pods] == ["0", "1", "2"]
        assert [each["spec"]["hostname"] for each in pods] == ["prepare-0", "prepare-1", "prepare-2"]
        assert pods[1]["metadata"]["name"].startswith("prepare-1-")
        variable = pods[0]["spec"]["containers"][0]["env"][0]
        assert variable["name"] == "JOB_COMPLETION_INDEX"
        await stage.finish(pods[0]["metadata"]["name"])
        await stage.finish(pods[2]["metadata"]["name"])
        await stage.finish(pods[1]["metadata"]["name"], 1)
        await stage.settle(15)
        assert (await status_of(stage))["completedIndexes"] == "0,2"
        [replacement] = await stage.active_pods()
        assert replacement["metadata"]["annotations"][INDEX] == "1"
        await finish_all(stage)
        status = await status_of(stage)
        assert (status["completedIndexes"], status["succeeded"], status["failed"]) == ("0-2", 3, 1)
        assert "Complete" in await true_conditions(stage)


@on_virtual_time
async def test_a_deadline_ends_the_job_and_its_pods() -> None:
    async with staged() as stage:
        await stage.create_job(activeDeadlineSeconds=60)
        await stage.settle(50)
        assert len(await active_names(stage)) == 1
        await stage.settle(20)
        assert await true_conditions(stage) == dict.fromkeys(["FailureTarget", "Failed"], "DeadlineExceeded")
        assert await stage.list_objects(PODS) == []
        assert (await status_of(stage))["failed"] == 1


@on_virtual_time
async def test_a_suspended_job_has_no_pods_and_counts_no_failures() -> None:
    async with staged() as stage:
        await stage.create_job(suspend=True, activeDeadlineSeconds=100, backoffLimit=0)
        await stage.settle(1000)
        assert await stage.list_objects(PODS) == []
        assert await true_conditions(stage) == {"Suspended": "JobSuspended"}
        for _ in range(2):
            await stage.patch(JOBS, "prepare", {"spec": {"suspend": False}})
            await stage.settle(2)
            assert len(await active_names(stage)) == 1
            await stage.patch(JOBS, "prepare", {"spec": {"suspend": True}})
            await stage.settle(2)
            assert await stage.list_objects(PODS) == []
        assert "failed" not in await status_of(stage)
        await stage.patch(JOBS, "prepare", {"spec": {"suspend": False}})
        await stage.settle(2)
        await finish_all(stage)
        assert "Complete" in await true_conditions(stage)
        reasons = await stage.event_reasons("prepare")
        assert {"Suspended", "Resumed", "Completed"} <= set(reasons)


@on_virtual_time
async def test_a_finished_job_is_deleted_after_its_time_to_live() -> None:
    async with staged() as stage:
        await stage.create_job(ttlSecondsAfterFinished=30)
        await stage.settle(2)
        await finish_all(stage)
        await stage.settle(20)
        assert len(await stage.list_objects(JOBS)) == 1
        await stage.settle(20)
        assert await stage.list_objects(JOBS) == await stage.list_objects(PODS) == []


@on_virtual_time
async def test_the_pods_of_a_deleted_job_are_deleted_although_they_have_a_finalizer() -> None:
    async with staged() as stage:
        for propagation in ("Background", "Foreground"):
            await stage.create_job(parallelism=2, completions=2)
            await stage.settle(2)
            await stage.client.delete(JOBS, SPACE, "prepare", propagation=propagation)
            await stage.settle(5)
            assert await stage.list_objects(PODS) == await stage.list_objects(JOBS) == []


@on_virtual_time
async def test_pods_of_a_job_that_was_deleted_while_nothing_ran_are_released_at_the_next_start() -> None:
    async with staged() as stage:
        await stage.create_job()
        await stage.settle(2)
        await stage.stop_controllers()
        await stage.client.delete(JOBS, SPACE, "prepare", propagation="Background")
        await stage.settle(5)
        assert len(await stage.list_objects(PODS)) == 1
        await stage.restart_controllers()
        await stage.settle(5)
        assert await stage.list_objects(PODS) == []


@on_virtual_time
async def test_pods_without_a_job_lose_the_finalizer_but_those_of_other_controllers_do_not() -> None:
    async with staged() as stage:
        await stage.create_job("theirs", managedBy="example.org/controller")
        await stage.settle(5)
        assert await stage.list_objects(PODS) == []
        assert (await status_of(stage, "theirs")) == {}


@on_virtual_time
async def test_a_deleted_pod_counts_as_failed_and_is_replaced() -> None:
    async with staged() as stage:
        await stage.create_job()
        await stage.settle(2)
        [name] = await active_names(stage)
        await stage.client.delete(PODS, SPACE, name)
        await stage.settle(20)
        assert (await status_of(stage))["failed"] == 1
        assert len(await active_names(stage)) == 1


RULES = [
    {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]},
    {"action": "FailJob", "onExitCodes": {"operator": "In", "values": [42]}},
]


@on_virtual_time
async def test_a_failure_policy_ignores_disruptions_and_fails_the_job_at_once() -> None:
    async with staged() as stage:
        await stage.create_job(podFailurePolicy={"rules": RULES}, backoffLimit=0)
        await stage.settle(2)
        [name] = await active_names(stage)
        disrupted = [{"type": "DisruptionTarget", "status": "True"}]
        await stage.finish(name, 1)
        await stage.settle(0)
        assert "FailureTarget" in await true_conditions(stage)
        await stage.client.delete(JOBS, SPACE, "prepare", propagation="Background")
        await stage.settle(5)
        await stage.create_job(podFailurePolicy={"rules": RULES}, backoffLimit=0)
        await stage.settle(2)
        [name] = await active_names(stage)
        await stage.set_status(name, conditions=disrupted, phase="Failed")
        await stage.settle(30)
        assert "failed" not in await status_of(stage)
        [name] = await active_names(stage)
        await stage.finish(name, 42)
        await stage.settle(5)
        assert await true_conditions(stage) == dict.fromkeys(["FailureTarget", "Failed"], "PodFailurePolicy")


@on_virtual_time
async def test_a_success_policy_ends_the_job_with_its_remaining_pods() -> None:
    async with staged() as stage:
        rules = {"rules": [{"succeededIndexes": "0", "succeededCount": 1}]}
        await stage.create_job(completions=3, parallelism=3, completionMode="Indexed", successPolicy=rules)
        await stage.settle(2)
        first = next(x for x in await stage.active_pods() if x["metadata"]["annotations"][INDEX] == "0")
        await stage.finish(first["metadata"]["name"])
        await stage.settle(5)
        assert await true_conditions(stage) == dict.fromkeys(["SuccessCriteriaMet", "Complete"], "SuccessPolicy")
        status = await status_of(stage)
        assert (status["succeeded"], status.get("failed", 0)) == (1, 0)
        assert len(await stage.list_objects(PODS)) == 1


@on_virtual_time
async def test_an_index_fails_alone_when_its_failures_are_limited() -> None:
    async with staged() as stage:
        limits: dict[str, Any] = {"backoffLimitPerIndex": 1, "maxFailedIndexes": 1}
        await stage.create_job(completions=2, parallelism=2, completionMode="Indexed", **limits)
        await stage.settle(2)
        for _ in range(2):
            for pod in await stage.active_pods():
                await stage.finish(pod["metadata"]["name"], int(pod["metadata"]["annotations"][INDEX] == "0"))
            await stage.settle(30)
        status = await status_of(stage)
        assert (status["completedIndexes"], status["failedIndexes"], status["failed"]) == ("1", "0", 2)
        assert (await true_conditions(stage))["Failed"] == "FailedIndexes"


@on_virtual_time
async def test_restarts_of_containers_count_towards_the_limit() -> None:
    async with staged() as stage:
        await stage.create_job(restart_policy="OnFailure", backoffLimit=2)
        await stage.settle(2)
        [name] = await active_names(stage)
        running = {"name": "main", "image": "", "imageID": "", "ready": True, "state": {"running": {}}}
        await stage.set_status(name, containerStatuses=[{**running, "restartCount": 1}])
        await stage.settle(2)
        assert await active_names(stage) == [name]
        await stage.set_status(name, containerStatuses=[{**running, "restartCount": 2}])
        await stage.settle(2)
        assert (await true_conditions(stage))["Failed"] == "BackoffLimitExceeded"


@on_virtual_time
async def test_a_pod_is_replaced_only_when_it_has_failed_if_the_job_says_so() -> None:
    async with staged() as stage:
        await stage.create_job(podReplacementPolicy="Failed")
        await stage.settle(2)
        [name] = await active_names(stage)
        await stage.client.patch(PODS, SPACE, name, {"metadata": {"finalizers": [FINALIZER, "example.org/hold"]}})
        await stage.client.delete(PODS, SPACE, name)
        await stage.settle(30)
        assert await active_names(stage) == []
        assert (await status_of(stage))["terminating"] == 1
        await stage.finish(name, 1)
        await stage.settle(15)
        assert len(await active_names(stage)) == 1


@on_virtual_time
async def test_a_job_of_very_many_indexes_costs_no_more_than_its_pods() -> None:
    async with staged() as stage:
        many = 2**31 - 1
        rules = {"rules": [{"succeededIndexes": f"0-{many - 1}", "succeededCount": 2}]}
        spec: dict[str, Any] = {"completionMode": "Indexed", "completions": many, "parallelism": 2}
        await stage.create_job(**spec, successPolicy=rules)
        await stage.settle(2)
        await finish_all(stage)
        assert "Complete" in await true_conditions(stage)
        assert (await status_of(stage))["completedIndexes"] == "0,1"


@on_virtual_time
async def test_numbers_and_times_that_users_wrote_do_not_stop_the_controllers() -> None:
    async with staged() as stage:
        await stage.create_deployment()
        await stage.settle(5)
        odd = {"deployment.kubernetes.io/revision": "9" * 5000, "deployment.kubernetes.io/max-replicas": "x"}
        for each in await stage.list_objects(REPLICA_SETS):
            await stage.patch(REPLICA_SETS, each["metadata"]["name"], {"metadata": {"annotations": odd}})
        condition = {"type": "Progressing", "status": "True", "reason": "ReplicaSetUpdated"}
        status = {"status": {"conditions": [condition]}}
        await stage.client.patch(DEPLOYMENTS, SPACE, "web", status, subresource="status")
        await stage.patch(DEPLOYMENTS, "web", {"spec": {"replicas": 2}})
        await stage.settle(5)
        assert (await stage.get(DEPLOYMENTS, "web"))["status"]["availableReplicas"] == 2


@given(st.sets(st.integers(0, 40)), st.sets(st.integers(0, 40)), st.integers(0, 40), st.integers(0, 45))
def test_ranges_are_sets(first: set[int], second: set[int], count: int, limit: int) -> None:
    ranges, other = IndexRanges.of(first), IndexRanges.of(second)
    assert ranges.total == len(first)
    assert {index for index in range(50) if index in ranges} == first
    assert ranges.union(other) == IndexRanges.of(first | second)
    assert ranges.count_common(other) == len(first & second)
    assert ranges.below(limit) == IndexRanges.of(index for index in first if index < limit)
    assert ranges.first_absent(count, limit) == [index for index in range(limit) if index not in first][:count]
    assert IndexRanges.parse(str(ranges), 50) == ranges


@pytest.mark.parametrize(
    ("indexes", "text"), [([], ""), ([3], "3"), ([0, 1], "0,1"), ([0, 1, 2], "0-2"), ([1, 3, 4, 5, 7, 8], "1,3-5,7,8")]
)
def test_indexes_are_written_as_ranges(indexes: list[int], text: str) -> None:
    assert str(IndexRanges.of(indexes)) == text
    assert IndexRanges.parse(text, 10) == IndexRanges.of(indexes)


@pytest.mark.parametrize("text", ["a", "1,", "2,1", "1-1", "3-2", "0-10", "-1", "1,,2"])
def test_invalid_ranges_are_refused(text: str) -> None:
    with pytest.raises(ValueError):
        IndexRanges.parse(text, 10)
