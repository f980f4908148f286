"""The commands about jobs, for PaddleJobs of batch.paddlepaddle.org."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.cli.asking import said, wait_for_log
from tests.cli.ordinary_user import OrdinaryUser, running_cluster
from tests.cli.test_commands import output

EXAMPLES = Path(__file__).parents[2] / "examples" / "paddle-batch"
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


def test_a_size_is_changed_where_it_can_be_and_kept_with_a_reason_where_it_cannot(cluster: OrdinaryUser) -> None:
    said(cluster, "submit", cluster.write("resnet.yaml", PADDLE), cluster.write("elastic.yaml", ELASTIC))
    held = said(cluster, "scale", "pdj/resnet", "3", code=2).err
    assert "worker of resnet cannot be resized: the number of trainers is set at the start" in held
    assert "set spec.elastic: 1" in held
    assert said(cluster, "scale", "elastic", "3", "--wait").out.splitlines() == [
        "elastic: worker 2 → 3 (bounds 1–); all replicas restart",
        "elastic: worker has 3 replicas running",
    ]
    wait_for_log(cluster, "elastic", "2 of", "--rank", "2")
    assert said(cluster, "logs", "elastic", "--rank", "2", "--no-prefix").out == "2 of 3\n"
    for name in ("PaddleJob.batch.paddlepaddle.org", "paddlejobs.batch.paddlepaddle.org"):
        assert said(cluster, "get", f"{name}/elastic", "-o", "name").out
    listed = said(cluster, "get", "-o", "wide").out
    assert re.search(r"^elastic +PaddleJob\.batch\.paddlepaddle\.org +Running +3/3 +0 ", listed, re.MULTILINE)
    assert (
        said(cluster, "suspend", "resnet", "--wait").out.splitlines()[-1] == "resnet: Suspended, all pods are deleted"
    )
    assert said(cluster, "scale", "pdj/resnet", "3").out == "resnet: worker 2 → 3\n", (
        "new pods learn the size when it resumes"
    )


def test_one_of_several_kinds_of_the_same_name_is_printed_by_its_group(capsys: pytest.CaptureFixture[str]) -> None:
    printed = output(capsys, "crds", "--kinds", "PaddleJob.batch.paddlepaddle.org")
    [one] = yaml.load_all(printed, yaml.CSafeLoader)
    assert one["spec"]["names"]["shortNames"] == ["pdj"]


def test_servers_that_never_end_are_released_when_the_workers_of_the_example_have(user: OrdinaryUser) -> None:
    ran = said(user, "run", str(EXAMPLES / "servers.yaml"))
    learnt = [line for line in ran.out.splitlines() if "has learnt" in line]
    assert sorted(learnt) == [
        f"worker-{index} │ worker {index} of 2 has learnt [1.5, -2.0, 0.7, 3.0]" for index in range(2)
    ]
    assert "✔ servers succeeded" in ran.err
    assert "2 ps, 2 workers" in ran.err


# The first test here resizes a PaddleJob in the default choice; test_elastic_quickstart.py compares losses there.
@pytest.mark.deep
def test_the_elastic_example_goes_on_at_another_size_and_ends_at_the_same_loss(tmp_path: Path) -> None:
    with running_cluster("--workspace", str(EXAMPLES)) as user:
        check_elastic_example(user, tmp_path)


def check_elastic_example(user: OrdinaryUser, tmp_path: Path) -> None:
    # Slow at its first size, so that there is time to give it another one however busy the machine is.
    paced = "command: [sh, -c, 'PAUSE=$([ $PADDLE_TRAINERS_NUM = 2 ] && echo 0.1 || echo 0) exec python3 train.py']"
    text = (EXAMPLES / "elastic.yaml").read_text().replace("command: [python3, train.py]", paced)
    said(user, "submit", user.write("elastic.yaml", text), "--workspace", str(EXAMPLES))
    with user.start("logs", "elastic", "--rank", "0", "--follow", "--no-prefix") as following:
        assert following.stdout is not None
        assert any("step=10 " in line for line in following.stdout)
        following.terminate()
    said(user, "scale", "elastic", "4", "--wait")
    with user.start("logs", "elastic", "--rank", "0", "--follow", "--no-prefix") as following:
        assert following.stdout is not None
        printed = following.stdout.read()
    begun = re.search(r"^4 trainers continue after step (\d+)$", printed, re.MULTILINE)
    assert begun is not None
    assert 10 <= int(begun[1]) < 100
    assert printed.splitlines()[-1] == trained_alone(tmp_path)


def trained_alone(folder: Path) -> str:
    """The last line of a trainer that nobody helps or disturbs."""
    alone = {"PADDLE_TRAINER_ENDPOINTS": "localhost:0", "PADDLE_TRAINER_ID": "0", "PADDLE_TRAINERS_NUM": "1"}
    env = {**os.environ, **alone, "CHECKPOINTS": str(folder), "PAUSE": "0"}
    command = [sys.executable, str(EXAMPLES / "train.py")]
    done = subprocess.run(command, env=env, check=True, capture_output=True, text=True, timeout=60)
    return done.stdout.splitlines()[-1]
