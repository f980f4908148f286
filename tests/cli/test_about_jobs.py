"""The commands about jobs, against a cluster that `pliant up` runs for an ordinary user."""

from __future__ import annotations

import dataclasses
import fcntl
import json
import os
import re
import shutil
import signal
import struct
import tempfile
import termios
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.cli.asking import DOOMED, JOB, STEADY, said, submit, wait_for
from tests.cli.ordinary_user import NOBODY, ROOT, OrdinaryUser, finished


@pytest.fixture
def cluster(user: OrdinaryUser) -> Iterator[OrdinaryUser]:
    """Somebody whose cluster is up; it is gone afterwards, with all it ran."""
    assert user.run("up", "--nodes", "2").code == 0
    yield user
    user.run("down", "--purge")
    assert user.processes() == []


def test_a_job_is_listed_described_scaled_rested_and_deleted(cluster: OrdinaryUser) -> None:
    submit(cluster, "bert")
    scaled = said(cluster, "scale", "bert", "9", "--wait")
    assert scaled.out.splitlines() == [
        "bert: worker 2 → 4 (bounds 1–4); you asked for 9",
        "bert: worker has 4 members up",
    ]
    assert "cluster: `default` of `pliant up`, https://127.0.0.1:" in scaled.err

    listed = said(cluster, "get").out
    assert re.search(r"^NAME +PHASE +READY +RESTARTS +SIZE +AGE +MESSAGE\n", listed)
    assert re.search(r"^bert +Running +4/4 +0 +worker 4 \[1–4\] +\d+s +every member runs$", listed, re.MULTILINE)
    assert "\x1b" not in listed
    assert said(cluster, "get", "-A", "-o", "name").out == "aitrainingjob.elasticdeeplearning.ai/bert\n"
    assert json.loads(said(cluster, "get", "aitj/bert", "-o", "json").out)["metadata"]["name"] == "bert"
    assert yaml.safe_load(said(cluster, "get", "-o", "yaml").out)["items"][0]["kind"] == "AITrainingJob"
    assert "STARTED" in said(cluster, "get", "-o", "wide").out

    page = said(cluster, "describe", "bert").out
    assert re.search(r"worker +4 +1–4 +replicas 2, scale 9 +OnFailure, scope Pod +0 of 1", page)
    assert re.search(r"worker-3 +bert-worker-3 +node-\d +0 +Running", page)
    assert "resizing worker from 2 to 4 (scaled)" in page

    assert said(cluster, "logs", "bert", "--tail", "1").out.splitlines() == [
        f"worker-{rank} │ hello from {rank}" for rank in range(4)
    ]
    assert said(cluster, "logs", "bert", "--rank", "2", "--no-prefix").out == "hello from 2\n"

    assert said(cluster, "suspend", "bert", "--wait").out.splitlines()[-1] == "bert: Suspended, suspended"
    assert "It was asked to rest (spec.suspend)" in (why := said(cluster, "why", "bert").out)
    assert "worker has size 4: scaling asked for 9" in why
    assert "pliant resume bert" in why
    assert "is suspended already" in said(cluster, "suspend", "bert").out
    assert said(cluster, "resume", "bert", "--wait").out.splitlines()[-1] == "bert: Running, every member runs"

    assert said(cluster, "delete", "bert", "--wait").out == "bert: deleted\nnothing of them is left\n"
    assert "no jobs in this namespace" in said(cluster, "get").err


def test_a_failure_is_explained_with_its_first_cause_and_what_to_try(cluster: OrdinaryUser) -> None:
    submit(cluster, "doomed", DOOMED)
    with cluster.start("logs", "doomed", "--follow") as following:
        followed = finished(following)
    assert followed.code == 0, followed.err
    assert "worker-1 │ attempt 1" in followed.out  # the attempt after the restart, too

    why = said(cluster, "why", "doomed").out
    assert why.startswith("doomed failed ")
    assert "First cause: worker-1 exited with code 3 (pod doomed-worker-1 on node-" in " ".join(why.split())
    assert "│ no data" in why
    assert "worker has spent 1 of 1 restarts (app 1), none left." in why
    newest = why.split("Newest first\n")[1].splitlines()
    assert "Failed" in newest[0]
    assert "job accepted" in next(line for line in newest if "Pending" in line)
    assert "raise restartLimit of worker" in why

    data = json.loads(said(cluster, "why", "doomed", "-o", "json").out)
    assert data["phase"] == "Failed"
    assert data["why"][0]["lastLines"][-1] == "no data"
    told = said(cluster, "events", "doomed").out
    assert re.search(r"Warning +Failed +AITrainingJob doomed +worker-1 exited with code 3", told)
    for words in (("scale", "doomed", "3"), ("suspend", "doomed"), ("resume", "doomed")):
        assert "has ended (Failed)" in said(cluster, *words, code=2).err


def test_files_are_submitted_followed_and_replaced(cluster: OrdinaryUser) -> None:
    quickstart = str(ROOT / "examples" / "quickstart" / "restart.yaml")
    followed = said(cluster, "submit", quickstart, "--follow")
    assert "configmap/restart-code: created" in followed.out
    assert "restart: submitted (pliant logs restart -f, pliant why restart)" in followed.out
    assert "worker-1 │ step 60: kill -9 myself" in followed.out
    assert "worker-0 │ step 200 loss 0.1347" in followed.out
    assert followed.err.endswith("✔ restart succeeded\n")
    assert "a job `restart` is there already; say --replace" in said(cluster, "submit", quickstart, code=2).err
    again = said(cluster, "submit", quickstart, "--replace", "--wait")
    assert "configmap/restart-code: brought up to date" in again.out

    limited = JOB.format(name="slow", command=STEADY, more="").replace("spec:\n", "spec:\n  timeLimit: 1\n", 1)
    late = said(cluster, "submit", cluster.write("slow.yaml", limited), "--wait", code=3)
    assert "✘ slow ran out of the time it was given: " in late.err
    wrong = cluster.write("wrong.yaml", limited.replace("replicas: 2", "replicsa: 2"))
    assert "did you mean `replicas`?" in said(cluster, "submit", wrong, code=2).err
    assert "no namespace `nowhere`" in said(cluster, "submit", quickstart, "-n", "nowhere", code=2).err


def test_what_cannot_be_placed_says_what_it_lacks(cluster: OrdinaryUser) -> None:
    submit(cluster, "big", more="resources: {requests: {cpu: 4000}}")
    wait_for(cluster, "Unschedulable")
    why = " ".join(said(cluster, "why", "big").out.split())
    assert "worker-0, worker-1 cannot start: Unschedulable" in why
    assert "wants 4000 cpu, and no node has more than" in why
    assert "ask for less in the template of worker" in why
    assert "pliant scale big 1" in why
    assert "no member of big has written anything" in said(cluster, "logs", "big", code=1).err
    late = said(cluster, "scale", "big", "1", "--wait", "--timeout", "1s", code=1).err
    assert "not at size 1 after 1.0s (--timeout); it stands at Pending" in late


@pytest.mark.parametrize(
    ("words", "answer"),
    [
        (("get", "ber"), "no job `ber` in namespace default; did you mean `bert`?"),
        (("why", "bert", "-n", "other"), "there is one in namespace default: `-n default`"),
        (("get", "tfj/bert"), "no kind `tfj`; there are: "),
        (("get", "aitj/"), "names no job"),
        (("scale", "bert", "2", "-g", "ps"), "bert has no group `ps`; there are: worker"),
        (("logs", "bert", "-g", "ps"), "bert has no group `ps`; there are: worker"),
        (("logs", "bert", "-f", "-p"), "--follow and --previous exclude each other"),
        (("delete",), "name the jobs to delete, or say --all"),
        (("get", "--cluster", "big"), "cluster `big` is not up; start it with `pliant up --name big`"),
        (("get", "--kubeconfig", "nowhere"), "kubeconfig nowhere: no such file"),
    ],
)
def test_a_mistake_is_answered_in_one_line(shared: OrdinaryUser, words: tuple[str, ...], answer: str) -> None:
    done = shared.run(*words)
    assert done.code in (1, 2)
    *_, last = done.err.splitlines()
    assert last.startswith("error: ")
    assert answer in last


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OrdinaryUser]:
    """A cluster with one job, for tests that change nothing."""
    home = Path(tempfile.mkdtemp(prefix="pliant-home-"))
    if os.getuid() == 0:
        os.chown(home, NOBODY, NOBODY)
    somebody = OrdinaryUser(home)
    assert somebody.run("up").code == 0
    submit(somebody, "bert")
    yield somebody
    somebody.run("down", "--purge")
    shutil.rmtree(home)


def test_what_members_use_is_told(shared: OrdinaryUser) -> None:
    wait_for(shared, "every member runs")
    assert re.search(r"^bert +worker-1 +node-0 +(\d+m|–) +(\d+[KM]i|–)$", said(shared, "top").out, re.MULTILINE)


def test_a_reader_that_has_seen_enough_ends_it_quietly(shared: OrdinaryUser) -> None:
    with shared.start("logs", "bert", "-f") as following:
        assert following.stdout is not None
        following.stdout.readline()
        following.send_signal(signal.SIGINT)
        done = finished(following)
    assert done.code == 130
    assert "Traceback" not in done.err


def test_whoever_waits_for_a_cluster_that_is_gone_is_told(cluster: OrdinaryUser) -> None:
    submit(cluster, "bert")
    with cluster.start("logs", "bert", "-f") as following, cluster.start("get", "-w") as watching:
        for process in (following, watching):
            assert process.stdout is not None
            process.stdout.readline()
        assert cluster.run("down").code == 0
        for process in (following, watching):
            done = finished(process)
            assert done.code == 1
            assert done.err.splitlines()[-1].startswith("error: the cluster does not answer any more: ")


def test_without_any_cluster_the_way_to_one_is_told(user: OrdinaryUser) -> None:
    done = said(user, "get", code=2)
    assert "start a cluster of your own with `pliant up`" in done.err


def test_a_terminal_gets_colours_and_lines_that_fit_unless_it_wants_none(shared: OrdinaryUser) -> None:
    for wish, has_colour in (("", True), ("1", False)):
        ours, theirs = os.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 60, 0, 0))
        coloured = dataclasses.replace(shared, more={"NO_COLOR": wish, "TERM": "xterm"})
        with coloured.start("get", stdout=theirs) as process:
            os.close(theirs)
            finished(process)
        shown = os.read(ours, 65536).decode()
        os.close(ours)
        assert ("\x1b[" in shown) is has_colour
        assert max(len(re.sub(r"\x1b\[[\d;]*m", "", line)) for line in shown.splitlines()) <= 60
