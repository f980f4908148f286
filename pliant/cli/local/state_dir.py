"""Where the clusters that stay up keep their data, and which of them run."""

from __future__ import annotations

import fcntl
import json
import os
import re
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from pliant.errors import UnsupportedEnvironment, UserError

LOCK_RETRY_DELAY = 0.02
"""Seconds for which somebody who only looks may hold a lock."""
LOCK_ATTEMPTS = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningCluster:
    """A cluster that is up, or coming up: then it has no address yet."""

    pid: int
    url: str = ""
    kubeconfig: str = ""
    since: str = ""
    """When it came up, as ISO 8601."""
    network: str = ""
    """Whose network its pods have: private or host."""


class ClusterAlreadyRunning(UserError):
    """Another process holds this cluster."""


@dataclass(frozen=True, slots=True)
class ClusterStateDir:
    """The folder of one named cluster."""

    name: str
    path: Path

    @classmethod
    def for_cluster(cls, name: str, environment: Mapping[str, str]) -> ClusterStateDir:
        """The place for that name: below $PLIANT_HOME, or where this system keeps the data of programs."""
        if not re.fullmatch(r"[a-z0-9]([-a-z0-9]{0,40}[a-z0-9])?", name):
            raise UserError(f"`{name}` cannot name a cluster; use a-z, 0-9 and -")
        own, shared = environment.get("PLIANT_HOME"), environment.get("XDG_DATA_HOME")
        root = Path(own) if own else Path(shared or Path.home() / ".local" / "share") / "pliant"
        return cls(name, root.absolute() / name)

    @property
    def log_file(self) -> Path:
        """Where the cluster writes what it does."""
        return self.path / "pliant.log"

    @property
    def data_dir(self) -> Path:
        """What the cluster keeps."""
        return self.path / "data"

    def running_cluster(self) -> RunningCluster | None:
        """Who runs this cluster now; a file left by a dead one counts for nothing."""
        try:
            lock = os.open(self._lock_file, os.O_RDWR | os.O_CLOEXEC)
        except FileNotFoundError:
            return None
        try:
            # Shared, so that two who look at once do not take each other for the one who runs it.
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return _parse_running_cluster(os.pread(lock, 65536, 0))
        else:
            return None
        finally:
            os.close(lock)

    @contextmanager
    def lock(self) -> Iterator[ClusterLock]:
        """Keep everyone else from running this cluster."""
        try:
            self.path.mkdir(parents=True, exist_ok=True, mode=0o700)
            lock = os.open(self._lock_file, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise UnsupportedEnvironment(f"cannot write to {self.path}: {error.strerror}; set PLIANT_HOME") from None
        try:
            _lock_exclusively(lock)
            claim = ClusterLock(lock)
            claim.publish(RunningCluster(pid=os.getpid()))
            yield claim
        except BlockingIOError:
            raise ClusterAlreadyRunning(f"cluster `{self.name}` is being run by another process") from None
        finally:
            os.close(lock)

    @property
    def _lock_file(self) -> Path:
        return self.path / "lock"


@contextmanager
def lock_data_dir(data_dir: Path) -> Iterator[None]:
    """Keep other clusters, whatever their names, from using a data folder; made if it is not there."""
    try:
        data_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
        lock = os.open(data_dir / "lock", os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise UnsupportedEnvironment(f"cannot write to {data_dir}: {error.strerror}; name another folder") from None
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    except BlockingIOError:
        raise ClusterAlreadyRunning(f"{data_dir} is in use by another cluster; name another folder") from None
    finally:
        os.close(lock)


class ClusterLock:
    """The right to run one cluster; others read here who has it."""

    def __init__(self, lock_fd: int) -> None:
        self._lock_fd = lock_fd

    def publish(self, running: RunningCluster) -> None:
        """Let others know the process and, once there is one, the address."""
        text = json.dumps(asdict(running)).encode()
        os.pwrite(self._lock_fd, text, 0)
        os.ftruncate(self._lock_fd, len(text))


def _lock_exclusively(lock_fd: int) -> None:
    """Lock against everybody; somebody who merely looks is gone in a moment. Raises `BlockingIOError`."""
    for _ in range(LOCK_ATTEMPTS):
        try:
            return fcntl.flock(lock_fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            time.sleep(LOCK_RETRY_DELAY)
    return fcntl.flock(lock_fd, fcntl.LOCK_EX | fcntl.LOCK_NB)


def _parse_running_cluster(text: bytes) -> RunningCluster | None:
    try:
        return RunningCluster(**json.loads(text))
    except (ValueError, TypeError):
        return None
