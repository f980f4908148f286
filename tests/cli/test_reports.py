"""Members report how their training goes: from real processes to what people see."""

from __future__ import annotations

import json

from tests.cli.asking import said, wait_for
from tests.cli.ordinary_user import ROOT, OrdinaryUser

JOB = """
apiVersion: kubeflow.org/v1
kind: PyTorchJob
metadata: {name: reporting}
spec:
  pytorchReplicaSpecs:
    Master:
      template:
        spec:
          containers:
            - name: pytorch
              image: any
              command: [python3, train.py]
              env: [{name: PYTHONPATH, value: ROOT}]
"""
TRAIN = """
import time
from pliant.elastic import report

for step in range(1, 4):
    report(step=step, total=3, loss=float("nan") if step == 3 else 1 / step)
report(accuracy=0.5)
time.sleep(600)
"""


def test_what_a_member_reports_is_shown_by_every_command(cluster: OrdinaryUser) -> None:
    cluster.write("train.py", TRAIN)
    said(cluster, "submit", cluster.write("job.yaml", JOB.replace("ROOT", str(ROOT))))
    wait_for(cluster, "reporting", "step ")
    progress = json.loads(said(cluster, "get", "reporting", "-o", "json").out)["status"]["progress"]
    assert (progress["total"], progress["reportedBy"]) == (3, "master-0")
    assert "step " in said(cluster, "get").out
    assert "Progress:      step " in said(cluster, "describe", "reporting").out
    assert "Progress: step " in said(cluster, "why", "reporting").out
