"""Puts into words what a machine has run out of: space, memory, open files, rights."""

from __future__ import annotations

import errno
import shutil
from pathlib import Path

from pliant.errors import UnsupportedEnvironment

_DATA_DIR_HINT = "(TMPDIR for `pliant run`, --data or PLIANT_HOME for `pliant up`)"
_ERRNO_FIXES = {
    errno.ENOSPC: f"make room, or keep the data elsewhere {_DATA_DIR_HINT}",
    errno.EDQUOT: f"make room, or keep the data elsewhere {_DATA_DIR_HINT}",
    errno.EROFS: f"name a folder that can be written {_DATA_DIR_HINT}",
    errno.EACCES: "choose another place, or ask whoever owns it",
    errno.EFBIG: "allow larger files: ulimit -f unlimited",
    errno.EMFILE: "allow more open files: ulimit -n 65536",
    errno.ENFILE: "end other programs: the whole machine has too many open files",
    errno.ENOMEM: "end other programs: there is no memory left",
    errno.EAGAIN: "allow more processes: ulimit -u",
}
MIN_FREE_BYTES = 64 << 10
"""Bytes: a disk with less than this free counts as full."""


def explain_os_error(error: BaseException) -> UnsupportedEnvironment | None:
    """The same error for people, if it tells of something that this machine lacks."""
    if isinstance(error, BaseExceptionGroup):
        return next(filter(None, map(explain_os_error, error.exceptions)), None)
    if not isinstance(error, OSError) or error.errno not in _ERRNO_FIXES:
        return None
    what = f"{error.filename}: {error.strerror}" if error.filename else str(error.strerror)
    return UnsupportedEnvironment(f"{what}; {_ERRNO_FIXES[error.errno]}")


def is_disk_full(directory: Path) -> bool:
    """Whether the disk of a folder has no room left; what cannot be told counts as no."""
    try:
        return shutil.disk_usage(directory).free < MIN_FREE_BYTES
    except OSError:
        return False
