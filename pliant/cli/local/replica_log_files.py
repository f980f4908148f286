"""Option --logs-dir: writes the complete log of each replica of a run to a file."""

from __future__ import annotations

import tempfile
from pathlib import Path

from pliant.errors import UnsupportedEnvironment


class ReplicaLogFiles:
    """The log files of a run in a directory: `worker-0.log`, and `worker-0.1.log` for its next attempt."""

    def __init__(self, directory: Path) -> None:
        """Create the directory; raise `UnsupportedEnvironment` if no file can be written in it."""
        self._directory = directory
        self._started: set[Path] = set()
        self.problem = ""
        """Why a part of the logs is missing; empty if they are complete."""
        try:
            directory.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=directory):
                pass
        except OSError as error:
            reason = "it is not a directory" if isinstance(error, FileExistsError) else error.strerror
            problem = f"--logs-dir: cannot write to {directory}: {reason}; choose another directory"
            raise UnsupportedEnvironment(problem) from None

    def append(self, replica: str, attempt: int, container: str, chunk: bytes) -> None:
        """Add a part of a log; `container` is empty if the replica has only one."""
        path = self._directory / (".".join(filter(None, (replica, str(attempt or ""), container))) + ".log")
        try:
            # The file of an earlier run is replaced. Files are not kept open: a job may have thousands of replicas.
            with path.open("ab" if path in self._started else "wb") as file:
                self._started.add(path)
                file.write(chunk)
        except OSError as error:
            self.problem = f"--logs-dir: cannot write to {path}: {error.strerror}; the logs there are incomplete"
