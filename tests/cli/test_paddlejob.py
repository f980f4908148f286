"""The PaddleJob that its README shows, as it stands, with stock kubectl."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import yaml

from tests.cli.ordinary_user import ROOT, OrdinaryUser
from tests.cli.test_up_down import kubeconfig_from, kubectl

pytestmark = pytest.mark.kubectl

SAMPLE = ROOT / "tests" / "golden" / "paddle" / "seed.in.yaml"
PROGRAM = ROOT / "examples" / "paddle"
MINE = ("-l", "paddle-job-name=paddlejob", "-n", "testspace")


@pytest.fixture(autouse=True)
def down(user: OrdinaryUser) -> Iterator[None]:
    """Whatever happens in a test, its cluster is stopped."""
    yield
    user.run("down", "--purge")
    assert user.processes() == []


def test_the_sample_of_the_readme_runs_as_it_stands(user: OrdinaryUser) -> None:
    up = user.run("up", "--mount", f"{PROGRAM}:/home/job-1")
    assert up.code == 0, up.err
    kubeconfig = kubeconfig_from(up.out)

    def told(*words: str) -> str:
        return kubectl(user, kubeconfig, *words)

    told("create", "namespace", "testspace")
    assert "created" in told("create", "-f", str(SAMPLE))
    told("wait", "paddlejob/paddlejob", "-n", "testspace", "--for=jsonpath={.status.phase}=running", "--timeout=30s")
    listed = told("get", "pods", *MINE, "-o", "name").split()
    # There may be more trainers by now: as many as there is room for.
    assert {f"pod/paddlejob-{role}-{index}" for role in ("pserver", "trainer") for index in (0, 1)} <= {*listed}
    assert "pod/paddlejob-pserver-2" not in listed
    shown = yaml.safe_load(told("get", "-o", "yaml", "PaddleJob", "paddlejob", "-n", "testspace"))
    assert shown["apiVersion"] == "paddlepaddle.org/v1"
    [scaling] = shown["status"]["scaling"]
    assert (scaling["group"], scaling["min"], scaling["max"]) == ("trainer", 2, 6)

    told("wait", "paddlejob/paddlejob", "-n", "testspace", "--for=jsonpath={.status.phase}=succeeded", "--timeout=40s")
    told("wait", "pod/paddlejob-pserver-0", "-n", "testspace", "--for=delete", "--timeout=30s")
    assert "trained to loss" in told("logs", "paddlejob-trainer-0", "-n", "testspace")
    assert "succeeded" in told("get", "paddlejobs.paddlepaddle.org", "-n", "testspace")

    told("delete", "-f", str(SAMPLE))
    told("wait", "pod", *MINE, "--for=delete", "--timeout=30s")
    assert told("get", "pods,services,configmaps", *MINE) == ""


def test_the_sample_without_its_program_is_answered_with_a_mount(user: OrdinaryUser) -> None:
    up = user.run("up")
    kubeconfig = kubeconfig_from(up.out)

    def told(*words: str) -> str:
        return kubectl(user, kubeconfig, *words)

    told("create", "namespace", "testspace")
    told("create", "-f", str(SAMPLE))
    told("wait", "paddlejob/paddlejob", "-n", "testspace", "--for=jsonpath={.status.phase}=failed", "--timeout=30s")
    advice = "--mount DIR:/home/job-1 of `pliant up` or `pliant run`"
    assert advice in told("get", "events", "-n", "testspace", "--field-selector=reason=MissingDirectory")
    assert "--mount DIR:/home/job-1" in user.run("why", "paddlejob", "-n", "testspace").out
    ran = user.run("run", str(SAMPLE))
    assert "suggestion: /home/job-1 does not exist on this machine" in ran.err
    assert advice in ran.err
