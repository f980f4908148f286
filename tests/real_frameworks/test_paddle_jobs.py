"""Real trainings with Paddle, in PaddleJobs that are resized, learn what they learn when left in peace."""

from __future__ import annotations

import re
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.cli.ordinary_user import ROOT, Ended, OrdinaryUser
from tests.real_frameworks.environments import ENVIRONMENTS, missing
from tests.scenarios.cluster import an_ordinary_user

FOLDER = ROOT / "examples" / "paddle-training"
SHARDS = 160
PATIENCE = 150
"""Seconds for one training."""
NEAR = 0.08
"""How far losses may be apart around servers: trainers there learn from what others knew a moment ago."""
pytestmark = [pytest.mark.frameworks, pytest.mark.timeout(2 * PATIENCE)]

BY_OURSELVES = ("--autoscale", "off")
LOSS = re.compile(r"trained to loss ([\d.]+)")
BEGUN = re.compile(r"trainer (\d) of (\d) (?:starts|continues)")
LEARNED = re.compile(r"trainer \d processed (\d+) shards")


@dataclass
class Training:
    """A job that trains, and what it has said."""

    name: str
    user: OrdinaryUser
    process: subprocess.Popen[str]
    said: list[str] = field(default_factory=list)

    @property
    def text(self) -> str:
        """All that was said so far."""
        return "".join(self.said)

    @property
    def kubeconfig(self) -> Path:
        """The way into its cluster."""
        return self.user.home / "data" / "kubeconfig"

    @property
    def loss(self) -> float:
        """What it was trained to."""
        found = LOSS.search(self.text)
        assert found, self.text
        return float(found[1])

    def wait_for(self, words: str) -> None:
        """Read until something is said."""
        assert self.process.stdout is not None
        for line in iter(self.process.stdout.readline, ""):
            self.said.append(line)
            if re.search(words, line):
                return
        pytest.fail(f"`{words}` was never said\n{self.text}")

    def scale(self, size: int) -> None:
        """Ask for another number of trainers."""
        ended = self.told("scale", self.name, str(size))
        assert ended.code == 0, ended.err

    def told(self, *words: str) -> Ended:
        """How a command went that was given to its cluster."""
        return self.user.run(*words, "--kubeconfig", str(self.kubeconfig))

    def finish(self) -> None:
        """Read to the end, which is a success."""
        assert self.process.stdout is not None
        self.said += list(self.process.stdout)
        assert self.process.wait() == 0, self.text


@contextmanager
def training(file: str, framework: str, *options: str) -> Iterator[Training]:
    """Run the job of a file with one of the installed versions of Paddle."""
    environment = next(each for each in ENVIRONMENTS if each.name == framework)
    if problem := missing(environment):
        pytest.skip(f"{framework} is not installed: {problem}")
    with an_ordinary_user() as user:
        user.more["PATH"] = environment.path
        words = ("run", str(FOLDER / f"{file}.yaml"), "--timeout", f"{PATIENCE - 10}s", "--data", "data")
        with user.start(*words, *options, stderr=subprocess.STDOUT) as process:
            try:
                yield Training(file, user, process)
            finally:
                process.send_signal(signal.SIGKILL)


@pytest.fixture(scope="module")
def peaceful() -> float:
    """What two trainers around servers come to if nobody disturbs them."""
    with training("servers", "paddle-servers", *BY_OURSELVES, "--set", "spec.trainer.envs.PAUSE=0") as left_alone:
        left_alone.finish()
    assert {size for _, size in BEGUN.findall(left_alone.text)} == {"2"}
    return left_alone.loss


@pytest.mark.parametrize(("file", "servers"), [("servers", "pserver"), ("servers-batch", "ps")])
def test_trainers_join_and_leave_while_others_train(peaceful: float, file: str, servers: str) -> None:
    with training(file, "paddle-servers", *BY_OURSELVES) as disturbed:
        disturbed.wait_for("pliant: step=")
        disturbed.scale(4)
        disturbed.wait_for("trainer [23] of 4 starts")
        disturbed.wait_for("trainer [23] of 4 starts")
        disturbed.scale(2)
        disturbed.finish()
    assert sorted(BEGUN.findall(disturbed.text)) == [("0", "2"), ("1", "2"), ("2", "4"), ("3", "4")]
    assert sum(map(int, LEARNED.findall(disturbed.text))) == SHARDS, "each shard is learned once"
    assert disturbed.loss == pytest.approx(peaceful, rel=NEAR)
    for index in (0, 1):
        assert re.search(rf"{servers}-{index} +│ .*`Termination signal`", disturbed.text), "it never ends by itself"


def test_trainers_in_step_start_again_at_each_size_and_end_where_others_do() -> None:
    in_haste = ("--set", 'spec.worker.template.spec.containers[0].env[1].value="0"')
    with training("collective", "paddle", *BY_OURSELVES, *in_haste) as left_alone:
        left_alone.finish()
    with training("collective", "paddle", *BY_OURSELVES) as disturbed:
        disturbed.wait_for("pliant: step=10 ")
        disturbed.scale(4)
        disturbed.wait_for("trainer 3 of 4 continues after step [1-9]")
        disturbed.wait_for("pliant: step=")
        disturbed.scale(2)
        disturbed.wait_for("trainer 1 of 2 continues after step [1-9]")
        disturbed.finish()
    assert [size for index, size in BEGUN.findall(disturbed.text) if index == "0"] == ["2", "4", "2"]
    assert disturbed.loss == pytest.approx(left_alone.loss, abs=1e-5)


def test_trainers_who_count_each_other_keep_their_number_until_they_rest_and_the_job_says_why() -> None:
    fixed = ("--set", "spec.elastic=null", "--set", "spec.worker.requests=null", "--set", "spec.worker.limits=null")
    with training("collective", "paddle", *BY_OURSELVES, *fixed) as held:
        held.wait_for("pliant: step=10 ")
        refused = held.told("scale", "collective", "4")
        assert refused.code != 0
        assert "set spec.elastic: 1" in refused.err
        kubectl = ("kubectl", "--kubeconfig", str(held.kubeconfig), "patch", "paddlejobs.batch.paddlepaddle.org")
        edit = ("collective", "--type=merge", "-p", '{"spec":{"worker":{"replicas":4}}}')
        subprocess.run([*kubectl, *edit], check=True, capture_output=True)
        held.wait_for("worker keeps size 2, size 4 is rejected: the number of trainers is set at the start")
        held.wait_for("pliant: step=")
        assert {size for _, size in BEGUN.findall(held.text)} == {"2"}
        assert held.told("suspend", "collective").code == held.told("resume", "collective").code == 0
        held.wait_for("trainer . of 4 continues after step [1-9]")
        held.finish()
