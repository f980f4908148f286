"""The commands about jobs, for jobs written in Kubeflow's kinds."""

from __future__ import annotations

import re

from tests.cli.asking import said, wait_for, wait_for_log
from tests.cli.ordinary_user import OrdinaryUser

TORCH = """\
apiVersion: kubeflow.org/v1
kind: PyTorchJob
metadata: {name: vits}
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
metadata: {name: hopeless}
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
metadata: {name: tau}
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


def test_a_job_is_listed_described_scaled_rested_and_deleted(cluster: OrdinaryUser) -> None:
    said(cluster, "submit", cluster.write("vits.yaml", TORCH))
    wait_for(cluster, "vits", " Running ")
    assert said(cluster, "scale", "vits", "9", "--wait").out.splitlines() == [
        "vits: Worker 2 → 4 (bounds 1–4); 9 requested",
        "vits: Worker has 4 replicas running",
    ]
    listed = said(cluster, "get").out
    assert re.search(
        r"^vits +PyTorchJob +Running +4/4 +0 +Worker 4 \[1–4\] +[\dms]+ +all replicas are running$",
        listed,
        re.MULTILINE,
    )
    assert said(cluster, "get", "vits", "-o", "name").out == "pytorchjob.kubeflow.org/vits\n"
    assert re.search(r"worker-3 +vits-worker-3 +node-\d +0 +Running", said(cluster, "describe", "vits").out)
    wait_for_log(cluster, "vits", "1:4 at", "--rank", "3")
    assert said(cluster, "logs", "pytorchjob/vits", "--rank", "3", "--no-prefix").out == (
        "1:4 at vits-worker-0:23456\n"
    )
    assert said(cluster, "suspend", "vits", "--wait").out.splitlines()[-1] == "vits: Suspended, all pods are deleted"
    assert "It is suspended (spec.runPolicy.suspend)" in said(cluster, "why", "vits").out
    assert said(cluster, "resume", "vits", "--wait").out.splitlines()[-1] == "vits: Running, all replicas are running"
    said(cluster, "scale", "vits", "1", "--group", "worker", "--wait")
    assert said(cluster, "delete", "vits", "--wait").out == "vits: deleted\nall pods are deleted\n"


def test_a_failure_is_explained_with_its_first_cause_and_what_to_try(cluster: OrdinaryUser) -> None:
    file = cluster.write("hopeless.yaml", DOOMED)
    assert "chief-0 exited with code 3" in said(cluster, "submit", file, "--wait", code=1).err
    why = " ".join(said(cluster, "why", "hopeless").out.split())
    assert "Root cause: chief-0 exited with code 3 (pod hopeless-chief-0 on node-" in why
    assert "│ no data" in why
    assert "increase spec.runPolicy.backoffLimit" in why


def test_a_job_of_another_version_of_its_kind_runs(cluster: OrdinaryUser) -> None:
    ran = said(cluster, "submit", cluster.write("tau.yaml", SECOND), "--follow")
    shown = [line for line in ran.out.splitlines() if "│" in line]
    assert shown == ["launcher-0 │ tau-worker-0", "launcher-0 │ tau-worker-1"]


def test_a_job_without_members_is_refused_where_its_size_is_written(user: OrdinaryUser) -> None:
    refused = user.call("run", user.write("none.yaml", TORCH.replace("replicas: 2", "replicas: 0")))
    assert refused.code == 2
    assert "spec.pytorchReplicaSpecs.Worker.replicas" in refused.err
