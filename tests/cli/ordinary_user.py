"""Runs `pliant` in a process of its own, as a user without rights, whoever runs the tests."""

from __future__ import annotations

import gc
import io
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import uuid
import warnings
from collections.abc import Iterator, Sequence
from contextlib import chdir, contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import pytest

from pliant.cli.main import main

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer as Buffer

ROOT = Path(__file__).parents[2]
NOBODY = 65534
PATIENCE = 60.0
"""Seconds after which a command that should have ended is taken to hang."""
_NEEDED = "import aiohttp, cryptography.x509, msgspec, rich, yaml"


@dataclass(frozen=True)
class Ended:
    """What a command wrote, and its exit code."""

    code: int
    out: str
    err: str


@dataclass(frozen=True)
class OrdinaryUser:
    """Somebody with a home folder and nothing else."""

    home: Path
    mark: str = field(default_factory=lambda: uuid.uuid4().hex)
    """Found in the environment of every process this user started, directly or not."""

    more: dict[str, str] = field(default_factory=dict)
    """Variables beside those that everybody has."""

    def start(self, *words: str, before: Sequence[str] = (), **options: Any) -> subprocess.Popen[str]:
        """Start `pliant` with these arguments, perhaps by another program that becomes it."""
        options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options}
        command = [*before, interpreter(), "-m", "pliant", *words]
        return subprocess.Popen(command, cwd=self.home, env=self.environment, text=True, **identity(), **options)

    def shell(self, script: str) -> subprocess.Popen[str]:
        """Start a shell script in which $PLIANT is our program; both of its streams are one."""
        env = {**self.environment, "PLIANT": f"{interpreter()} -m pliant"}
        streams: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
        return subprocess.Popen(["sh", "-c", script], cwd=self.home, env=env, text=True, **identity(), **streams)

    def run(self, *words: str, **options: Any) -> Ended:
        """Run `pliant` with these arguments to its end."""
        with self.start(*words, **options) as process:
            return finished(process)

    def call(self, *words: str, until: str | None = None) -> Ended:
        """Run `pliant` with these arguments in this process: the same answer in a tenth of the time.

        With `until` the reader of the standard output leaves when a line contains these words, as `grep -m1` does.
        """
        out = io.TextIOWrapper(io.BytesIO() if until is None else _Reader(until), "utf-8", write_through=True)
        err = io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True)
        with (
            _as_in_a_process(),
            patch.dict(os.environ, self.environment, clear=True),
            patch.object(tempfile, "tempdir", None),  # found anew from TMPDIR
            chdir(self.home),
            redirect_stdout(out),
            redirect_stderr(err),
        ):
            try:
                main(words)
            except SystemExit as end:
                code = int(end.code or 0)
            if sys.stdout is not out:  # replaced because the reader left
                sys.stdout.close()
        texts = [each.detach().getvalue().decode() for each in (out, err)]
        return Ended(code, *texts)

    def write(self, name: str, text: str) -> str:
        """A file in the home folder; its path."""
        path = self.home / name
        path.write_text(text)
        return str(path)

    @property
    def environment(self) -> dict[str, str]:
        """A bare environment: no display, no runtime folder, a temporary folder of its own."""
        packages = [str(ROOT), *(path for path in sys.path if path.endswith("site-packages"))]
        return {
            "HOME": str(self.home),
            "TMPDIR": str(self.home),
            "PATH": "/usr/local/bin:/usr/bin:/bin",
            "LANG": "C.UTF-8",
            "PYTHONPATH": os.pathsep.join(packages),
            "PLIANT_TEST_MARK": self.mark,
            **self.more,
        }

    def processes(self) -> list[str]:
        """Command lines of all processes that this user started and that still run."""
        mine = []
        for folder in Path("/proc").iterdir():
            try:
                if folder.name.isdigit() and self.mark.encode() in (folder / "environ").read_bytes():
                    mine.append((folder / "cmdline").read_bytes().replace(b"\0", b" ").decode())
            except OSError:
                continue  # it has ended, or is somebody else's
        return mine

    def leftovers(self) -> list[str]:
        """Files of clusters that are still in the temporary folder."""
        return [str(path) for path in self.home.glob("pliant-*/*") if path.name != "lock"]


@contextmanager
def _as_in_a_process() -> Iterator[None]:
    """Free what the end of a process frees, such as connections that were about to open, without a warning."""
    gc.freeze()  # what is there already need not be looked at
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ResourceWarning)  # as Python does unless told otherwise
            yield
            gc.collect()
    finally:
        gc.unfreeze()


class _Reader(io.BytesIO):
    """Breaks the pipe after a line that contains the words it waits for."""

    def __init__(self, until: str) -> None:
        super().__init__()
        self._until = until.encode()

    def write(self, data: Buffer) -> int:
        size = super().write(data)
        if any(self._until in line for line in self.getvalue().splitlines(keepends=True) if line.endswith(b"\n")):
            raise BrokenPipeError
        return size


@contextmanager
def new_user() -> Iterator[OrdinaryUser]:
    """Create a user with an empty home folder, outside of the private folders of pytest."""
    home = Path(tempfile.mkdtemp(prefix="pliant-home-"))
    if os.getuid() == 0:
        os.chown(home, NOBODY, NOBODY)
    try:
        yield OrdinaryUser(home)
    finally:
        shutil.rmtree(home)


@contextmanager
def running_cluster(*options: str) -> Iterator[OrdinaryUser]:
    """Start a cluster of a new user with `pliant up`; purge it afterwards and check that no process is left."""
    with new_user() as user:
        started = user.run("up", *options)
        try:
            assert started.code == 0, started.err
            yield user
        finally:
            stopped = user.call("down", "--purge")
        assert stopped.code == 0, stopped.err
        assert user.processes() == []


def finished(process: subprocess.Popen[str]) -> Ended:
    """Wait for a command to end; one that hangs is killed and fails the test."""
    try:
        out, err = process.communicate(timeout=PATIENCE)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGKILL)
        out, err = process.communicate()
        pytest.fail(f"{process.args!r} hangs\n{out}\n{err}")
    return Ended(process.returncode, out or "", err or "")


@cache
def interpreter() -> str:
    """A Python that an ordinary user may run and that has what Pliant needs."""
    user = OrdinaryUser(Path("/"))
    for python in (sys.executable, "/usr/bin/python3"):
        try:
            tried = subprocess.run(
                [python, "-c", _NEEDED], env=user.environment, check=False, capture_output=True, **identity()
            )
        except PermissionError:
            continue
        if tried.returncode == 0:
            return python
    pytest.fail("no Python here that an ordinary user could run: put one outside of private folders on the PATH")


def identity() -> dict[str, Any]:
    """Who a process is started as: nobody in particular, where we may choose."""
    return {"user": NOBODY, "group": NOBODY, "extra_groups": []} if os.getuid() == 0 else {}
