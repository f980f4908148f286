"""Plans on a cluster: carried out, told of, and cleared away."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from pliant.controllers.rbac.master_access import ROLE_BINDINGS_RESOURCE, ROLES_RESOURCE
from pliant.controllers.scale_plans import JOB_INDEX, ScalePlanStore, job_key_of_plan
from pliant.frontends.elasticjob.job import ElasticJobFrontend
from pliant.kube.cache.store import ObjectStore
from pliant.kube.resources import CRDS, PODS, SERVICE_ACCOUNTS, SERVICES
from pliant.model.job import JobKey
from pliant.model.operator_config import OperatorConfig
from tests.controllers.elastic import JOBS, MASTER, PLANS, SPACE, an_owner, foreign_pod, staged, workers
from tests.scenarios.messages import timeline_in
from tests.virtual_time import VirtualClock, on_virtual_time, passing

MOMENT = timedelta(seconds=1)
A_WHILE = timedelta(seconds=10)
SOMEBODY_ELSES = ["python", "-m", "dlrover.python.master.main"]


@on_virtual_time
async def test_a_master_gets_an_account_with_rights_and_a_service() -> None:
    async with staged() as stage:
        job = await stage.submit()
        await passing(MOMENT)
        pod = (await stage.pods())[f"{MASTER}-0"]
        assert pod["spec"]["serviceAccountName"] == MASTER
        assert pod["status"]["phase"] == "Running"
        for resource in (SERVICE_ACCOUNTS, ROLES_RESOURCE, ROLE_BINDINGS_RESOURCE, SERVICES):
            made = await stage.client.get(resource, SPACE, MASTER)
            assert made["metadata"]["ownerReferences"][0]["uid"] == job["metadata"]["uid"]
        rules = (await stage.client.get(ROLES_RESOURCE, SPACE, MASTER))["rules"]
        assert {"scaleplans", "elasticjobs/finalizers", "configmaps"} <= {each["resources"][0] for each in rules}


@on_virtual_time
async def test_plans_are_carried_out_one_after_the_other() -> None:
    async with staged() as stage:
        await stage.submit()
        await passing(MOMENT)
        await stage.plan("demo-scaleplan-0", **workers(3), reason="to begin with")
        await passing(MOMENT)
        assert await stage.workers() == ["0", "1", "2"]
        told = (await stage.plans())["demo-scaleplan-0"]["status"]
        assert (told["phase"], told["message"]) == ("Succeeded", "to begin with")
        assert told["createTime"] <= told["finishTime"]
        await stage.plan("demo-scaleplan-1", removePods=[{"name": "demo-edljob-worker-1", "type": "worker"}])
        await stage.plan("demo-scaleplan-2", createPods=[{"type": "worker", "id": 7, "rankIndex": 1}])
        await passing(A_WHILE)
        assert await stage.workers() == ["0", "2", "7"]
        labels = (await stage.pods())["demo-edljob-worker-7"]["metadata"]["labels"]
        assert (labels["elasticjob.dlrover/rank-index"], labels["elasticjob.dlrover/replica-index"]) == ("1", "7")
        assert {each["status"]["phase"] for each in (await stage.plans()).values()} == {"Succeeded"}


@on_virtual_time
async def test_a_member_that_is_gone_is_made_again_by_nobody_but_a_plan() -> None:
    async with staged() as stage:
        await stage.submit()
        await stage.plan("first", **workers(2))
        await passing(A_WHILE)
        await stage.client.delete(PODS, SPACE, "demo-edljob-worker-1")
        await passing(A_WHILE)
        assert await stage.workers() == ["0"]
        again = {"type": "worker", "id": 2, "rankIndex": 1, "service": None}
        await stage.plan("second", createPods=[again])
        await passing(A_WHILE)
        assert await stage.workers() == ["0", "2"]


@on_virtual_time
async def test_a_plan_that_changes_nothing_frees_its_name_at_once() -> None:
    async with staged() as stage:
        await stage.submit()
        await passing(MOMENT)
        await stage.plan("demo-scaleplan-0", replicaResourceSpecs={}, createPods=[])
        await passing(timedelta(milliseconds=100))
        assert await stage.plans() == {}
        await stage.plan("demo-scaleplan-0", **workers(1))
        await passing(MOMENT)
        assert await stage.workers() == ["0"]


@on_virtual_time
async def test_few_finished_plans_are_kept_and_not_for_ever() -> None:
    async with staged(rules=OperatorConfig(plan_history_limit=2, plan_ttl=timedelta(minutes=1))) as stage:
        await stage.submit()
        for number in range(5):
            await stage.plan(f"demo-scaleplan-{number}", **workers(1 + number % 2))
            await passing(timedelta(seconds=2))
        assert set(await stage.plans()) == {"demo-scaleplan-3", "demo-scaleplan-4"}
        await passing(timedelta(minutes=1, seconds=5))
        assert await stage.plans() == {}


@on_virtual_time
async def test_pods_of_a_foreign_master_are_seen_and_go_with_the_job() -> None:
    async with staged(lambda name, index, attempt: 0 if name == "dlrover-master" else -1) as stage:
        job = await stage.submit(command=SOMEBODY_ELSES)
        for index in range(2):
            await stage.client.create(PODS, SPACE, foreign_pod(job, index))
        other = foreign_pod({"metadata": {"name": "demo", "uid": "another"}}, 7)
        del other["metadata"]["ownerReferences"]
        await stage.client.create(PODS, SPACE, other)
        await passing(MOMENT)
        assert (await stage.job())["status"]["replicaStatuses"]["worker"]["active"] == 2
        await passing(A_WHILE)
        assert (await stage.job())["phase"] == "Succeeded"
        assert await stage.workers() == ["7"]


@on_virtual_time
async def test_a_foreign_master_is_told_that_nobody_is_to_come_in_place_of_a_member() -> None:
    async with staged() as stage:
        job = await stage.submit(command=SOMEBODY_ELSES)
        for index in range(3):
            await stage.client.create(PODS, SPACE, foreign_pod(job, index))
        await passing(MOMENT)
        await stage.plan("less", "manual", **workers(2))
        await passing(timedelta(seconds=10.2))
        assert await stage.workers() == ["0", "1"]
        leaving = (await stage.pods())["demo-edljob-worker-2"]["metadata"]
        assert leaving["labels"]["elasticjob.dlrover/relaunch-count"] == "5"


@on_virtual_time
async def test_a_plan_of_people_is_left_alone_at_first_and_is_no_bait_in_the_end() -> None:
    async with staged() as stage:
        await stage.submit(command=SOMEBODY_ELSES)
        await passing(MOMENT)
        await stage.plan("more", "manual", **workers(2))
        await passing(MOMENT)
        assert "status" not in (await stage.plans())["more"]
        await passing(A_WHILE)
        assert len(await stage.workers()) == 2
        await passing(MOMENT)
        plan = (await stage.plans())["more"]
        assert (plan["status"]["phase"], plan["metadata"].get("labels") or {}) == ("Succeeded", {})


@on_virtual_time
async def test_plans_without_a_job_are_told_so_and_wait_for_it() -> None:
    async with staged() as stage:
        await stage.plan("auto", owner="nobody", **workers(1))
        await stage.plan("other", owners=[an_owner("nobody", "of an earlier job")], owner="nobody", **workers(5))
        await stage.plan("manual", "manual", owner="nobody", **workers(1))
        await stage.plan("ownerless", "manual", owner="", **workers(1))
        await passing(MOMENT)
        told = {name: each["status"] for name, each in (await stage.plans()).items()}
        assert set(told) == {"auto", "manual", "ownerless"}
        assert {name: each["phase"] for name, each in told.items()} == {
            "auto": "Pending",
            "manual": "Pending",
            "ownerless": "Failed",
        }
        assert told["auto"]["message"] == told["manual"]["message"] == "ElasticJob nobody not found in this namespace"
        assert told["ownerless"]["message"].startswith("spec.ownerJob: must be the name")
        await stage.submit(name="nobody")
        await passing(A_WHILE)
        assert [name for name in await stage.pods() if "-worker-" in name] == ["nobody-edljob-worker-0"]


@on_virtual_time
async def test_a_plan_of_a_master_that_is_older_than_its_job_is_carried_out() -> None:
    async with staged() as stage:
        await stage.plan("demo-scaleplan-0", **workers(2))
        await passing(A_WHILE)
        await stage.submit()
        await passing(A_WHILE)
        assert await stage.workers() == ["0", "1"]
        assert (await stage.plans())["demo-scaleplan-0"]["status"]["phase"] == "Succeeded"


@on_virtual_time
async def test_a_plan_that_one_job_had_is_never_carried_out_by_another_of_its_name() -> None:
    async with staged() as stage:
        await stage.submit(suspend=True)
        await stage.plan("held", "manual", **workers(2))
        await passing(A_WHILE)
        assert (await stage.plans())["held"]["status"]["phase"] == "Pending"
        await stage.client.delete(JOBS, SPACE, "demo")
        await passing(A_WHILE)
        await stage.submit()
        await passing(A_WHILE)
        told = (await stage.plans())["held"]["status"]
        said = "ElasticJob demo was deleted before the plan was completed; create another plan"
        assert (told["phase"], told["message"]) == ("Failed", said)
        assert await stage.workers() == []


@on_virtual_time
async def test_an_edit_of_a_finished_plan_is_answered_by_one_event() -> None:
    async with staged() as stage:
        await stage.submit()
        await stage.plan("demo-scaleplan-0", **workers(1))
        await stage.plan("mine", "manual", **workers(1))
        await passing(A_WHILE)
        await stage.client.patch(PLANS, SPACE, "mine", {"metadata": {"annotations": {"seen": "by me"}}})
        await passing(A_WHILE)
        assert await stage.events("mine") == []
        for size in (2, 3):
            await stage.client.patch(PLANS, SPACE, "mine", {"spec": workers(size)})
            await passing(A_WHILE)
        [event] = await stage.events("mine")
        assert (event["reason"], event["involvedObject"]["kind"]) == ("PlanEditIgnored", "ScalePlan")
        assert event["message"] == "the edit has no effect: the phase is Succeeded; create another plan"
        assert await stage.workers() == ["0"]
        await stage.client.delete(JOBS, SPACE, "demo")
        await passing(A_WHILE)
        assert (await stage.plans())["mine"]["status"]["phase"] == "Succeeded"


@on_virtual_time
async def test_a_plan_that_names_a_pod_of_another_job_fails_and_removes_nobody() -> None:
    async with staged() as stage:
        await stage.submit()
        await stage.plan("two", **workers(2))
        await passing(A_WHILE)
        await stage.plan("wrong", "manual", removePods=[{"name": "other-job-worker-1"}])
        await passing(A_WHILE)
        told = (await stage.plans())["wrong"]["status"]
        assert told["phase"] == "Failed"
        assert told["message"].startswith('spec.removePods[0].name: "other-job-worker-1" is not a pod of job demo')
        assert await stage.workers() == ["0", "1"]


@on_virtual_time
async def test_a_plan_for_resources_alone_is_carried_out_for_those_who_come() -> None:
    async with staged() as stage:
        await stage.submit()
        await stage.plan("two", **workers(2))
        await passing(A_WHILE)
        await stage.plan("larger", "manual", replicaResourceSpecs={"worker": {"resource": {"memory": "1Gi"}}})
        await passing(A_WHILE)
        assert (await stage.plans())["larger"]["status"]["phase"] == "Succeeded"
        await stage.plan("more", "manual", **workers(3))
        await passing(A_WHILE)
        [container] = (await stage.pods())["demo-edljob-worker-2"]["spec"]["containers"]
        assert container["resources"]["requests"]["memory"] == "1Gi"


@on_virtual_time
async def test_a_job_that_is_deleted_leaves_no_plan_of_its_master() -> None:
    async with staged(rules=OperatorConfig(plan_history_limit=10)) as stage:
        job = await stage.submit()
        await stage.plan("demo-scaleplan-0", **workers(2))
        await passing(A_WHILE)
        await stage.client.create(PODS, SPACE, foreign_pod(job, 9))
        await passing(MOMENT)
        assert await stage.workers() == ["0", "1", "9"]
        await stage.client.delete(JOBS, SPACE, "demo")
        await passing(A_WHILE)
        assert (await stage.pods(), await stage.plans()) == ({}, {})
        assert not await stage.is_there(SERVICE_ACCOUNTS, MASTER)
        assert not await stage.is_there(PLANS, "demo-scaleplan-0")


@on_virtual_time
async def test_a_plan_of_a_job_that_is_newer_than_what_is_cached_stays() -> None:
    async with staged() as stage:
        job = await stage.submit()
        await stage.plan("demo-scaleplan-0", **workers(2))
        await passing(A_WHILE)
        owner = {"apiVersion": JOBS.api_version, "kind": "elasticjob", "name": "demo", "uid": job["metadata"]["uid"]}
        change = {"metadata": {"ownerReferences": [owner]}}
        raw = await stage.client.patch(PLANS, SPACE, "demo-scaleplan-0", change)
        kind = ElasticJobFrontend.plan_frontend
        store: ObjectStore[dict[str, Any]] = ObjectStore({JOB_INDEX: lambda plan: (str(job_key_of_plan(kind, plan)),)})
        store.apply_watched_write(raw)
        desk = ScalePlanStore(kind, JOBS, stage.client, VirtualClock(), store)
        await desk.clean_up_orphan_plans(JobKey(SPACE, "demo"), "the uid of an earlier one")
        assert set(await stage.plans()) == {"demo-scaleplan-0"}
        await stage.client.delete(JOBS, SPACE, "demo")
        await desk.clean_up_orphan_plans(JobKey(SPACE, "demo"), "")
        assert await stage.plans() == {}


@on_virtual_time
async def test_jobs_run_on_a_cluster_that_knows_no_plans_until_it_does() -> None:
    async with staged(knows_plans=False) as stage:
        await stage.submit()
        await passing(MOMENT)
        assert f"{MASTER}-0" in await stage.pods()
        await stage.client.create(CRDS, None, ElasticJobFrontend.plan_frontend.crd())
        await stage.plan("demo-scaleplan-0", **workers(2))
        await passing(timedelta(minutes=2))
        assert await stage.workers() == ["0", "1"]


@on_virtual_time
async def test_plans_of_one_second_come_in_the_order_of_their_numbers() -> None:
    async with staged() as stage:
        await stage.plan("demo-scaleplan-10", **workers(2))
        await stage.plan("demo-scaleplan-9", **workers(1))
        await stage.submit()
        await passing(A_WHILE)
        assert await stage.workers() == ["0", "1"]
        timeline = timeline_in(await stage.job())
        plans = [each.message.parameters["plan"] for each in timeline if each.reason == "Scaling"]
        assert plans == ["demo-scaleplan-9", "demo-scaleplan-10"]


@on_virtual_time
async def test_a_plan_that_cannot_be_meant_fails_and_names_the_field() -> None:
    async with staged() as stage:
        await stage.submit()
        await stage.plan("demo-scaleplan-0", **workers(1))
        await passing(A_WHILE)
        bad = {"worker": {"replicas": 1, "resource": {"cpu": "much"}}}
        await stage.plan("unreadable", "manual", replicaResourceSpecs=bad)
        await stage.plan("unknown", "manual", replicaResourceSpecs={"helper": {"replicas": 1}})
        await passing(MOMENT)
        plans = await stage.plans()
        told = {name: plans[name]["status"] for name in ("unreadable", "unknown")}
        assert {status["phase"] for status in told.values()} == {"Failed"}
        assert "spec.replicaResourceSpecs.worker.resource.cpu" in told["unreadable"]["message"]
        assert "no replicas of type helper" in told["unknown"]["message"]


@on_virtual_time
async def test_somebody_who_writes_a_plan_meanwhile_is_no_hindrance() -> None:
    async with staged() as stage:
        await stage.submit()
        await passing(MOMENT)
        await stage.plan("demo-scaleplan-0", **workers(2))
        for number in range(5):
            change = {"metadata": {"annotations": {"seen": str(number)}}}
            await stage.client.patch(PLANS, SPACE, "demo-scaleplan-0", change)
        await passing(A_WHILE)
        assert (await stage.plans())["demo-scaleplan-0"]["status"]["phase"] == "Succeeded"
        assert await stage.workers() == ["0", "1"]
