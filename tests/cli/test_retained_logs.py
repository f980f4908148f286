"""What replicas wrote can be read after their pods are deleted."""

from __future__ import annotations

from tests.cli.asking import said
from tests.cli.ordinary_user import OrdinaryUser

JOB = """\
apiVersion: elasticdeeplearning.ai/v1
kind: AITrainingJob
metadata: {{name: {name}}}
spec:
  replicaSpecs:
    worker:
      replicas: 2
      restartPolicy: OnFailure
      restartScope: Pod
      restartLimit: 1
      template:
        spec:
          terminationGracePeriodSeconds: 1
          containers:
            - name: aitj-worker
              image: any
              command: [sh, -c, {command!r}]
"""
DOOMED = (
    "echo attempt $TRAININGJOB_REPLICA_RESTARTCOUNT; [ $TRAININGJOB_REPLICA_INDEX = 0 ] && exec sleep 1000; "
    "echo no data; exit 3"
)


def test_the_logs_of_all_attempts_outlive_the_pods_of_a_job(cluster: OrdinaryUser) -> None:
    file = cluster.write("lost.yaml", JOB.format(name="lost", command=DOOMED))
    said(cluster, "submit", file, "--wait", code=1)
    assert said(cluster, "logs", "lost").out.splitlines() == [
        "worker-0             │ attempt 0",
        "worker-1 (attempt 0) │ attempt 0",
        "worker-1 (attempt 0) │ no data",
        "worker-1             │ attempt 1",
        "worker-1             │ no data",
    ]
    selected = {
        ("--attempt", "0", "--rank", "1", "--tail", "1"): "no data\n",
        ("--rank", "0", "--follow"): "attempt 0\n",
        ("--rank", "1", "--previous"): "attempt 0\nno data\n",
    }
    for options, text in selected.items():
        assert said(cluster, "logs", "lost", "--no-prefix", *options).out == text, options
    assert "--attempt" in said(cluster, "logs", "lost", "--attempt", "7", code=1).err
    assert "→ read the complete logs: pliant logs lost" in said(cluster, "why", "lost").out
    assert "Logs:          pliant logs lost" in said(cluster, "describe", "lost").out
    said(cluster, "delete", "lost", "--wait")
    said(cluster, "submit", file, "--replace", "--wait", code=1)
    assert said(cluster, "logs", "lost", "--attempt", "1").out.count("no data") == 1
