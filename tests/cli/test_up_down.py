"""`pliant up` and `pliant down`, and what others can do with a cluster that stays up."""

from __future__ import annotations

import fcntl
import os
import shlex
import signal
import socket
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from pliant.cli.local.state_dir import ClusterAlreadyRunning, ClusterStateDir, RunningCluster
from pliant.errors import UserError
from tests.cli.ordinary_user import ROOT, OrdinaryUser, finished
from tests.kubectl import find_kubectl

QUICKSTART = ROOT / "examples" / "quickstart"


@pytest.fixture(autouse=True)
def down(user: OrdinaryUser) -> Iterator[None]:
    """Whatever happens in a test, its cluster is stopped."""
    yield
    user.call("down", "--purge")
    assert user.processes() == []
    assert not (user.home / ".local" / "share" / "pliant" / "default").exists()


def kubeconfig_from(output: str) -> str:
    word, _, path = output.strip().partition("=")
    assert word == "export KUBECONFIG"
    [path] = shlex.split(path)
    return path


def kubectl(user: OrdinaryUser, kubeconfig: str, *words: str) -> str:
    program = find_kubectl()
    done = subprocess.run(
        [program, f"--cache-dir={user.home}/kube-cache", *words],
        env={**os.environ, "KUBECONFIG": kubeconfig},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.kubectl
def test_a_cluster_stays_up_is_found_again_and_keeps_its_objects(user: OrdinaryUser) -> None:
    up = user.run("up")
    assert up.code == 0, up.err
    kubeconfig = kubeconfig_from(up.out)
    assert Path(kubeconfig).stat().st_mode & 0o777 == 0o600
    kubectl(user, kubeconfig, "apply", "-f", str(QUICKSTART / "job.yaml"))
    kubectl(user, kubeconfig, "wait", "aitj/quickstart", "--for=jsonpath={.status.phase}=Succeed", "--timeout=30s")

    again = user.run("up")
    assert again.code == 0
    assert "is already running" in again.err
    assert again.out == up.out

    assert "stopped" in user.call("down").err
    assert user.processes() == []
    assert "is not running" in user.call("down").err

    resumed = user.run("up")
    assert "Succeed" in kubectl(user, kubeconfig_from(resumed.out), "get", "aitj", "quickstart")


def test_data_may_be_kept_elsewhere_and_a_cluster_that_is_up_says_what_it_does_not_change(user: OrdinaryUser) -> None:
    data = user.home / "elsewhere"
    assert user.run("up", "--data", str(data)).code == 0
    again = user.run("up", "--detach")
    assert "options are ignored" not in again.err
    assert "the other options are ignored" in user.run("up", "--nodes", "3").err
    purged = user.call("down", "--purge")
    assert f"the data in {data} is not deleted" in purged.err
    assert (data / "cluster.db").exists()


@pytest.mark.kubectl
def test_without_an_operator_nobody_works_on_jobs_until_one_comes(user: OrdinaryUser) -> None:
    kubeconfig = kubeconfig_from(user.run("up", "--no-operator").out)
    kubectl(user, kubeconfig, "apply", "-f", str(QUICKSTART / "job.yaml"))
    with user.start("operator", "--kubeconfig", kubeconfig, "--log-format", "json") as operator:
        kubectl(user, kubeconfig, "wait", "aitj/quickstart", "--for=jsonpath={.status.phase}=Succeed", "--timeout=30s")
        operator.send_signal(signal.SIGTERM)
        done = finished(operator)
    assert done.code == 0, done.err
    assert '"message": "operator stopped"' in done.err


def test_a_cluster_that_was_never_started_cannot_be_stopped_by_its_name(user: OrdinaryUser) -> None:
    assert "`pliant up` has not started any" in user.call("down", "--name", "bgi").err
    assert user.run("up", "--name", "big", "--no-operator").code == 0
    wrong = user.call("down", "--name", "bgi")
    assert wrong.code == 2
    assert "--name: there is no cluster `bgi`; the clusters of `pliant up` are: big" in wrong.err
    assert user.call("down", "--name", "big", "--purge").code == 0
    assert user.call("down").code == 0


def test_an_operator_without_a_cluster_says_so(user: OrdinaryUser) -> None:
    done = user.call("operator")
    assert done.code == 2
    assert "no cluster found" in done.err


def test_in_the_foreground_it_ends_with_a_signal(user: OrdinaryUser) -> None:
    with user.start("up", "--foreground") as process:
        assert process.stdout is not None
        kubeconfig_from(process.stdout.readline())
        process.send_signal(signal.SIGINT)
        assert finished(process).code == 0


def test_a_cluster_that_cannot_start_says_why(user: OrdinaryUser) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = user.run("up", "--port", str(port))
    assert done.code == 1
    assert f"port {port} of 127.0.0.1 is already in use; choose another port" in done.err
    assert "Traceback" not in done.err
    assert "pliant.log" in done.err


def test_the_place_of_a_cluster_follows_the_environment(tmp_path: Path) -> None:
    assert ClusterStateDir.for_cluster("a", {"PLIANT_HOME": "/x"}).path == Path("/x/a")
    assert ClusterStateDir.for_cluster("a", {"XDG_DATA_HOME": "/y"}).path == Path("/y/pliant/a")
    assert ClusterStateDir.for_cluster("a", {}).path == Path.home() / ".local" / "share" / "pliant" / "a"
    with pytest.raises(UserError, match="is not a valid cluster name"):
        ClusterStateDir.for_cluster("../a", {})


def test_two_who_look_at_once_do_not_see_each_other(tmp_path: Path) -> None:
    home = ClusterStateDir.for_cluster("a", {"PLIANT_HOME": str(tmp_path)})
    with home.lock() as claim:
        claim.publish(RunningCluster(pid=1, url="https://dead", kubeconfig="/dead"))
    with (home.path / "lock").open() as another:
        fcntl.flock(another, fcntl.LOCK_SH)
        assert home.running_cluster() is None
        threading.Timer(0.03, fcntl.flock, (another, fcntl.LOCK_UN)).start()
        with home.lock():
            pass  # whoever only looks keeps nobody from running it


def test_only_one_process_holds_a_cluster(tmp_path: Path) -> None:
    home = ClusterStateDir.for_cluster("a", {"PLIANT_HOME": str(tmp_path)})
    assert home.running_cluster() is None
    with home.lock() as claim:
        claim.publish(RunningCluster(pid=os.getpid(), url="https://here", kubeconfig="/there"))
        assert home.running_cluster() == RunningCluster(pid=os.getpid(), url="https://here", kubeconfig="/there")
        with pytest.raises(ClusterAlreadyRunning), home.lock():
            pass
    assert home.running_cluster() is None


def test_a_damaged_database_is_explained_and_repaired(user: OrdinaryUser) -> None:
    options = ("up", "--no-operator", "--network", "host")
    assert user.run(*options).code == 0
    assert user.run("down").code == 0
    database = user.home / ".local" / "share" / "pliant" / "default" / "data" / "cluster.db"
    intact = database.read_bytes()
    for content, problem in ((b"", "it is empty"), (b"x" * 50 + intact[50:], "its beginning is damaged")):
        database.write_bytes(content)
        refused = user.run(*options)
        assert refused.code == 1
        assert f"the database {database} is damaged: {problem}" in refused.err.replace("it is not a database, or ", "")
        assert "pliant up --repair" in refused.err
        assert "Traceback" not in refused.err
        assert database.read_bytes() == content
    repaired = user.run(*options, "--repair")
    assert repaired.code == 0, repaired.err
    assert "recovered" in repaired.err
    assert "customresourcedefinitions" in repaired.err
    [kept] = database.parent.glob("cluster.db.damaged-*Z")
    assert kept.read_bytes() == content
