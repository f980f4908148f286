"""`pliant` where homes, disks, streams and character sets are not what programs wish for."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.cli.ordinary_user import OrdinaryUser, finished
from tests.cli.test_run import job
from tests.depth import sample


@pytest.fixture(autouse=True)
def nothing_is_left(user: OrdinaryUser) -> Iterator[None]:
    """Whatever happens in a test, no process outlives the run."""
    yield
    assert user.processes() == []


def shell(user: OrdinaryUser, script: str) -> tuple[int, str]:
    """How a shell ends that runs a script in which $PLIANT is our program, and what was said."""
    with user.shell(script) as process:
        done = finished(process)
    return done.code, done.out


RUNS = [
    ("$PLIANT run job.yaml >/dev/full", "cannot write to standard output: No space left"),
    ("$PLIANT run job.yaml 2>/dev/full", "worker-0 │ done"),
    ("$PLIANT run job.yaml <&-", "✔ demo succeeded"),
    ("$PLIANT run job.yaml >&-", "✔ demo succeeded"),
    ("$PLIANT run job.yaml <&- >&- 2>&-; echo code $?", "code 0"),
    ("env -u HOME -u TMPDIR $PLIANT run job.yaml", "✔ demo succeeded"),
    ("HOME=/nonexistent $PLIANT run job.yaml", "✔ demo succeeded"),
    ("LC_ALL=C $PLIANT run job.yaml", "worker-0 │ done"),
    ("PYTHONIOENCODING=ascii $PLIANT run job.yaml", "worker-0 ? done"),
    ("PYTHONOPTIMIZE=2 $PLIANT run job.yaml", "✔ demo succeeded"),
]


@pytest.mark.parametrize(("script", "words"), sample(RUNS, 2, "hostile runs"))
def test_a_run_succeeds_all_the_same(user: OrdinaryUser, script: str, words: str) -> None:
    user.write("job.yaml", job("echo done"))
    code, said = shell(user, script)
    assert code == 0, said
    assert words in said
    assert "Traceback" not in said


REFUSED = [
    ("$PLIANT crds --kinds AITrainingJob >/dev/full", "error: No space left on device; free disk space"),
    ("$PLIANT get --help >/dev/full", "error: No space left on device; free disk space"),
    ("HOME=/nonexistent $PLIANT up", "cannot write to /nonexistent/.local/share/pliant/default"),
    ("mkdir ro; chmod 500 ro; HOME=$PWD/ro $PLIANT up", "Permission denied; set PLIANT_HOME"),
    ("env -u HOME $PLIANT get", "no cluster found"),
    ("mkdir a; cd a; rmdir ../a; $PLIANT up", "the current directory was deleted"),
    ("ulimit -f 1; $PLIANT run job.yaml", "File too large; allow larger files: ulimit -f unlimited"),
]


@pytest.mark.parametrize(("script", "words"), sample(REFUSED, 3, "hostile places"))
def test_what_cannot_be_done_is_said_in_a_line(user: OrdinaryUser, script: str, words: str) -> None:
    user.write("job.yaml", job("echo done"))
    code, said = shell(user, script)
    assert code in (1, 2)
    assert words in said
    assert "Traceback" not in said
    assert len(said.splitlines()) <= 2


def test_paths_may_have_spaces_and_letters_of_any_alphabet(user: OrdinaryUser) -> None:
    folder = user.home / "päth with späces 訓練"
    folder.mkdir()
    folder.chmod(0o777)
    (folder / "train.py").write_text("print('trained')")
    file = folder / "jöb.yaml"
    file.write_text(job("python3 train.py; pwd"))
    done = replace(user, more={"TMPDIR": str(folder)}).run("run", str(file))
    assert done.code == 0, done.err
    assert "worker-0 │ trained" in done.out
    assert f"worker-0 │ {folder}" in done.out


def test_a_path_that_is_not_text_is_refused(user: OrdinaryUser) -> None:
    folder = Path(os.fsdecode(os.fsencode(user.home) + b"/caf\xe9"))
    folder.mkdir()
    (folder / "job.yaml").write_text(job("true"))
    code, said = shell(user, "cd caf*; $PLIANT run job.yaml")
    assert code == 2
    assert "is not valid UTF-8" in said
    assert "Traceback" not in said


@pytest.mark.parametrize(
    ("size", "words"),
    sample(
        [("8k", "error: No space left on device; free disk space"), ("256k", "is full: logs are truncated")], 1, "disks"
    ),
)
def test_a_disk_without_room_is_told_and_costs_only_the_log(user: OrdinaryUser, size: str, words: str) -> None:
    user.write("job.yaml", job("seq 200000; echo the end"))
    mount = f"mkdir small && mount -t tmpfs -o size={size} none small"
    inside = f"{mount} && TMPDIR=$PWD/small $PLIANT run job.yaml | tail -1"
    _, said = shell(user, f"unshare --user --map-root-user --mount sh -c '{inside}'")
    assert words in said
    assert "Traceback" not in said
