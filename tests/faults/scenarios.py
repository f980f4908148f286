"""Lives of jobs worth interrupting."""

from __future__ import annotations

import asyncio
from typing import Any

from pliant.kube.client import KubeClient
from pliant.kube.resources import PODS
from tests.faults.rig import JOBS, Scenario
from tests.faults.stand_in_node import FOR_EVER, Script


def group(size: int = 2, **fields: Any) -> dict[str, Any]:
    container = {"name": "trainer", "image": "train", "ports": [{"name": "main", "containerPort": 2222}]}
    return {"replicas": size, "template": {"spec": {"containers": [container]}}, **fields}


def restarting(scope: str, limit: int = 2, policy: str = "OnFailure", **fields: Any) -> dict[str, Any]:
    return group(restartPolicy=policy, restartScope=scope, restartLimit=limit, **fields)


def all_end_with(code: int) -> Script:
    return lambda name, index, attempt: code


def fails_at_first(index_of_bad: int, code: int = 1, good: int = 0) -> Script:
    return lambda name, index, attempt: code if index == index_of_bad and attempt == 0 else good


def servers_run_on(workers: Script) -> Script:
    return lambda name, index, attempt: FOR_EVER if name == "ps" else workers(name, index, attempt)


async def scale_to(client: KubeClient, size: int, after: float) -> None:
    await asyncio.sleep(after)
    await client.patch(JOBS, "default", "demo", {"spec": {"replicas": size}}, subresource="scale")


async def edit_to(client: KubeClient, size: int, after: float) -> None:
    await asyncio.sleep(after)
    change = {"spec": {"replicaSpecs": {"worker": {"replicas": size}}}}
    await client.patch(JOBS, "default", "demo", change)


async def delete_job(client: KubeClient, after: float) -> None:
    await asyncio.sleep(after)
    await client.delete(JOBS, "default", "demo")


async def delete_pod(client: KubeClient, name: str, after: float) -> None:
    await asyncio.sleep(after)
    await client.delete(PODS, "default", name)


SCENARIOS: dict[str, Scenario] = {
    "success": Scenario(spec={"replicaSpecs": {"worker": group()}}, script=all_end_with(0)),
    "success, pods kept": Scenario(
        spec={"replicaSpecs": {"worker": group()}, "cleanPodPolicy": "None"}, script=all_end_with(0)
    ),
    "first failure fails the job": Scenario(
        spec={"replicaSpecs": {"worker": group()}}, script=fails_at_first(1, good=FOR_EVER)
    ),
    "any member completes the group": Scenario(
        spec={"replicaSpecs": {"worker": group(completePolicy="Any")}},
        script=lambda name, index, attempt: 0 if index == 1 else FOR_EVER,
    ),
    "rank 0 completes, servers have no say": Scenario(
        spec={"replicaSpecs": {"ps": group(1, completePolicy="None"), "worker": group(completePolicy="Rank0")}},
        script=servers_run_on(lambda name, index, attempt: 0 if index == 0 else FOR_EVER),
    ),
    "restart of one pod": Scenario(spec={"replicaSpecs": {"worker": restarting("Pod")}}, script=fails_at_first(1)),
    "restart of a group": Scenario(
        spec={"replicaSpecs": {"ps": group(1, completePolicy="None"), "worker": restarting("Replica")}},
        script=servers_run_on(fails_at_first(0)),
    ),
    "restart of everything": Scenario(
        spec={"replicaSpecs": {"ps": group(1, completePolicy="None"), "worker": restarting("All")}},
        script=servers_run_on(fails_at_first(1)),
    ),
    "restarts until the budget is spent": Scenario(
        spec={"replicaSpecs": {"worker": restarting("Pod", limit=2, size=1)}}, script=all_end_with(1)
    ),
    "restart on a listed exit code": Scenario(
        spec={
            "replicaSpecs": {"worker": restarting("Pod", policy="ExitCode")},
            "restartingExitCode": "137",
        },
        script=fails_at_first(0, code=137),
    ),
    "an unlisted exit code fails": Scenario(
        spec={
            "replicaSpecs": {"worker": restarting("Pod", policy="ExitCode")},
            "restartingExitCode": "137",
        },
        script=fails_at_first(0, code=3, good=FOR_EVER),
    ),
    "scaled out while running": Scenario(
        spec={"replicaSpecs": {"worker": group()}},
        script=all_end_with(FOR_EVER),
        user=lambda client: scale_to(client, 4, after=12.0),
    ),
    "scaled in while running": Scenario(
        spec={"replicaSpecs": {"worker": group(4)}},
        script=all_end_with(FOR_EVER),
        user=lambda client: edit_to(client, 2, after=12.0),
    ),
    "deleted while running": Scenario(
        spec={"replicaSpecs": {"worker": group()}},
        script=all_end_with(FOR_EVER),
        user=lambda client: delete_job(client, after=1.0),
    ),
    "deleted while restarting": Scenario(
        spec={"replicaSpecs": {"worker": restarting("All")}},
        script=all_end_with(1),
        user=lambda client: delete_job(client, after=2.5),
    ),
    "a pod deleted by hand": Scenario(
        spec={"replicaSpecs": {"worker": group()}},
        script=all_end_with(FOR_EVER),
        user=lambda client: delete_pod(client, "demo-worker-1", after=20.0),
    ),
}
