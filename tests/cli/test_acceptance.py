"""What an engineer without a cluster may expect of one on a laptop: each line run as that person runs it."""

from __future__ import annotations

import json
import os
import re
import signal
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from pliant.cli.local.state_dir import ClusterStateDir
from tests.cli.asking import said, wait_for, wait_for_log
from tests.cli.ordinary_user import OrdinaryUser
from tests.cli.test_run import job
from tests.cli.test_up_down import kubeconfig_from, kubectl
from tests.scenarios.host import descendants, every_process, expect_gone, networks

MEETING = Path(__file__).with_name("meeting.py")
HARMLESS = (
    *(signal.SIGCHLD, signal.SIGURG, signal.SIGWINCH, signal.SIGCONT),
    *(signal.SIGSTOP, signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU),
)
"""Signals that end nobody who does not listen to them."""
RING = """\
---
apiVersion: v1
kind: Service
metadata: {name: ring}
spec: {clusterIP: None, selector: {app: ring}}
---
apiVersion: v1
kind: Pod
metadata: {name: one, labels: {app: ring}}
spec:
  hostname: first
  subdomain: ring
  containers: [{name: main, image: none, command: [sleep, "600"]}]
"""


@pytest.fixture(autouse=True)
def nothing_is_left(user: OrdinaryUser) -> Iterator[None]:
    """Whatever happens in a test, no process outlives it."""
    yield
    user.call("down", "--purge")
    assert user.processes() == []


def test_members_meet_on_one_port_by_every_name_and_learn_at_once_which_names_lead_nowhere(user: OrdinaryUser) -> None:
    code = user.write("meeting.py", MEETING.read_text())
    text = job(f"python3 {code}", name="meet", replicas=2) + RING
    done = user.run("run", "--no-egress", "--timeout", "30s", user.write("job.yaml", text))
    assert done.code == 0, done.out + done.err
    for member in ("worker-0", "worker-1"):
        lines = [line.partition("│ ")[2] for line in done.out.splitlines() if line.startswith(member)]
        assert lines == ["found in time", "host found", "missing: True True (3, 0)", "AAAA: (0, 0) A: (0, 1)"]


def without_verdict(script: str, name: str, replicas: int) -> str:
    """A job that waits for all of its members, whatever becomes of each, and keeps their pods."""
    text = job(script, name=name, replicas=replicas)
    return text.replace("      template:", "      failPolicy: All\n      template:").replace(
        "spec:\n", "spec:\n  cleanPodPolicy: None\n", 1
    )


@pytest.mark.deep  # tests/node/test_pod_ends.py shows codes and signals of single pods
@pytest.mark.kubectl
def test_every_exit_code_and_every_signal_there_is_reaches_the_job(user: OrdinaryUser) -> None:
    kubeconfig = kubeconfig_from(user.run("up").out)
    codes = without_verdict("exit $TRAININGJOB_REPLICA_INDEX", "codes", 256)
    deadly = [number for number in signal.valid_signals() if number not in HARMLESS]
    kill = "set -- 0 " + " ".join(str(int(number)) for number in deadly)
    kill += "; shift $TRAININGJOB_REPLICA_INDEX; kill -$1 $$$$"
    signals = without_verdict(kill, "signals", len(deadly) + 1)
    submitted = user.call("submit", "--wait", user.write("job.yaml", f"{codes}---\n{signals}"))
    assert submitted.code == 1
    assert "all replicas have terminated without meeting the completePolicy" in submitted.err + submitted.out
    pods = json.loads(kubectl(user, kubeconfig, "get", "pods", "-o", "json"))["items"]
    ends = {pod["metadata"]["name"]: terminated(pod)["exitCode"] for pod in pods}
    assert ends == {f"codes-worker-{code}": code for code in range(256)} | {
        f"signals-worker-{place}": 128 + number if number else 0 for place, number in enumerate([0, *deadly])
    }


def terminated(pod: dict[str, Any]) -> dict[str, Any]:
    [status] = pod["status"]["containerStatuses"]
    return dict(status["state"]["terminated"])


# tests/node shows the limit, test_advice.py and test_results.py what is told of it.
@pytest.mark.deep
def test_a_worker_that_takes_more_memory_than_it_may_is_killed_and_that_is_said(user: OrdinaryUser) -> None:
    text = job(
        'python3 -c "import time; held = bytearray(300 << 20); time.sleep(60)"',
        more="resources: {limits: {memory: 64Mi}}",
    )
    done = user.run("run", user.write("job.yaml", text))
    assert done.code == 1
    assert "worker-0 ran out of memory (OOMKilled, exit code 137)" in done.err
    assert "suggestion: use a smaller batch, or increase the memory in resources.limits" in done.err


def wanting_gpus(name: str, count: int) -> str:
    script = "echo sees $CUDA_VISIBLE_DEVICES; exec sleep 600"
    return job(script, name=name, more=f"resources: {{limits: {{nvidia.com/gpu: {count}}}}}")


# tests/embedded/test_gpus.py shows who gets which GPU, test_about_jobs.py what is told of pods that find no room.
@pytest.mark.deep
def test_two_jobs_never_see_the_same_gpu_and_who_finds_none_waits_and_says_for_what(user: OrdinaryUser) -> None:
    assert user.run("up", "--node-gpu", "2").code == 0
    for name in ("first", "second"):
        said(user, "submit", user.write(f"{name}.yaml", wanting_gpus(name, 1)))
    seen = {wait_for_log(user, name, "sees") for name in ("first", "second")}
    assert seen == {"sees 0", "sees 1"}

    said(user, "submit", user.write("third.yaml", wanting_gpus("third", 1)))
    wait_for(user, "third", "Unschedulable")
    assert said(user, "get", "third").out.splitlines()[1].split()[2] == "Pending"
    why = " ".join(said(user, "why", "third").out.split())
    assert "1 Insufficient nvidia.com/gpu" in why
    assert "It requests 1 nvidia.com/gpu, but no node has more than 0 free." in why
    said(user, "delete", "first", "--wait")
    assert wait_for_log(user, "third", "sees") in seen

    said(user, "submit", user.write("greedy.yaml", wanting_gpus("greedy", 3)))
    wait_for(user, "greedy", "Unschedulable")
    why = " ".join(said(user, "why", "greedy").out.split())
    assert "It requests 3 nvidia.com/gpu, but no node has more than 2." in why


def test_a_whole_program_that_is_killed_leaves_nothing_and_its_jobs_go_on_in_the_next(user: OrdinaryUser) -> None:
    data = f"{user.home}/dä ta"
    script = '(setsid sleep 1000 &); sh -c "sleep 1001 & sleep 1002" & echo up $TRAININGJOB_REPLICA_RESTARTCOUNT; wait'
    policies = "replicas: 2\n      restartPolicy: Always\n      restartLimit: 3"
    text = job(script, replicas=2).replace("replicas: 2", policies)
    assert user.run("up", "--data", data).code == 0
    said(user, "submit", user.write("job.yaml", text))
    for rank in ("0", "1"):
        assert wait_for_log(user, "demo", "up", "--rank", rank) == "up 0"

    running = ClusterStateDir.for_cluster("default", {"XDG_DATA_HOME": f"{user.home}/.local/share"}).running_cluster()
    assert running is not None
    family = [running.pid, *descendants(running.pid)]
    spaces = networks(family) - networks([os.getpid()])
    groups = cgroups(family) - cgroups([os.getpid()])
    assert len(family) >= 8
    assert spaces
    os.kill(running.pid, signal.SIGKILL)
    expect_gone(family)
    assert user.processes() == []
    assert not spaces & networks(every_process())
    assert data not in Path("/proc/self/mountinfo").read_text()
    assert not [each for each in groups if each.exists()]

    assert user.run("up", "--data", data).code == 0
    wait_for_log(user, "demo", "up 1")
    assert "the cluster stopped while" in said(user, "why", "demo").out


def cgroups(processes: Iterable[int]) -> set[Path]:
    """Find the folders of the control groups of these processes."""
    lines: list[str] = []
    for process in processes:
        with suppress(OSError):
            lines += Path(f"/proc/{process}/cgroup").read_text().splitlines()
    return {Path("/sys/fs/cgroup", *line.split(":", 2)[1:2], line.split(":", 2)[2].strip("/")) for line in lines}


@pytest.mark.kubectl
def test_kubectl_reads_the_log_of_the_run_before_and_follows_the_present_one(user: OrdinaryUser) -> None:
    kubeconfig = kubeconfig_from(user.run("up").out)
    second = "echo again && sleep 1 && echo end && exit 0"
    script = f"echo began; [ -e /tmp/x/again ] && {second}; touch /tmp/x/again; exit 3"
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p"},
        "spec": {
            "restartPolicy": "OnFailure",
            "volumes": [{"name": "x", "emptyDir": {}}],
            "containers": [
                {
                    "name": "main",
                    "image": "none",
                    "command": ["sh", "-c", script],
                    "volumeMounts": [{"name": "x", "mountPath": "/tmp/x"}],
                }
            ],
        },
    }
    kubectl(user, kubeconfig, "apply", "-f", user.write("pod.yaml", json.dumps(pod)))
    kubectl(user, kubeconfig, "wait", "pod/p", "--for=jsonpath={.status.containerStatuses[0].restartCount}=1")
    assert kubectl(user, kubeconfig, "logs", "-f", "p") == "began\nagain\nend\n"
    assert kubectl(user, kubeconfig, "logs", "--previous", "p") == "began\n"


# test_run.py shows the first cause of a failed run, test_verdict.py the restarts, test_advice.py the advice.
@pytest.mark.deep
def test_a_job_that_fails_at_once_says_so_at_once(user: OrdinaryUser) -> None:
    text = job("no-such-program --epochs 3").replace(
        "replicas: 1", "replicas: 1\n      restartPolicy: OnFailure\n      restartLimit: 2"
    )
    done = user.run("run", user.write("job.yaml", text))
    assert done.code == 1
    assert re.search(
        r"✘ demo failed after \S+, 2 restarts: worker-0 exited with code 127: .*; the program cannot start", done.err
    )
    assert "root cause: pod demo-worker-0, container aitj-worker" in done.err
    assert "no-such-program: not found" in done.err
    assert "suggestion: check the spelling; local pods use" in done.err
