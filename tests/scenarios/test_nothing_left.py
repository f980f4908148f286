"""However a run ends, and whenever: no process, mount, network, or file outside its folder is left."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import IO

import pytest
import yaml

from tests.cli.ordinary_user import NOBODY, OrdinaryUser, finished
from tests.depth import sample
from tests.scenarios.cluster import an_ordinary_user
from tests.scenarios.host import descendants, every_process, expect_gone, networks, processes_marked
from tests.scenarios.jobs import FOREVER, Manifest, group, job, per_rank
from tests.scenarios.scene import MARK

COMMON_PLACES = ("/tmp", "/var/tmp", "/dev/shm", "/run", "/run/lock")
ENDS: dict[str, tuple[str, int]] = {"success": ("echo at work; exit 0", 0), "failure": ("echo at work; exit 3", 1)}
MOMENTS = {"as its first process comes": 1, "as its third process comes": 3, "as its first pod comes": 4}


@dataclass(frozen=True)
class Traces:
    """What a run could leave on a machine besides processes."""

    mounts: str
    links: tuple[str, ...]
    files: tuple[str, ...]

    @classmethod
    def now(cls, user: OrdinaryUser) -> Traces:
        links = sorted(each.name for each in Path("/sys/class/net").iterdir())
        return cls(Path("/proc/self/mountinfo").read_text(), tuple(links), tuple(sorted(_files_of(user))))


def _files_of(user: OrdinaryUser) -> Iterator[str]:
    """Files of this user outside of the folder for runs; those of other programs and other tests do not count."""
    uid = NOBODY if os.getuid() == 0 else os.getuid()
    for place in map(Path, COMMON_PLACES):
        for path in place.glob("*pliant*"):
            if path.lstat().st_uid == uid and not path.name.startswith(("pliant-home-", "pliant-test-")):
                yield str(path)
    for path in user.home.rglob("*"):
        if not path.relative_to(user.home).parts[0].startswith("pliant-"):
            yield str(path)


@pytest.fixture
def user() -> Iterator[OrdinaryUser]:
    with an_ordinary_user() as somebody:
        yield somebody


def manifest(user: OrdinaryUser, script: str) -> str:
    """A file with a job whose processes carry the user's mark."""
    body: Manifest = job("demo", {"worker": group(script, 2), "ps": group(FOREVER, completePolicy="None")})
    for each in body["spec"]["replicaSpecs"].values():
        for container in each["template"]["spec"]["containers"]:
            container["env"] = [{"name": MARK, "value": user.mark}]
    return user.write("job.yaml", yaml.safe_dump(body))


@pytest.mark.parametrize(("script", "code"), sample(ENDS.values(), 1, "ends by themselves"))
def test_nothing_is_left_after(user: OrdinaryUser, script: str, code: int) -> None:
    path = manifest(user, script)
    before = Traces.now(user)
    assert user.run("run", path).code == code
    assert processes_marked(user.mark) == {}
    assert Traces.now(user) == before
    assert user.leftovers() == []


@pytest.mark.parametrize(
    ("number", "stubborn"),
    sample(product((signal.SIGINT, signal.SIGTERM, signal.SIGKILL), (False, True)), 2, "ends of runs"),
)
def test_nothing_is_left_of_a_run_ended_by(user: OrdinaryUser, number: signal.Signals, stubborn: bool) -> None:
    trap = "trap '' TERM INT; " if stubborn else ""
    path = manifest(user, per_rank(f"{trap}echo at work; while :; do sleep 0.1; done", FOREVER))
    before = Traces.now(user)
    with user.start("run", path) as process:
        assert process.stdout is not None
        wait_for(process.stdout, "at work")
        family = descendants(process.pid)
        owned = networks(family) - networks([os.getpid()])
        assert len(processes_marked(user.mark)) >= 4
        assert len(owned) >= 3
        # Whoever lives in one of its networks now; later the kernel may give their numbers away again.
        residents = [each for each in every_process() if networks([each]) & owned]
        process.send_signal(number)
        expect_gone([process.pid, *family, *residents])
        code = finished(process).code
    assert code == (-number if number is signal.SIGKILL else 128 + number)
    assert processes_marked(user.mark) == {}
    assert Traces.now(user) == before
    if number is not signal.SIGKILL:
        assert user.leftovers() == []


@pytest.mark.parametrize(
    ("count", "number"), sample(product(MOMENTS.values(), (signal.SIGINT, signal.SIGKILL)), 1, "early ends of runs")
)
def test_nothing_is_left_of_a_run_ended_early(user: OrdinaryUser, count: int, number: signal.Signals) -> None:
    path = manifest(user, FOREVER)
    before = Traces.now(user)
    with user.start("run", path) as process:
        family = wait_for_descendants(process, count)
        process.send_signal(number)
        expect_gone([process.pid, *family])
        ended = finished(process)
    assert "Traceback" not in ended.err
    assert processes_marked(user.mark) == {}
    assert Traces.now(user) == before
    if number is signal.SIGINT:
        assert ended.code == 130
        assert user.leftovers() == []


@pytest.mark.deep
def test_what_a_killed_run_left_in_its_folder_goes_with_the_next_run(user: OrdinaryUser) -> None:
    with user.start("run", manifest(user, f"echo at work; {FOREVER}")) as process:
        assert process.stdout is not None
        wait_for(process.stdout, "at work")
        process.kill()
    assert user.leftovers() != []
    assert user.run("run", manifest(user, "exit 0")).code == 0
    assert user.leftovers() == []


def wait_for(stream: IO[str], words: str) -> None:
    for line in stream:
        if words in line:
            return
    pytest.fail(f"never said {words!r}")


def wait_for_descendants(process: subprocess.Popen[str], count: int) -> list[int]:
    """Those below a process, as soon as there are so many."""
    for _ in range(100_000):
        family = descendants(process.pid)
        if len(family) >= count:
            return family
    raise AssertionError(f"{count} processes never appeared")
