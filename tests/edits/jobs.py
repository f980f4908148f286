"""One job of every kind, elastic where the kind can be, with more than one group where it may have some."""

from __future__ import annotations

import copy
from typing import Any

from pliant.frontends import FRONTENDS
from tests.frontends import elasticjob, kubeflow, paddle, paddle_batch, raw

Raw = dict[str, Any]
KindKey = tuple[str, str]
NAME = "edited"

TEMPLATE: Raw = {"spec": {"containers": [{"name": "trainer", "image": "train", "command": ["true"]}]}}
"""The container that the nodes of these tests report about."""


def group(replicas: int, **fields: Any) -> Raw:
    return {"replicas": replicas, "template": copy.deepcopy(TEMPLATE), **fields}


def _of_list(kind: str, **sizes: int) -> Raw:
    spec = [{"replicaType": name, **group(size)} for name, size in sizes.items()]
    return {"apiVersion": "mpba.fbk.eu/v1", "kind": kind, "spec": spec}


def _of_kubeflow(kind: str, sizes: dict[str, int], **fields: Any) -> Raw:
    groups = {name: group(size, restartPolicy="OnFailure") for name, size in sizes.items()}
    return kubeflow.raw_of(kind, groups, runPolicy={}, **fields)


_BOUNDS = {"elasticPolicy": {"minReplicas": 1, "maxReplicas": 4}}
_JOBS: dict[KindKey, Raw] = {
    ("elasticdeeplearning.ai", "AITrainingJob"): raw.raw_job(
        {
            "worker": group(2, minReplicas=1, maxReplicas=4, restartPolicy="OnFailure", restartScope="Pod"),
            "ps": group(1, restartPolicy="OnFailure", restartScope="Pod", completePolicy="None"),
        }
    ),
    ("paddlepaddle.org", "PaddleJob"): paddle.raw_job(
        {"image": "train", "fault_tolerant": True, "trainer_port": 7100, "master": {"entrypoint": "serve"}},
        trainer={"max-instance": 4, "grace_period_seconds": 5},
        pserver={"min-instance": 1},
    ),
    ("kubeflow.org", "PyTorchJob"): _of_kubeflow("PyTorchJob", {"Worker": 2}, **_BOUNDS),
    ("kubeflow.org", "TFJob"): _of_kubeflow("TFJob", {"Worker": 2, "PS": 1}),
    ("kubeflow.org", "MXJob"): _of_kubeflow("MXJob", {"Scheduler": 1, "Worker": 2, "Tuner": 1}),
    ("kubeflow.org", "XGBoostJob"): _of_kubeflow("XGBoostJob", {"Master": 1, "Worker": 2}),
    ("kubeflow.org", "PaddleJob"): _of_kubeflow("PaddleJob", {"Worker": 2}, **_BOUNDS),
    ("kubeflow.org", "JAXJob"): _of_kubeflow("JAXJob", {"Worker": 2}),
    ("kubeflow.org", "MPIJob"): _of_kubeflow("MPIJob", {"Launcher": 1, "Worker": 2}),
    ("mpba.fbk.eu", "MXJob"): _of_list("MXJob", scheduler=1, server=1, worker=2),
    ("mpba.fbk.eu", "TFJob"): _of_list("TFJob", ps=1, worker=2),
    ("batch.paddlepaddle.org", "PaddleJob"): paddle_batch.raw_pdj(worker=group(2), ps=group(1), elastic=1),
    ("elastic.iml.github.io", "ElasticJob"): elasticjob.raw_ej(
        replicaSpecs={"worker": group(2, minReplicas=1, maxReplicas=4)}
    ),
}
_JOBS["paddlepaddle.org", "TrainingJob"] = {**_JOBS["paddlepaddle.org", "PaddleJob"], "kind": "TrainingJob"}

KINDS = list(FRONTENDS)


def job_of(kind: KindKey) -> Raw:
    """A new job of a kind."""
    return {**copy.deepcopy(_JOBS[kind]), "metadata": {"name": NAME, "namespace": "default"}}
