"""The commands about jobs, for PaddleJobs of batch.paddlepaddle.org."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
import yaml

from tests.cli.asking import said
from tests.cli.ordinary_user import OrdinaryUser

PADDLE = """\
apiVersion: batch.paddlepaddle.org/v1
kind: PaddleJob
metadata: {name: resnet}
spec:
  worker:
    replicas: 2
    template:
      spec:
        terminationGracePeriodSeconds: 1
        containers:
          - name: paddle
            image: any
            command: [sh, -c, "echo $PADDLE_TRAINER_ID of $PADDLE_TRAINERS_NUM; exec sleep 1000"]
"""
ELASTIC = PADDLE.replace("spec:\n  worker", "spec:\n  elastic: 1\n  worker").replace("resnet", "elastic")


@pytest.fixture
def cluster(user: OrdinaryUser) -> Iterator[OrdinaryUser]:
    """Somebody whose cluster is up; it is gone afterwards, with all it ran."""
    assert user.run("up").code == 0
    yield user
    user.run("down", "--purge")
    assert user.processes() == []


def test_a_size_is_changed_where_it_can_be_and_kept_with_a_reason_where_it_cannot(cluster: OrdinaryUser) -> None:
    said(cluster, "submit", cluster.write("resnet.yaml", PADDLE), cluster.write("elastic.yaml", ELASTIC))
    held = said(cluster, "scale", "pdj/resnet", "3", code=2).err
    assert "worker of resnet keeps its size: trainers were told their number at the start" in held
    assert "set spec.elastic: 1" in held
    assert said(cluster, "scale", "elastic", "3", "--wait").out.splitlines() == [
        "elastic: worker 2 → 3 (bounds 1–); all members start again, to be told of it",
        "elastic: worker has 3 members up",
    ]
    assert said(cluster, "logs", "elastic", "--rank", "2", "--no-prefix").out == "2 of 3\n"
    listed = said(cluster, "get", "-o", "wide").out
    assert re.search(r"^elastic +Running +3/3 +0 .* PaddleJob\.batch\.paddlepaddle\.org ", listed, re.MULTILINE)
    assert said(cluster, "suspend", "resnet", "--wait").out.splitlines()[-1] == "resnet: Suspended, suspended"


def test_one_of_several_kinds_of_the_same_name_is_printed_by_its_group(user: OrdinaryUser) -> None:
    every = [*yaml.safe_load_all(said(user, "crds", "--kind", "PaddleJob").out)]
    assert len(every) > 1
    [one] = yaml.safe_load_all(said(user, "crds", "--kind", "PaddleJob.batch.paddlepaddle.org").out)
    assert one["spec"]["names"]["shortNames"] == ["pdj"]


def test_a_value_of_old_examples_is_refused_with_the_one_that_was_meant(user: OrdinaryUser) -> None:
    file = user.write(
        "deepfm.yaml", PADDLE.replace("spec:\n  worker", "spec:\n  cleanPodPolicy: OnFailed\n  worker")
    )
    refused = said(user, "run", file, code=2).err
    assert "cleanPodPolicy" in refused
    assert "OnFailure" in refused
