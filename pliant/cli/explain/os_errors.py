"""Explains operating system errors that mean that this machine lacks disk space, memory, files or permissions."""

from __future__ import annotations

import errno
import shutil
from pathlib import Path

from pliant.errors import UnsupportedEnvironment

_DATA_DIR_HINT = "(TMPDIR for `pliant run`, --data or PLIANT_HOME for `pliant up`)"
_ERRNO_FIXES = {
    errno.ENOSPC: f"free disk space, or choose another directory {_DATA_DIR_HINT}",
    errno.EDQUOT: f"free disk space, or choose another directory {_DATA_DIR_HINT}",
    errno.EROFS: f"choose a writable directory {_DATA_DIR_HINT}",
    errno.EACCES: "choose another path, or ask its owner for access",
    errno.EFBIG: "allow larger files: ulimit -f unlimited",
    errno.EMFILE: "allow more open files: ulimit -n 65536",
    errno.ENFILE: "stop other programs: the machine has too many open files",
    errno.ENOMEM: "stop other programs: the machine is out of memory",
    errno.EAGAIN: "allow more processes: ulimit -u",
}
MIN_FREE_BYTES = 64 << 10  # a disk with less free space counts as full


def explain_os_error(error: BaseException) -> UnsupportedEnvironment | None:
    """Return the error with a fix; None if it does not mean that this machine lacks something."""
    if isinstance(error, BaseExceptionGroup):
        return next(filter(None, map(explain_os_error, error.exceptions)), None)
    if not isinstance(error, OSError) or error.errno not in _ERRNO_FIXES:
        return None
    problem = f"{error.filename}: {error.strerror}" if error.filename else str(error.strerror)
    return UnsupportedEnvironment(f"{problem}; {_ERRNO_FIXES[error.errno]}")


def is_disk_full(directory: Path) -> bool:
    """Return whether the disk of a directory is full; False if that is unknown."""
    try:
        return shutil.disk_usage(directory).free < MIN_FREE_BYTES
    except OSError:
        return False
