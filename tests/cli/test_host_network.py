"""Where user namespaces are forbidden, as they really are in these tests, pods share this machine's network."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.cli.ordinary_user import PATIENCE, ROOT, OrdinaryUser, finished

QUICKSTART = ROOT / "examples" / "quickstart"
_FORBID = (
    "echo 0 > /proc/sys/user/max_user_namespaces && "
    'exec setpriv --inh-caps=-all --ambient-caps=-all --bounding-set=-all -- "$@"'
)
_RESTRICTED = ("unshare", "--user", "--map-current-user", "--keep-caps", "sh", "-c", _FORBID, "sh")
_STUBBORN = "trap '' TERM; sleep 600 & (setsid sh -c 'setsid sleep 600 & echo up; sleep 600' &); wait"
NOTICE = (
    "pods use the host network and filesystem (docs/embedded.md, Without namespaces): this machine does not "
    "allow user namespaces (No space left on device): the limit of user namespaces is 0. Allow them with: sudo sysctl "
    "-w user.max_user_namespaces=15000"
)


class Restricted(OrdinaryUser):
    """Somebody for whom the kernel makes no user namespaces, nor for any process below."""

    def start(self, *words: str, before: Sequence[str] = _RESTRICTED, **options: Any) -> subprocess.Popen[str]:
        """Start `pliant` inside a user namespace that may have none in it."""
        return super().start(*words, before=before, **options)


@pytest.fixture
def restricted(user: OrdinaryUser) -> Restricted:
    return Restricted(user.home, user.mark, user.more)


def test_the_quickstart_runs_and_says_once_what_is_different(restricted: Restricted) -> None:
    ended = restricted.run("run", str(QUICKSTART / "job.yaml"))
    assert ended.code == 0, ended.err
    assert ended.err.splitlines()[0] == NOTICE
    assert ended.err.count("host network") == 1
    assert "joined 127." in ended.out
    assert "quickstart succeeded" in ended.err
    assert restricted.processes() == []
    assert restricted.leftovers() == []


# tests/node runs pods in this network in the default choice, the first test here a whole job.
@pytest.mark.deep
def test_a_worker_that_dies_comes_back(restricted: Restricted) -> None:
    ended = restricted.run("run", str(QUICKSTART / "restart.yaml"))
    assert ended.code == 0, ended.err
    assert "1 restart" in ended.err
    assert ended.out.count("joined 127.") == 2


@pytest.mark.deep  # as above
def test_the_elastic_quickstart_ends_well(restricted: Restricted) -> None:
    ended = restricted.run("run", str(QUICKSTART / "elastic.yaml"))
    assert ended.code == 0, ended.err
    assert "trained to loss 0.140365918357" in ended.out


@pytest.mark.deep  # as above
def test_two_servers_of_one_port_are_found_by_their_names(restricted: Restricted) -> None:
    ended = restricted.run("run", str(ROOT / "examples" / "aitrainingjob" / "parameter-servers.yaml"))
    assert ended.code == 0, ended.err
    assert "step 20 loss" in ended.out


# test_network_options.py shows what is chosen by the option, the first test here what comes of it.
@pytest.mark.deep
def test_it_may_be_chosen_and_is_then_no_news(user: OrdinaryUser) -> None:
    ended = user.run("run", "--network", "host", str(QUICKSTART / "job.yaml"))
    assert (ended.code, "host network" in ended.err) == (0, False)
    assert "joined 127." in ended.out


def test_whoever_insists_on_private_networks_is_told_what_forbids_them(restricted: Restricted) -> None:
    ended = restricted.run("run", "--network", "private", str(QUICKSTART / "job.yaml"))
    assert ended.code == 1
    assert ended.err.startswith("error: this machine does not allow user namespaces")
    assert "sudo sysctl -w user.max_user_namespaces=15000" in ended.err


def test_keeping_pods_in_is_refused(restricted: Restricted) -> None:
    ended = restricted.run("run", "--no-egress", str(QUICKSTART / "job.yaml"))
    assert ended.code == 1
    assert "--no-egress cannot be enforced when pods use the host network: remove the option" in ended.err


def test_the_doctor_and_the_status_tell(restricted: Restricted) -> None:
    told = " ".join(restricted.run("doctor").out.split())
    assert "namespaces pods use the host network and filesystem (docs/embedded.md, Without namespaces)" in told
    assert "allow them: sudo sysctl -w user.max_user_namespaces=15000" in told
    up = restricted.run("up")
    try:
        assert up.err.splitlines()[0] == NOTICE
        assert " network host: pods share the network of this machine " in " ".join(
            restricted.call("status").out.split()
        )
        (status,) = json.loads(restricted.call("status", "-o", "json").out)
        assert status["network"] == "host"
    finally:
        assert restricted.call("down").code == 0
    assert restricted.processes() == []


def test_nothing_is_left_of_a_run_that_is_killed(restricted: Restricted) -> None:
    # The mark is for the test to find them; what Pliant itself goes by is another one.
    mark = f"{{name: PLIANT_TEST_MARK, value: {restricted.mark}}}"
    job = Path(QUICKSTART / "job.yaml").read_text()
    job = job.replace("[python3, /app/train.py]", f"[sh, -c, {json.dumps(_STUBBORN)}]\n              env: [{mark}]")
    with restricted.start("run", restricted.write("job.yaml", job)) as process:
        try:
            assert process.stdout is not None
            up: set[str] = set()
            while len(up) < 2:  # each has four processes before it says so
                up.add(process.stdout.readline())
            assert up == {"worker-0 │ up\n", "worker-1 │ up\n"}
            assert len(restricted.processes()) >= 9
        finally:
            process.kill()
            finished(process)
    limit = time.monotonic() + PATIENCE
    while left := restricted.processes():
        assert time.monotonic() < limit, f"still there: {left}"
