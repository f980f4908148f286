"""The commands about jobs, against a cluster that `pliant up` runs for an ordinary user."""

from __future__ import annotations

import dataclasses
import fcntl
import json
import os
import re
import signal
import struct
import termios

import pytest
import yaml

from tests.cli.asking import DOOMED, JOB, STEADY, said, submit, wait_for, wait_for_log
from tests.cli.ordinary_user import OrdinaryUser, finished, running_cluster

SUBMITTED = """\
apiVersion: v1
kind: ConfigMap
metadata: {name: code}
data:
  train.sh: |
    [ $TRAININGJOB_REPLICA_RESTARTCOUNT$TRAININGJOB_REPLICA_INDEX = 01 ] && echo kill -9 myself && kill -9 $$
    echo trained
---
"""
CODE = """volumeMounts: [{name: code, mountPath: /app}]
          volumes: [{name: code, configMap: {name: code}}]
"""


@pytest.fixture(scope="module")
def bert(cluster: OrdinaryUser) -> OrdinaryUser:
    """The user of a cluster with a job `bert`, for tests that do not change it."""
    submit(cluster, "bert")
    wait_for(cluster, "bert", " Running ")
    return cluster


def test_a_job_is_listed_described_scaled_rested_and_deleted(cluster: OrdinaryUser) -> None:
    submit(cluster, "gpt")
    wait_for(cluster, "gpt", " Running ")
    scaled = said(cluster, "scale", "gpt", "9", "--wait")
    assert scaled.out.splitlines() == [
        "gpt: worker 2 → 4 (bounds 1–4); 9 requested",
        "gpt: worker has 4 replicas running",
    ]
    assert "cluster: `default` of `pliant up`, https://127.0.0.1:" in scaled.err

    listed = said(cluster, "get").out
    assert re.search(r"^NAME +KIND +PHASE +READY +RESTARTS +SIZE +AGE +MESSAGE\n", listed)
    assert re.search(
        r"^gpt +AITrainingJob +Running +4/4 +0 +worker 4 \[1–4\] +[\dms]+ +all replicas are running$",
        listed,
        re.MULTILINE,
    )
    assert "\x1b" not in listed
    assert "aitrainingjob.elasticdeeplearning.ai/gpt" in said(cluster, "get", "-A", "-o", "name").out.splitlines()
    assert json.loads(said(cluster, "get", "aitj/gpt", "-o", "json").out)["metadata"]["name"] == "gpt"
    listing = yaml.safe_load(said(cluster, "get", "-o", "yaml").out)["items"]
    assert "gpt" in [each["metadata"]["name"] for each in listing if each["kind"] == "AITrainingJob"]
    assert "STARTED" in said(cluster, "get", "-o", "wide").out

    page = said(cluster, "describe", "gpt").out
    assert re.search(r"worker +4 +1–4 +spec 2, scale 9 +OnFailure, scope Pod +0 of 1", page)
    assert re.search(r"worker-3 +gpt-worker-3 +node-\d +0 +Running", page)
    assert "resizing worker from 2 to 4 (scaled)" in page

    for rank in range(4):
        wait_for_log(cluster, "gpt", f"hello from {rank}")
    assert said(cluster, "logs", "gpt", "--tail", "1").out.splitlines() == [
        f"worker-{rank} │ hello from {rank}" for rank in range(4)
    ]
    assert said(cluster, "logs", "gpt", "--rank", "2", "--no-prefix").out == "hello from 2\n"

    assert said(cluster, "suspend", "gpt", "--wait").out.splitlines()[-1] == "gpt: Suspended, all pods are deleted"
    assert "It is suspended (spec.suspend)" in (why := said(cluster, "why", "gpt").out)
    assert "worker has size 4: the scale subresource requested 9" in why
    assert "pliant resume gpt" in why
    assert "already suspended" in said(cluster, "suspend", "gpt").out
    assert said(cluster, "resume", "gpt", "--wait").out.splitlines()[-1] == "gpt: Running, all replicas are running"

    assert said(cluster, "delete", "gpt", "--wait").out == "gpt: deleted\nall pods are deleted\n"
    assert "job `gpt` not found" in said(cluster, "get", "gpt", code=2).err
    assert "no jobs found in the namespace" in said(cluster, "get", "-n", "empty").err


def test_a_failure_is_explained_with_its_first_cause_and_what_to_try(cluster: OrdinaryUser) -> None:
    submit(cluster, "doomed", DOOMED)
    followed = said(cluster, "logs", "doomed", "--follow")
    assert "worker-1 │ attempt 1" in followed.out  # the attempt after the restart, too

    why = said(cluster, "why", "doomed").out
    assert why.startswith("doomed failed ")
    assert "Root cause: worker-1 exited with code 3 (pod doomed-worker-1 on node-" in " ".join(why.split())
    assert "│ no data" in why
    assert "worker has used 1 of 1 restarts (app 1), none left." in why
    newest = why.split("Timeline (newest first)\n")[1].splitlines()
    assert "Failed" in newest[0]
    assert "job accepted" in next(line for line in newest if "Pending" in line)
    assert "increase restartLimit of worker" in why

    data = json.loads(said(cluster, "why", "doomed", "-o", "json").out)
    assert data["phase"] == "Failed"
    assert data["reasons"][0]["logLines"][-1] == "no data"
    told = said(cluster, "events", "doomed").out
    assert re.search(r"Warning +Failed +AITrainingJob doomed +worker-1 exited with code 3", told)
    for words in (("scale", "doomed", "3"), ("suspend", "doomed"), ("resume", "doomed")):
        assert "has finished (Failed)" in said(cluster, *words, code=2).err


def test_files_are_submitted_followed_and_replaced(cluster: OrdinaryUser) -> None:
    text = SUBMITTED + JOB.format(name="short", command="exec sh /app/train.sh", more=CODE)
    file = cluster.write("short.yaml", text)
    followed = said(cluster, "submit", file, "--follow")
    assert "configmap/code: created" in followed.out
    assert "short: submitted (pliant logs short -f, pliant why short)" in followed.out
    assert "worker-1 │ trained" in followed.out
    assert followed.err.endswith("✔ short succeeded\n")
    assert "job `short` already exists; use --replace" in said(cluster, "submit", file, code=2).err
    again = said(cluster, "submit", file, "--replace", "--wait")
    assert "configmap/code: updated" in again.out

    limited = JOB.format(name="slow", command=STEADY, more="").replace("spec:\n", "spec:\n  timeLimit: 1\n", 1)
    late = said(cluster, "submit", cluster.write("slow.yaml", limited), "--wait", code=3)
    assert "✘ slow timed out: " in late.err
    wrong = cluster.write("wrong.yaml", limited.replace("replicas: 2", "replicsa: 2"))
    assert "did you mean `replicas`?" in said(cluster, "submit", wrong, code=2).err
    assert "namespace `nowhere` not found" in said(cluster, "submit", file, "-n", "nowhere", code=2).err


def test_what_cannot_be_placed_says_what_it_lacks(cluster: OrdinaryUser) -> None:
    submit(cluster, "big", more="resources: {requests: {cpu: 4000}}")
    wait_for(cluster, "big", "Unschedulable")
    why = " ".join(said(cluster, "why", "big").out.split())
    assert "worker-0, worker-1: Unschedulable" in why
    assert "requests 4000 cpu, but no node has more than" in why
    assert "reduce resources.requests in the template of worker" in why
    assert "pliant scale big 1" in why
    assert "no replica of big has written logs" in said(cluster, "logs", "big", code=1).err
    late = said(cluster, "scale", "big", "1", "--wait", "--timeout", "1s", code=1).err
    assert "not at size 1 after 1.0s (--timeout); its phase is Pending" in late


@pytest.mark.parametrize(
    ("words", "answer"),
    [
        (("get", "ber"), "job `ber` not found in namespace default; did you mean `bert`?"),
        (("why", "bert", "-n", "other"), "it exists in namespace default: use `-n default`"),
        (("get", "tfj/bert"), "unknown kind `tfj`; kinds: "),
        (("get", "aitj/"), "is not a job name"),
        (("scale", "bert", "2", "-g", "ps"), "bert has no group `ps`; groups: worker"),
        (("logs", "bert", "-g", "ps"), "bert has no group `ps`; groups: worker"),
        (("logs", "bert", "-f", "-p"), "--follow and --previous are mutually exclusive"),
        (("delete",), "specify the names of jobs, or --all"),
        (("get", "--cluster", "big"), "cluster `big` is not running; start it with `pliant up --name big`"),
        (("get", "--kubeconfig", "nowhere"), "kubeconfig nowhere: no such file"),
    ],
)
def test_a_mistake_is_answered_in_one_line(bert: OrdinaryUser, words: tuple[str, ...], answer: str) -> None:
    done = bert.call(*words)
    assert done.code in (1, 2)
    *_, last = done.err.splitlines()
    assert last.startswith("error: ")
    assert answer in last


def test_what_members_use_is_told(bert: OrdinaryUser) -> None:
    assert re.search(r"^bert +worker-1 +node-\d +(\d+m|–) +(\d+[KM]i|–)$", said(bert, "top").out, re.MULTILINE)


def test_a_reader_that_has_seen_enough_ends_it_quietly(bert: OrdinaryUser) -> None:
    with bert.start("logs", "bert", "-f") as following:
        assert following.stdout is not None
        following.stdout.readline()
        following.send_signal(signal.SIGINT)
        done = finished(following)
    assert done.code == 130
    assert "Traceback" not in done.err


# The processes wait for two heartbeats; test_heartbeat.py shows in the default choice what a heartbeat finds.
@pytest.mark.deep
def test_whoever_waits_for_a_cluster_that_is_gone_is_told() -> None:
    with running_cluster() as user:
        submit(user, "bert")
        with user.start("logs", "bert", "-f") as following, user.start("get", "-w") as watching:
            for process in (following, watching):
                assert process.stdout is not None
                process.stdout.readline()
            assert user.call("down").code == 0
            for process in (following, watching):
                done = finished(process)
                assert done.code == 1
                assert done.err.splitlines()[-1].startswith("error: the cluster does not respond any more: ")


def test_without_any_cluster_the_way_to_one_is_told(user: OrdinaryUser) -> None:
    done = said(user, "get", code=2)
    assert "start an embedded cluster with `pliant up`" in done.err


def test_a_terminal_gets_colours_and_lines_that_fit_unless_it_wants_none(bert: OrdinaryUser) -> None:
    for wish, has_colour in (("", True), ("1", False)):
        ours, theirs = os.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 60, 0, 0))
        coloured = dataclasses.replace(bert, more={"NO_COLOR": wish, "TERM": "xterm"})
        with coloured.start("get", "bert", stdout=theirs) as process:
            os.close(theirs)
            finished(process)
        shown = os.read(ours, 65536).decode()
        os.close(ours)
        assert ("\x1b[" in shown) is has_colour
        assert max(len(re.sub(r"\x1b\[[\d;]*m", "", line)) for line in shown.splitlines()) <= 60
