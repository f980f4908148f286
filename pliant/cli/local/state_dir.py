"""State directories of the clusters of `pliant up`: data, log file, and a lock that names the running process."""

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

LOCK_RETRY_DELAY = 0.02  # seconds; readers hold the lock only briefly
LOCK_ATTEMPTS = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningCluster:
    """A cluster that is running, or starting and without URL yet."""

    pid: int
    url: str = ""
    kubeconfig: str = ""
    since: str = ""  # start time in ISO 8601
    network: str = ""  # private or host
    authorization: str = ""  # RBAC or AlwaysAllow
    is_stopping: bool = False  # whether it only waits for its pods to terminate


class ClusterAlreadyRunning(UserError):
    """Another process runs this cluster."""


@dataclass(frozen=True, slots=True)
class ClusterStateDir:
    """The state directory of a named cluster."""

    name: str
    path: Path

    @classmethod
    def for_cluster(cls, name: str, environment: Mapping[str, str]) -> ClusterStateDir:
        """Return the directory of a cluster in $PLIANT_HOME, or in the XDG data directory."""
        if not re.fullmatch(r"[a-z0-9]([-a-z0-9]{0,40}[a-z0-9])?", name):
            raise UserError(f"`{name}` is not a valid cluster name; use a-z, 0-9 and `-`")
        pliant_home, data_home = environment.get("PLIANT_HOME"), environment.get("XDG_DATA_HOME")
        root = Path(pliant_home) if pliant_home else Path(data_home or Path.home() / ".local" / "share") / "pliant"
        return cls(name, root.absolute() / name)

    @classmethod
    def list_all(cls, environment: Mapping[str, str]) -> list[ClusterStateDir]:
        """Return the directories of all clusters of this user, running or not, by name."""
        root = cls.for_cluster("default", environment).path.parent
        names = sorted(lock.parent.name for lock in root.glob("*/lock")) if root.is_dir() else []
        return [cls(name, root / name) for name in names]

    @property
    def log_file(self) -> Path:
        return self.path / "pliant.log"

    @property
    def data_dir(self) -> Path:
        return self.path / "data"

    def running_cluster(self) -> RunningCluster | None:
        """Return the running cluster; None if the lock is free."""
        try:
            lock = os.open(self._lock_file, os.O_RDWR | os.O_CLOEXEC)
        except FileNotFoundError:
            return None
        try:
            # A shared lock, so that two concurrent readers do not block each other.
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return _parse_running_cluster(os.pread(lock, 65536, 0))
        else:
            return None
        finally:
            os.close(lock)

    @contextmanager
    def lock(self) -> Iterator[ClusterLock]:
        """Prevent other processes from running this cluster."""
        try:
            self.path.mkdir(parents=True, exist_ok=True, mode=0o700)
            lock_fd = os.open(self._lock_file, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise UnsupportedEnvironment(f"cannot write to {self.path}: {error.strerror}; set PLIANT_HOME") from None
        try:
            _lock_exclusively(lock_fd)
            lock = ClusterLock(lock_fd)
            lock.publish(RunningCluster(pid=os.getpid()))
            yield lock
        except BlockingIOError:
            raise ClusterAlreadyRunning(f"cluster `{self.name}` is run by another process") from None
        finally:
            os.close(lock_fd)

    @property
    def _lock_file(self) -> Path:
        return self.path / "lock"


@contextmanager
def lock_data_dir(data_dir: Path) -> Iterator[None]:
    """Create a data directory and prevent other clusters from using it."""
    try:
        data_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
        lock = os.open(data_dir / "lock", os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise UnsupportedEnvironment(f"--data: cannot write to {data_dir}: {error.strerror}") from None
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    except BlockingIOError:
        raise ClusterAlreadyRunning(f"--data: another cluster uses {data_dir}; choose another") from None
    finally:
        os.close(lock)


class ClusterLock:
    """A held cluster lock; other processes read the URL and PID from its file."""

    def __init__(self, lock_fd: int) -> None:
        self._lock_fd = lock_fd

    def publish(self, running: RunningCluster) -> None:
        text = json.dumps(asdict(running)).encode()
        os.pwrite(self._lock_fd, text, 0)
        os.ftruncate(self._lock_fd, len(text))


def _lock_exclusively(lock_fd: int) -> None:
    """Take the lock, retrying while a reader holds it briefly; raise BlockingIOError."""
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
