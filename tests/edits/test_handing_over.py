"""`managedBy`: a job with pods is given to another controller only by way of a suspension."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from pliant.kube.resources import PODS
from tests.edits.jobs import KINDS, NAME, KindKey, Raw
from tests.edits.stage import PATIENCE, Stage, check_status, running_job
from tests.virtual_time import on_virtual_time, passing

OTHER = "example.com/other"
EACH = pytest.mark.parametrize("kind", KINDS, ids=lambda kind: f"{kind[1]}.{kind[0]}")


async def edit(stage: Stage, **fields: Any) -> None:
    """Set fields of the run policy."""
    edited = copy.deepcopy(await stage.job())
    inner: Raw = edited
    for step in stage.frontend.run_policy_path.split("."):
        inner = inner.setdefault(step, {})
    inner.update(fields)
    await stage.replace(edited)


async def members(stage: Stage) -> list[str]:
    return [name for name in await stage.pods() if "dlrover-master" not in name]


@EACH
@on_virtual_time
async def test_a_job_that_loses_all_pods_at_once_is_not_given_away(kind: KindKey) -> None:
    async with running_job(kind) as stage:
        before = await stage.pods()
        await edit(stage, managedBy=OTHER)
        for name in before:
            await stage.client.delete(PODS, "default", name)
        await passing(2 * PATIENCE)
        assert len(await stage.pods()) > 0
        await check_status(stage)
        await edit(stage, managedBy="")
        assert await stage.rejection() == {}


@EACH
@on_virtual_time
async def test_a_job_that_is_suspended_and_given_away_in_one_edit_leaves_no_pods(kind: KindKey) -> None:
    async with running_job(kind) as stage:
        await edit(stage, managedBy=OTHER, suspend=True)
        await passing(PATIENCE)
        assert await members(stage) == []
        assert (await stage.state())["phase"] == "Suspended"
        assert await stage.rejection() == {}
        before = (await stage.job())["status"]
        await edit(stage, suspend=False)
        assert await members(stage) == [], "it belongs to another controller now"
        assert (await stage.job())["status"] == before


@on_virtual_time
async def test_a_status_that_another_cluster_wrote_makes_no_job_ours() -> None:
    """MultiKueue copies the status of a job from the cluster that runs it."""
    kind = ("elasticdeeplearning.ai", "AITrainingJob")
    async with running_job(kind) as stage:
        status = (await stage.job())["status"]
        twin = {"apiVersion": "elasticdeeplearning.ai/v1", "kind": kind[1], "metadata": {"name": "twin"}}
        spec = {**(await stage.job())["spec"], "managedBy": "kueue.x-k8s.io/multikueue"}
        await stage.client.create(stage.jobs, "default", {**twin, "spec": spec})
        await stage.client.patch(stage.jobs, "default", "twin", {"status": status}, subresource="status")
        await passing(PATIENCE)
        assert (await stage.client.get(stage.jobs, "default", "twin"))["status"] == status
        assert [name for name in await stage.pods() if not name.startswith(NAME)] == []
