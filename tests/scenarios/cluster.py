"""Clusters and operators as processes of an ordinary user."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from tests.cli.ordinary_user import NOBODY, OrdinaryUser, finished
from tests.controlplane.cluster import API_SERVER, CONTROLLERS, ETCD, SCHEDULER
from tests.controlplane.fixtures import GIVEN, require
from tests.controlplane.installed import KUBECTL, operator_account
from tests.controlplane.populated import populated

IMPATIENT = (
    "--node-grace-period=3s",
    "--creating-duration-period=3s",
    "--creating-restart-period=5s",
    "--enable-creating-failed",
)
"""What makes an operator give up within seconds what it would otherwise bear for an hour.

Kubernetes tells times in whole seconds, so that of three only two are sure.
"""


@dataclass(frozen=True)
class Site:
    """A cluster that is up, and how to reach it."""

    kubeconfig: Path
    user: OrdinaryUser
    process: int | None = None
    """The cluster itself, if it runs on this machine."""
    account: Path | None = None
    """Lets the operator in, with the rights that `pliant install` gives it, where rights are checked at all."""

    @property
    def way_in(self) -> Path:
        """The kubeconfig for an operator: on a real cluster of our own it has its own account."""
        return self.account or self.kubeconfig

    def way_into(self, namespace: str) -> Path:
        """The kubeconfig for an operator that lives in one namespace, and has rights there alone."""
        if self.account is None:
            return self.kubeconfig
        path = self.user.home / f"account-{namespace}"
        return _handed_over(operator_account(self.kubeconfig, path, namespace, [namespace]))


@contextmanager
def an_ordinary_user() -> Iterator[OrdinaryUser]:
    """Somebody with a fresh home folder, outside of pytest's private ones."""
    home = Path(tempfile.mkdtemp(prefix="pliant-home-"))
    if os.getuid() == 0:
        os.chown(home, NOBODY, NOBODY)
    yield OrdinaryUser(home)
    shutil.rmtree(home)


@contextmanager
def real_cluster(user: OrdinaryUser) -> Iterator[Site]:
    """A real cluster that knows our kinds and has no operator: the given one, or one of our own."""
    if given := os.environ.get(GIVEN):
        yield elsewhere(Path(given), user)
        return
    require(ETCD, API_SERVER, CONTROLLERS, SCHEDULER, KUBECTL)
    with populated() as plane:
        account = operator_account(plane.kubeconfig, user.home / "account")
        yield replace(elsewhere(plane.kubeconfig, user), account=_handed_over(account))


def elsewhere(kubeconfig: Path, user: OrdinaryUser) -> Site:
    """A cluster that somebody else runs, made known to this user."""
    own = user.home / "kubeconfig"
    own.write_bytes(kubeconfig.read_bytes())
    own.chmod(0o600)
    return Site(_handed_over(own), user)


@contextmanager
def cluster(user: OrdinaryUser, *options: str) -> Iterator[Site]:
    """An embedded cluster in a process of its own; at its end nothing went wrong in it and nothing of it runs."""
    log = user.home / "cluster.log"
    with log.open("w") as output, user.start("up", "--foreground", *options, stderr=output) as process:
        try:
            assert process.stdout is not None
            kubeconfig = _kubeconfig_in(process.stdout.readline(), log)
            yield Site(kubeconfig, user, process.pid)
            process.send_signal(signal.SIGTERM)
            assert finished(process).code == 0, log.read_text()
        finally:
            process.kill()
    assert "Traceback" not in log.read_text(), log.read_text()
    assert user.processes() == []


@contextmanager
def without_operator(ground: str) -> Iterator[Site]:
    """A cluster of that kind, for operators that a test starts itself."""
    with (
        an_ordinary_user() as user,
        cluster(user, "--no-operator") if ground == "embedded" else real_cluster(user) as started,
    ):
        yield started


class OperatorProcess:
    """An operator that can be killed and started again."""

    def __init__(self, site: Site, name: str, options: Sequence[str] = IMPATIENT) -> None:
        self._site = site
        self._options = options
        self._log = site.user.home / f"{name}.log"
        self._process: subprocess.Popen[str] | None = None

    @property
    def pid(self) -> int:
        """The process as the system knows it."""
        assert self._process is not None
        return self._process.pid

    def start(self) -> None:
        """Start it; it is at work some time later."""
        assert self._process is None
        with self._log.open("a") as output:
            words = ("operator", "--kubeconfig", str(self._site.way_in), *self._options)
            self._process = self._site.user.start(*words, stdout=output, stderr=output)

    def kill(self) -> None:
        """End it without a chance to tidy up."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def check(self) -> None:
        """Nothing may ever have gone wrong in it, however often it was killed."""
        assert "Traceback" not in self._log.read_text(), self._log.read_text()


@contextmanager
def operator(site: Site, name: str = "operator", options: Sequence[str] = IMPATIENT) -> Iterator[OperatorProcess]:
    """An operator for a cluster that has none; it is not running yet."""
    process = OperatorProcess(site, name, options)
    try:
        yield process
    finally:
        process.kill()
    process.check()


def _handed_over(path: Path) -> Path:
    """A file that the ordinary user may read, whoever wrote it."""
    if os.getuid() == 0:
        os.chown(path, NOBODY, NOBODY)
    return path


def _kubeconfig_in(line: str, log: Path) -> Path:
    word, _, path = line.strip().partition("=")
    assert word == "export KUBECONFIG", log.read_text()
    return Path(*shlex.split(path))
