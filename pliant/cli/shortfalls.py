"""Puts into words what a machine has run out of: space, memory, open files, rights."""

from __future__ import annotations

import errno
import shutil
from pathlib import Path

from pliant.errors import NotPossibleHere

_PLACES = "(TMPDIR for `pliant run`, --data or PLIANT_HOME for `pliant up`)"
_CURES = {
    errno.ENOSPC: f"make room, or keep the data elsewhere {_PLACES}",
    errno.EDQUOT: f"make room, or keep the data elsewhere {_PLACES}",
    errno.EROFS: f"name a folder that can be written {_PLACES}",
    errno.EACCES: "choose another place, or ask whoever owns it",
    errno.EFBIG: "allow larger files: ulimit -f unlimited",
    errno.EMFILE: "allow more open files: ulimit -n 65536",
    errno.ENFILE: "end other programs: the whole machine has too many open files",
    errno.ENOMEM: "end other programs: there is no memory left",
    errno.EAGAIN: "allow more processes: ulimit -u",
}
FULL = 64 << 10
"""Bytes: a disk with less than this free counts as full."""


def shortfall(error: BaseException) -> NotPossibleHere | None:
    """The same error for people, if it tells of something that this machine lacks."""
    if isinstance(error, BaseExceptionGroup):
        return next(filter(None, map(shortfall, error.exceptions)), None)
    if not isinstance(error, OSError) or error.errno not in _CURES:
        return None
    what = f"{error.filename}: {error.strerror}" if error.filename else str(error.strerror)
    return NotPossibleHere(f"{what}; {_CURES[error.errno]}")


def is_full(folder: Path) -> bool:
    """Whether the disk of a folder has no room left; what cannot be told counts as no."""
    try:
        return shutil.disk_usage(folder).free < FULL
    except OSError:
        return False
