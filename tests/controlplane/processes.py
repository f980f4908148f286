"""Processes that end with this one: started and stopped through a supervisor."""

from __future__ import annotations

import fcntl
import json
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from tests.controlplane import supervisor

PREFIX = "pliant-kube-"


class Processes:
    """The owner's side of a supervisor."""

    def __init__(self, folder: Path, process: subprocess.Popen[str]) -> None:
        self.folder = folder
        self._process = process
        self._speaking = threading.Lock()

    @property
    def supervisor(self) -> int:
        """The process that owns the others."""
        return self._process.pid

    def start(self, name: str, argv: Sequence[str | Path]) -> int:
        """Start a program; its process id. What it writes is in `log`."""
        return int(self._request(start=name, argv=[str(word) for word in argv], log=str(self.log(name)))["pid"])

    def stop(self, name: str, number: int = signal.SIGKILL) -> int:
        """End a program and wait for that; how it ended."""
        return int(self._request(stop=name, signal=int(number))["code"])

    def ended(self, name: str) -> bool:
        """Whether a program ended by itself."""
        return self._request(code=name)["code"] is not None

    def log(self, name: str) -> Path:
        """Where a program writes."""
        return self.folder / f"{name}.log"

    def tail(self, name: str) -> str:
        """The last words of a program."""
        return "\n".join(self.log(name).read_text(errors="replace").splitlines()[-20:])

    def _request(self, **request: Any) -> dict[str, Any]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with self._speaking:
            self._process.stdin.write(json.dumps(request) + "\n")
            self._process.stdin.flush()
            answer = self._process.stdout.readline()
        told: dict[str, Any] = json.loads(answer) if answer else {"error": "the supervisor is gone"}
        if "error" in told:
            raise RuntimeError(told["error"])
        return told


@contextmanager
def supervised() -> Iterator[Processes]:
    """A folder and processes that are both gone afterwards, or when this process is."""
    _remove_stale_folders()
    folder = Path(tempfile.mkdtemp(prefix=PREFIX))
    command = [sys.executable, "-I", supervisor.__file__, str(folder)]
    pipe = subprocess.PIPE
    # In a session of its own: Ctrl-C is for the owner, and what that does is its decision.
    with subprocess.Popen(command, cwd=folder, stdin=pipe, stdout=pipe, text=True, start_new_session=True) as process:
        assert process.stdin is not None
        try:
            yield Processes(folder, process)
        finally:
            with suppress(BrokenPipeError):
                process.stdin.close()
            process.wait()
            shutil.rmtree(folder, ignore_errors=True)


def _remove_stale_folders() -> None:
    """Remove folders whose owner and supervisor were both killed."""
    for folder in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        with suppress(OSError), (folder / supervisor.LOCK).open("r+") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(folder, ignore_errors=True)
