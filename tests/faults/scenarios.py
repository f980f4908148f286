"""Lives of jobs worth interrupting."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from pliant.controllers.autoscale.options import AutoscaleOptions
from pliant.model.operator_config import OperatorConfig
from tests.faults.acts import (
    annotate,
    break_gpu,
    delete_job,
    delete_pod,
    edit_to,
    evict,
    in_turn,
    lose_node,
    offer,
    scale_to,
    suspend,
)
from tests.faults.rig import BRIEF, Scenario
from tests.faults.stand_in_node import FOR_EVER, Script, Stuck


def group(size: int = 2, **fields: Any) -> dict[str, Any]:
    container = {"name": "trainer", "image": "train", "ports": [{"name": "main", "containerPort": 2222}]}
    return {"replicas": size, "template": {"spec": {"containers": [container]}}, **fields}


def restarting(scope: str, limit: int = 2, policy: str = "OnFailure", **fields: Any) -> dict[str, Any]:
    return group(restartPolicy=policy, restartScope=scope, restartLimit=limit, **fields)


def all_end_with(code: int) -> Script:
    return lambda name, index, attempt: code


def fails_at_first(index_of_bad: int, code: int = 1, good: int = 0) -> Script:
    return lambda name, index, attempt: code if index == index_of_bad and attempt == 0 else good


def asking_for_gpus(fields: dict[str, Any]) -> dict[str, Any]:
    fields["template"]["spec"]["containers"][0]["resources"] = {"limits": {"nvidia.com/gpu": "1"}}
    return fields


def automatic(**fields: Any) -> dict[str, Any]:
    """Two workers of a CPU each that may become four."""
    found = group(minReplicas=2, maxReplicas=4, edlPolicy="Auto", **fields)
    found["template"]["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "1"}}
    return found


def servers_run_on(workers: Script) -> Script:
    return lambda name, index, attempt: FOR_EVER if name == "ps" else workers(name, index, attempt)


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
        spec={"replicaSpecs": {"worker": restarting("Pod", policy="ExitCode")}, "restartingExitCode": "137"},
        script=fails_at_first(0, code=137),
    ),
    "an unlisted exit code fails": Scenario(
        spec={"replicaSpecs": {"worker": restarting("Pod", policy="ExitCode")}, "restartingExitCode": "137"},
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
    "replicas save their state before they leave": Scenario(
        spec={
            "replicaSpecs": {"worker": group(4, minReplicas=1, maxReplicas=4)},
            "elastic": {"checkpointGrace": 4, "disruptionBudget": True},
        },
        script=all_end_with(FOR_EVER),
        user=lambda client: in_turn(
            scale_to(client, 2, after=6.0), scale_to(client, 3, after=8.0), scale_to(client, 2, after=6.0)
        ),
        saves_after=lambda index: (0.0, 1.0, None, 2.0)[index],
    ),
    "replicas save their state before they are suspended": Scenario(
        spec={"replicaSpecs": {"worker": group(3, minReplicas=1, maxReplicas=3)}, "elastic": {"checkpointGrace": 4}},
        script=all_end_with(FOR_EVER),
        user=lambda client: in_turn(
            scale_to(client, 2, after=6.0), suspend(client, True, after=1.0), suspend(client, False, after=2.0)
        ),
        saves_after=lambda index: (0.0, 2.0, None)[index],
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
    "a node is lost and its member restarted": Scenario(
        spec={"replicaSpecs": {"worker": restarting("Pod", policy="OnNodeFail")}},
        script=all_end_with(FOR_EVER),
        user=lambda client: lose_node(client, "node-1", after=12.0),
    ),
    "a node is lost and everybody restarted": Scenario(
        spec={"replicaSpecs": {"ps": group(1), "worker": restarting("All", policy="Always")}},
        script=all_end_with(FOR_EVER),
        user=lambda client: lose_node(client, "node-1", after=12.0),
    ),
    "a node is lost and the job with it": Scenario(
        spec={"replicaSpecs": {"worker": group(3)}, "cleanPodPolicy": "None"},
        script=all_end_with(FOR_EVER),
        user=lambda client: lose_node(client, "node-2", after=12.0),
    ),
    "a GPU breaks": Scenario(
        spec={"replicaSpecs": {"worker": asking_for_gpus(restarting("Replica", policy="OnNodeFail"))}},
        script=all_end_with(FOR_EVER),
        user=lambda client: break_gpu(client, "node-0", after=12.0),
    ),
    "nodes or listed exit codes restart": Scenario(
        spec={
            "replicaSpecs": {"worker": restarting("Pod", limit=3, policy="OnNodeFailWithExitCode")},
            "restartingExitCode": "137",
        },
        script=fails_at_first(0, code=137, good=FOR_EVER),
        # By then both members are there.
        user=lambda client: lose_node(client, "node-1", after=12.0),
    ),
    "a container cannot be created at first": Scenario(
        spec={"replicaSpecs": {"worker": group()}},
        script=lambda name, index, attempt: Stuck() if index == 1 and attempt == 0 else 0,
    ),
    "a container can never be created": Scenario(
        spec={"replicaSpecs": {"worker": restarting("All")}},
        script=lambda name, index, attempt: Stuck("CreateContainerError") if index == 1 else FOR_EVER,
        rules=OperatorConfig(
            container_creation_timeout=BRIEF.container_creation_timeout, should_fail_on_creation_timeout=True
        ),
    ),
    "a member is evicted": Scenario(
        spec={"replicaSpecs": {"worker": restarting("All", limit=0)}},
        script=all_end_with(FOR_EVER),
        user=lambda client: evict(client, "demo-worker-1", after=12.0),
    ),
    "a member is lost for good and the others go on": Scenario(
        spec={"replicaSpecs": {"worker": group(3, minReplicas=1, maxReplicas=3)}, "faultTolerant": True},
        script=lambda name, index, attempt: (0, FOR_EVER, 1)[index],
        user=lambda client: lose_node(client, "node-1", after=12.0),
    ),
    "time is up": Scenario(
        spec={"replicaSpecs": {"worker": group()}, "timeLimit": 10, "cleanPodPolicy": "None"},
        script=all_end_with(FOR_EVER),
    ),
    "it never comes up": Scenario(
        spec={"replicaSpecs": {"worker": group()}, "startLimit": 10},
        script=lambda name, index, attempt: Stuck() if index == 1 else FOR_EVER,
        rules=OperatorConfig(container_creation_timeout=timedelta(hours=1)),
    ),
    "suspended and resumed": Scenario(
        spec={"replicaSpecs": {"ps": group(1, completePolicy="None"), "worker": group()}},
        script=servers_run_on(lambda name, index, attempt: 0 if index == 0 or attempt else FOR_EVER),
        user=lambda client: in_turn(suspend(client, True, after=12.0), suspend(client, False, after=8.0)),
    ),
    "suspended from the start": Scenario(
        spec={"replicaSpecs": {"worker": group()}, "suspend": True},
        script=all_end_with(0),
        user=lambda client: suspend(client, False, after=12.0),
    ),
    "resumed while the last ones leave": Scenario(
        spec={"replicaSpecs": {"worker": group()}},
        script=all_end_with(FOR_EVER),
        user=lambda client: in_turn(suspend(client, True, after=12.0), suspend(client, False, after=0.25)),
    ),
    "ended by an annotation": Scenario(
        spec={"replicaSpecs": {"worker": group()}, "cleanPodPolicy": "None"},
        script=all_end_with(FOR_EVER),
        user=lambda client: annotate(client, "example.com/Failed", "enough", after=12.0),
    ),
    "preempted while restarting": Scenario(
        spec={"replicaSpecs": {"worker": restarting("All")}},
        script=fails_at_first(0, good=FOR_EVER),
        user=lambda client: annotate(client, "preempted", "make room", after=2.5),
    ),
    "kept for a while and then gone": Scenario(
        spec={"replicaSpecs": {"worker": group()}, "ttlSecondsAfterFinished": 5}, script=all_end_with(0)
    ),
    "scaled, and then edited": Scenario(
        spec={"replicaSpecs": {"worker": group()}},
        script=all_end_with(FOR_EVER),
        user=lambda client: in_turn(scale_to(client, 4, after=12.0), edit_to(client, 3, after=8.0)),
    ),
    "edited, and then scaled in": Scenario(
        spec={"replicaSpecs": {"worker": group(2, minReplicas=1, maxReplicas=4)}},
        script=all_end_with(FOR_EVER),
        user=lambda client: in_turn(edit_to(client, 4, after=12.0), scale_to(client, 0, after=8.0)),
    ),
    "scaled in while restarting": Scenario(
        spec={"replicaSpecs": {"worker": restarting("All", size=3)}},
        script=fails_at_first(0, good=FOR_EVER),
        user=lambda client: edit_to(client, 2, after=2.5),
    ),
    "all start again at another size, and again": Scenario(
        spec={"replicaSpecs": {"ps": group(1), "worker": group(2, minReplicas=1, maxReplicas=4)}},
        script=all_end_with(FOR_EVER),
        user=lambda client: in_turn(
            annotate(client, "pliant/resize", "restart", after=6.0),
            scale_to(client, 3, after=6.0),
            scale_to(client, 1, after=8.0),
        ),
    ),
    "all start again at another size while restarting": Scenario(
        spec={"replicaSpecs": {"worker": restarting("All", size=2, minReplicas=1, maxReplicas=4)}},
        script=fails_at_first(0, good=FOR_EVER),
        user=lambda client: in_turn(
            annotate(client, "pliant/resize", "restart", after=0.5), edit_to(client, 3, after=2.0)
        ),
    ),
    "the autoscaler makes it larger": Scenario(
        spec={"replicaSpecs": {"worker": automatic()}},
        script=all_end_with(FOR_EVER),
        user=lambda client: offer(client, "2", after=3.0),
        autoscale=AutoscaleOptions(),
    ),
    "made larger, and then edited": Scenario(
        spec={"replicaSpecs": {"worker": automatic()}},
        script=all_end_with(FOR_EVER),
        user=lambda client: in_turn(offer(client, "2", after=3.0), edit_to(client, 3, after=12.0)),
        autoscale=AutoscaleOptions(),
    ),
}
