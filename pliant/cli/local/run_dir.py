"""Temporary directories for the clusters of `pliant run`, and the removal of abandoned ones."""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pliant.errors import UnsupportedEnvironment

_LOCK_FILE = "lock"


@contextmanager
def create_run_dir(*, keep: bool = False) -> Iterator[Path]:
    """Create a private directory, locked while in use; remove it afterwards unless `keep` is set."""
    root = _ensure_runs_root()
    created: list[Path] = []
    locks: list[int] = []
    # An interrupt here would leave a directory without a lock.
    previous_mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
    try:
        with _file_lock(root / _LOCK_FILE):
            _remove_abandoned_dirs(root)
            created.append(Path(tempfile.mkdtemp(prefix="kept-" if keep else "run-", dir=root)))
            locks.append(os.open(created[0] / _LOCK_FILE, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600))
            fcntl.flock(locks[0], fcntl.LOCK_EX)
        signal.pthread_sigmask(signal.SIG_SETMASK, previous_mask)
        yield created[0]
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, previous_mask)
        for directory in created if not keep else ():
            shutil.rmtree(directory, ignore_errors=True)
        for lock in locks:
            os.close(lock)


def list_active_run_dirs() -> list[Path]:
    """Return the directories of active runs, the latest first."""
    root = _runs_root_path()
    directories = (*root.glob("run-*"), *root.glob("kept-*"))
    active = [directory for directory in directories if _is_locked(directory / _LOCK_FILE)]
    return sorted(active, key=lambda directory: directory.stat().st_mtime, reverse=True)


def _is_locked(path: Path) -> bool:
    try:
        lock = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return False
    try:
        # A shared lock, so that two concurrent checks do not block each other.
        fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    else:
        return False
    finally:
        os.close(lock)


def _runs_root_path() -> Path:
    """Return the parent of run directories, memory-backed if the system offers that."""
    runtime = os.environ.get("XDG_RUNTIME_DIR", "")
    base = Path(runtime) if runtime and os.access(runtime, os.W_OK | os.X_OK) else None
    return base / "pliant" if base else Path(tempfile.gettempdir()) / f"pliant-{os.getuid()}"


def _ensure_runs_root() -> Path:
    """Create the parent directory and check that only this user can write to it."""
    root = _runs_root_path()
    root.mkdir(mode=0o700, exist_ok=True)
    found = root.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o022:
        raise UnsupportedEnvironment(f"{root} is not private to this user; remove it, or set XDG_RUNTIME_DIR")
    return root


@contextmanager
def _file_lock(path: Path) -> Iterator[None]:
    lock = os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)


def _remove_abandoned_dirs(root: Path) -> None:
    """Remove the directories of ended runs: their locks are free."""
    for directory in root.glob("run-*"):
        if not _is_locked(directory / _LOCK_FILE):
            shutil.rmtree(directory, ignore_errors=True)
