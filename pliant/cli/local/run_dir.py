"""A throw-away folder for one run; what dead runs left behind is swept away."""

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
    """A fresh private folder, locked for as long as the context lasts; removed afterwards unless kept."""
    root = _ensure_runs_root()
    made: list[Path] = []
    locks: list[int] = []
    # An interrupt in the midst of this would leave a folder that nobody knows of.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
    try:
        with _file_lock(root / _LOCK_FILE):
            _remove_abandoned_dirs(root)
            made.append(Path(tempfile.mkdtemp(prefix="kept-" if keep else "run-", dir=root)))
            locks.append(os.open(made[0] / _LOCK_FILE, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600))
            fcntl.flock(locks[0], fcntl.LOCK_EX)
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        yield made[0]
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        for folder in made if not keep else ():
            shutil.rmtree(folder, ignore_errors=True)
        for lock in locks:
            os.close(lock)


def list_active_run_dirs() -> list[Path]:
    """The folders of runs that go on now, the latest first."""
    root = _runs_root_path()
    found = [folder for folder in (*root.glob("run-*"), *root.glob("kept-*")) if _is_locked(folder / _LOCK_FILE)]
    return sorted(found, key=lambda folder: folder.stat().st_mtime, reverse=True)


def _is_locked(path: Path) -> bool:
    try:
        lock = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return False
    try:
        # Shared, so that two who look at once do not take each other for the owner.
        fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    else:
        return False
    finally:
        os.close(lock)


def _runs_root_path() -> Path:
    """Where the runs of this user live: memory-backed where the system offers that."""
    runtime = os.environ.get("XDG_RUNTIME_DIR", "")
    base = Path(runtime) if runtime and os.access(runtime, os.W_OK | os.X_OK) else None
    return base / "pliant" if base else Path(tempfile.gettempdir()) / f"pliant-{os.getuid()}"


def _ensure_runs_root() -> Path:
    """That place, made and found to be nobody else's."""
    root = _runs_root_path()
    root.mkdir(mode=0o700, exist_ok=True)
    found = root.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o022:
        raise UnsupportedEnvironment(f"{root} is not a private folder of yours; remove it or set XDG_RUNTIME_DIR")
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
    """Remove the folders whose owner is dead: nobody holds their lock any more."""
    for folder in root.glob("run-*"):
        try:
            lock = os.open(folder / _LOCK_FILE, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
        except FileNotFoundError:
            shutil.rmtree(folder, ignore_errors=True)
            continue
        except OSError:
            continue  # not readable even for us: no reason not to run
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            continue
        else:
            shutil.rmtree(folder, ignore_errors=True)
        finally:
            os.close(lock)
