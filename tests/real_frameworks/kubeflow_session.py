"""What people do with Kubeflow's own Python SDK, on the cluster of a kubeconfig; says in JSON what came of it."""

from __future__ import annotations

import json
import sys
from typing import Any

from kubeflow.training import (  # type: ignore[import-not-found]
    KubeflowOrgV1PyTorchJob,
    KubeflowOrgV1PyTorchJobSpec,
    KubeflowOrgV1ReplicaSpec,
    KubeflowOrgV1RunPolicy,
    TrainingClient,
)
from kubernetes import client as models  # type: ignore[import-not-found]

WAIT = {"polling_interval": 1, "wait_timeout": 60}
RANK = """
import os, time
print("rank", os.environ["RANK"], "of", os.environ["WORLD_SIZE"], "at", os.environ["MASTER_ADDR"], flush=True)
time.sleep(1)
"""


def from_a_function(client: TrainingClient) -> dict[str, Any]:
    """A job that the SDK makes of a function."""

    def train() -> None:
        for step in range(3):
            print("step", step)

    client.create_job(name="one", job_kind="PyTorchJob", train_func=train, num_workers=1, base_image="none")
    job = client.wait_for_job_conditions("one", **WAIT)
    logs, _ = client.get_job_logs("one")
    return {"logs": logs, "conditions": {each.type: each.status for each in job.status.conditions}}


def from_models(client: TrainingClient) -> dict[str, Any]:
    """A master and two workers, written in the SDK's models."""
    container = models.V1Container(name="pytorch", image="none", command=["python3", "-c", RANK])
    template = models.V1PodTemplateSpec(spec=models.V1PodSpec(containers=[container]))
    groups = {
        name: KubeflowOrgV1ReplicaSpec(replicas=size, restart_policy="OnFailure", template=template)
        for name, size in {"Master": 1, "Worker": 2}.items()
    }
    job = KubeflowOrgV1PyTorchJob(
        api_version="kubeflow.org/v1",
        kind="PyTorchJob",
        metadata=models.V1ObjectMeta(name="two"),
        spec=KubeflowOrgV1PyTorchJobSpec(run_policy=KubeflowOrgV1RunPolicy(), pytorch_replica_specs=groups),
    )
    client.create_job(job)
    client.wait_for_job_conditions("two", expected_conditions={"Running"}, **WAIT)
    is_running = client.is_job_running("two")
    client.wait_for_job_conditions("two", **WAIT)
    logs, _ = client.get_job_logs("two", is_master=False)
    return {
        "logs": logs,
        "was running": is_running,
        "succeeded": client.is_job_succeeded("two"),
        "master": client.get_job_pod_names("two", is_master=True),
        "second": client.get_job_pod_names("two", replica_type="worker", replica_index=1),
    }


def of_tensorflow(client: TrainingClient) -> dict[str, Any]:
    """A TFJob with a chief, out of a function."""

    def train() -> None:
        import json
        import os

        task = json.loads(os.environ["TF_CONFIG"])["task"]
        print(task["type"], task["index"])

    sizes = {"num_workers": 2, "num_chief_replicas": 1}
    client.create_job(name="three", job_kind="TFJob", train_func=train, base_image="none", **sizes)
    client.wait_for_job_conditions("three", job_kind="TFJob", **WAIT)
    logs, _ = client.get_job_logs("three", job_kind="TFJob")
    return {"logs": logs}


def change(client: TrainingClient) -> dict[str, Any]:
    """Patch a job, and delete all."""
    edit = {"metadata": {"labels": {"team": "vision"}}}
    client.custom_api.patch_namespaced_custom_object("kubeflow.org", "v1", "default", "pytorchjobs", "two", edit)
    labelled = client.get_job("two").metadata.labels
    before = sorted(job.metadata.name for job in client.list_jobs(job_kind="PyTorchJob"))
    for name, kind in {"one": "PyTorchJob", "two": "PyTorchJob", "three": "TFJob"}.items():
        client.delete_job(name, job_kind=kind)
    return {"labels": labelled, "listed": before, "left": client.list_jobs(job_kind="PyTorchJob")}


if __name__ == "__main__":
    client = TrainingClient(config_file=sys.argv[1], namespace="default")
    parts = (from_a_function, from_models, of_tensorflow, change)
    print(json.dumps({part.__name__: part(client) for part in parts}, default=str))
