"""Commands about ElasticJobs: sizes, plans and their reasons, members by their titles, and mistakes."""

from __future__ import annotations

import time

import msgspec
import pytest
import yaml

from pliant.cli.cluster.job_context import JobContext
from pliant.frontends.elasticjob.job import ElasticJobFrontend
from pliant.kube.objects import Pod
from pliant.model.state import EngineState, JobPhase
from tests.cli.asking import wait_for_log
from tests.cli.ordinary_user import PATIENCE, OrdinaryUser
from tests.controllers.elastic import foreign_pod

JOB = """\
apiVersion: elastic.iml.github.io/v1alpha1
kind: ElasticJob
metadata: {name: ej}
spec:
  distributionStrategy: AllreduceStrategy
  replicaSpecs:
    dlrover-master:
      template:
        spec:
          terminationGracePeriodSeconds: 0
          containers: [{name: main, image: x, command: [sh, -c, MASTER]}]
    worker:
      replicas: 1
      maxReplicas: 4
      template:
        spec:
          terminationGracePeriodSeconds: 0
          containers: [{name: main, image: x, command: [sh, -c, "echo rank $NODE_RANK; exec sleep 600"]}]
"""
BORN = {"namespace": "default", "creationTimestamp": "2026-01-01T12:00:00Z"}
PLAN = """\
apiVersion: elastic.iml.github.io/v1alpha1
kind: ScalePlan
metadata: {name: by-hand, labels: {scale-type: auto}}
spec:
  ownerJob: ej
  reason: a short queue
  replicaResourceSpecs: {worker: {replicas: 3}}
"""


def said(user: OrdinaryUser, *words: str) -> str:
    ended = user.call(*words)
    assert ended.code == 0, ended.err
    return ended.out


def eventually(user: OrdinaryUser, needle: str, *words: str) -> str:
    """What a command says as soon as it says that."""
    limit = time.monotonic() + PATIENCE
    while needle not in (text := said(user, *words)):
        assert time.monotonic() < limit, f"never said {needle}: {text}"
    return text


def test_a_job_is_scaled_and_its_plans_are_told_with_their_reasons(cluster: OrdinaryUser) -> None:
    said(cluster, "submit", cluster.write("job.yaml", JOB.replace("MASTER", "exec sleep 600")))
    # The operator applies an edited size by itself only if it has seen another size before.
    eventually(cluster, '"phase"', "get", "ej", "-o", "json")
    assert said(cluster, "scale", "ej", "2", "--wait") == (
        "ej: worker 1 → 2 (bounds 0–4)\nej: worker has 2 replicas running\n"
    )
    assert "by-hand: created" in said(cluster, "submit", cluster.write("plan.yaml", PLAN))
    story = eventually(cluster, "by-hand: worker from 2 to 3 (a short queue)", "why", "ej")
    assert "Scale plans" in story
    assert "worker 3 [0–4]" in eventually(cluster, "3/3", "get", "ej")
    page = said(cluster, "describe", "ej")
    assert "the exit code of its master" in page
    assert "by the master" in page
    for rank in range(3):
        wait_for_log(cluster, "ej", f"rank {rank}", "--group", "worker")
    logs = said(cluster, "logs", "ej", "--group", "worker")
    assert sorted(line.split() for line in logs.splitlines()) == [
        [f"worker-{rank}", "│", "rank", str(rank)] for rank in range(3)
    ]
    assert {line.split()[1] for line in said(cluster, "top", "ej").splitlines()} >= {"dlrover-master-0", "worker-2"}
    said(cluster, "suspend", "ej", "--wait")
    assert "Suspended" in said(cluster, "get", "ej")


def test_members_that_a_master_made_are_told_of_by_their_titles() -> None:
    job = ElasticJobFrontend().parse({**yaml.safe_load(JOB), "metadata": {"name": "ej", "uid": "u", **BORN}})
    state = EngineState(phase=JobPhase.RUNNING, started_at=job.created_at)
    raw = foreign_pod({"metadata": {"name": "ej", "uid": "u"}}, 3)
    pod = msgspec.convert({**raw, "status": {"phase": "Running"}}, Pod, strict=False)
    around = JobContext(pods=[pod])
    places = around.match_replicas(job, state, job.created_at)
    assert [place.display_name for place in places] == ["dlrover-master-0", "worker-3"]


@pytest.mark.parametrize(("code", "verdict"), [(0, "✔ ej-0 succeeded"), (1, "✘ ej-1 failed")])
def test_a_job_ends_as_the_master_does(cluster: OrdinaryUser, code: int, verdict: str) -> None:
    text = JOB.replace("MASTER", f"exit {code}").replace("name: ej}", f"name: ej-{code}}}")
    ended = cluster.call("submit", cluster.write(f"ej-{code}.yaml", text), "--wait")
    assert ended.code == code, ended.err
    assert verdict in ended.err


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (JOB.replace("replicas: 1", "replicsa: 1"), "fix: did you mean `replicas`?"),
        (JOB.replace("replicas: 1", "replicas: -1"), "-1 is not allowed"),
        (JOB.replace("AllreduceStrategy", "AllReduce"), "did you mean AllreduceStrategy?"),
        (JOB.replace("name: ej}", f"name: {'e' * 50}}}"), "`name` is too long"),
        (JOB.replace("    worker:", "    Worker:"), "did you mean worker?"),
        (JOB + "---\n" + PLAN.replace("Specs", "Spec"), "did you mean `replicaResourceSpecs`?"),
        (JOB + "---\n" + PLAN.replace("replicas: 3", "replicas: -3"), "-3 is not allowed"),
        (JOB + "---\n" + PLAN + "  createPods: [{rankIndex: 1}]\n", "`type` is required"),
    ],
)
def test_mistakes_are_told_with_the_field_and_the_fix(user: OrdinaryUser, text: str, complaint: str) -> None:
    ran = user.call("run", user.write("job.yaml", text))
    assert ran.code == 2
    assert complaint in ran.err
    assert "Traceback" not in ran.err
