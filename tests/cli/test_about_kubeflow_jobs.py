"""The commands about jobs, for jobs written in Kubeflow's kinds."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from tests.cli.asking import said, wait_for
from tests.cli.ordinary_user import OrdinaryUser

TORCH = """\
apiVersion: kubeflow.org/v1
kind: PyTorchJob
metadata: {name: bert}
spec:
  elasticPolicy: {minReplicas: 1, maxReplicas: 4}
  runPolicy: {cleanPodPolicy: All}
  pytorchReplicaSpecs:
    Worker:
      replicas: 2
      template:
        spec:
          terminationGracePeriodSeconds: 1
          containers:
            - name: pytorch
              image: any
              command: [sh, -c, "echo $PET_NNODES at $PET_RDZV_ENDPOINT; exec sleep 1000"]
"""
DOOMED = """\
apiVersion: kubeflow.org/v1
kind: TFJob
metadata: {name: doomed}
spec:
  runPolicy: {backoffLimit: 1}
  tfReplicaSpecs:
    Chief: &group
      restartPolicy: OnFailure
      template:
        spec:
          terminationGracePeriodSeconds: 1
          containers:
            - name: tensorflow
              image: any
              command: [sh, -c, "echo $TF_CONFIG | grep -q chief.,.index || exec sleep 1000; echo no data; exit 3"]
    PS: *group
"""
SECOND = """\
apiVersion: kubeflow.org/v2beta1
kind: MPIJob
metadata: {name: pi}
spec:
  mpiReplicaSpecs:
    Launcher:
      template:
        spec:
          containers:
            - name: mpi
              image: any
              command: [sh, -c, "for host in $(cut -d' ' -f1 $HOSTS); do /etc/mpi/rsh $host hostname; done"]
              env: [{name: HOSTS, value: /etc/mpi/hostfile}]
    Worker:
      replicas: 2
      template:
        spec:
          terminationGracePeriodSeconds: 1
          containers:
            - {name: mpi, image: any}
"""


@pytest.fixture
def cluster(user: OrdinaryUser) -> Iterator[OrdinaryUser]:
    """Somebody whose cluster is up; it is gone afterwards, with all it ran."""
    assert user.run("up").code == 0
    yield user
    user.run("down", "--purge")
    assert user.processes() == []


def test_a_job_is_listed_described_scaled_rested_and_deleted(cluster: OrdinaryUser) -> None:
    said(cluster, "submit", cluster.write("bert.yaml", TORCH))
    wait_for(cluster, "every member runs")
    assert said(cluster, "scale", "bert", "9", "--wait").out.splitlines() == [
        "bert: Worker 2 → 4 (bounds 1–4); you asked for 9",
        "bert: Worker has 4 members up",
    ]
    listed = said(cluster, "get").out
    assert re.search(r"^bert +Running +4/4 +0 +Worker 4 \[1–4\] +\d+s +every member runs$", listed, re.MULTILINE)
    assert said(cluster, "get", "-o", "name").out == "pytorchjob.kubeflow.org/bert\n"
    assert re.search(r"worker-3 +bert-worker-3 +node-0 +0 +Running", said(cluster, "describe", "bert").out)
    assert said(cluster, "logs", "pytorchjob/bert", "--rank", "3", "--no-prefix").out == (
        "1:4 at bert-worker-0:23456\n"
    )
    assert said(cluster, "suspend", "bert", "--wait").out.splitlines()[-1] == "bert: Suspended, suspended"
    assert "It was asked to rest (spec.runPolicy.suspend)" in said(cluster, "why", "bert").out
    assert said(cluster, "resume", "bert", "--wait").out.splitlines()[-1] == "bert: Running, every member runs"
    said(cluster, "scale", "bert", "1", "--group", "worker", "--wait")
    assert said(cluster, "delete", "bert", "--wait").out == "bert: deleted\nnothing of them is left\n"


def test_a_failure_is_explained_with_its_first_cause_and_what_to_try(cluster: OrdinaryUser) -> None:
    file = cluster.write("doomed.yaml", DOOMED)
    assert "chief-0 exited with code 3" in said(cluster, "submit", file, "--wait", code=1).err
    why = " ".join(said(cluster, "why", "doomed").out.split())
    assert "First cause: chief-0 exited with code 3 (pod doomed-chief-0 on node-0" in why
    assert "│ no data" in why
    assert "raise spec.runPolicy.backoffLimit" in why


def test_a_job_of_another_version_of_its_kind_runs(user: OrdinaryUser) -> None:
    ran = said(user, "run", user.write("pi.yaml", SECOND))
    assert ran.out.splitlines() == ["launcher │ pi-worker-0", "launcher │ pi-worker-1"]


def test_a_job_without_members_is_refused_where_its_size_is_written(user: OrdinaryUser) -> None:
    refused = said(user, "run", user.write("none.yaml", TORCH.replace("replicas: 2", "replicas: 0")), code=2)
    assert "spec.pytorchReplicaSpecs.Worker.replicas" in refused.err
