"""Build a container's root directory: the host's files, with volumes wherever they are wanted."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Sequence
from typing import NotRequired, TypedDict

from pliant.embedded.agent import syscalls

_HOST = "/.host"
_STAGE = "/.stage"


class Mount(TypedDict):
    """Something shown at `target`: a file or folder of the host, or one kept in memory for the pod."""

    target: str
    source: str
    memory: NotRequired[str]
    """What that is called which is kept in memory."""
    readonly: bool
    private: bool
    """The source belongs to the pod, so that missing folders may be made inside it."""


def enter_root(stage: str, mounts: Sequence[Mount]) -> None:
    """Make this process's root a private mirror of the host's, with `mounts` in place.

    The caller stands in mount and PID namespaces of its own. Nothing is written to the host's folders: a mount
    point that is missing there is made in a mirror of the nearest folder that exists.
    """
    _scratch(stage, 0o755)
    _mirror("/", stage, skip={"proc"})
    _show_processes(stage + "/proc")
    os.mkdir(stage + _HOST)
    syscalls.pivot_root(stage, stage + _HOST)
    os.chdir("/")
    _Places(mounts).show_all()
    syscalls.detach(_HOST)
    os.rmdir(_HOST)


class _Places:
    """Where mounts go, and which folders may be written to for making room."""

    def __init__(self, mounts: Sequence[Mount]) -> None:
        self._mounts = sorted(mounts, key=lambda each: each["target"].count("/"))
        self._roomy = {os.stat("/").st_dev}
        self._private: list[str] = []

    def show_all(self) -> None:
        for each in self._mounts:
            self._show(each)

    def _show(self, each: Mount) -> None:
        source = _HOST + each["source"]
        target = os.path.realpath(each["target"])
        self._make_room(target, is_folder=os.path.isdir(source))
        _bind(source, target)
        if each["readonly"]:
            syscalls.make_read_only(target)
        elif each["private"]:
            self._private.append(target + "/")

    def _make_room(self, target: str, *, is_folder: bool) -> None:
        if os.path.lexists(target):
            return
        nearest = os.path.dirname(target)
        while not os.path.isdir(nearest):
            nearest = os.path.dirname(nearest)
        inside = (nearest + "/").startswith(tuple(self._private)) if self._private else False
        if not inside and os.stat(nearest).st_dev not in self._roomy:
            self._roomy.add(_make_roomy(nearest))
        if is_folder:
            os.makedirs(target, exist_ok=True)
        else:
            os.makedirs(os.path.dirname(target), exist_ok=True)
            _touch(target)


def _make_roomy(folder: str) -> int:
    """Put a writable mirror in place of a folder; its device number."""
    os.makedirs(_STAGE, exist_ok=True)
    _scratch(_STAGE, stat.S_IMODE(os.stat(folder).st_mode) | 0o700)
    _mirror(folder, _STAGE)
    syscalls.mount(_STAGE, folder, "none", syscalls.MS_MOVE)
    os.rmdir(_STAGE)
    return os.stat(folder).st_dev


def _scratch(folder: str, mode: int) -> None:
    flags = syscalls.MS_NOSUID | syscalls.MS_NODEV
    syscalls.mount("tmpfs", folder, "tmpfs", flags, f"mode={mode:o}")


def _show_processes(folder: str) -> None:
    """Show the processes of this PID namespace, or those of the host where a container hides parts of /proc."""
    os.mkdir(folder)
    try:
        syscalls.mount("proc", folder, "proc", syscalls.MS_NOSUID | syscalls.MS_NODEV | syscalls.MS_NOEXEC)
    except PermissionError:
        _bind("/proc", folder)


def _mirror(source: str, target: str, skip: Iterable[str] = ()) -> None:
    """Show each entry of `source` in `target`, which can then hold more."""
    try:
        entries = [entry for entry in os.scandir(source) if entry.name not in skip]
    except PermissionError:
        return  # Nothing in it can be reached by this user, so there is nothing to show.
    for entry in entries:
        shown = f"{target}/{entry.name}"
        if entry.path in (_HOST, _STAGE):
            continue
        if entry.is_symlink():
            os.symlink(os.readlink(entry.path), shown)
            continue
        if _is_closed_device(entry):
            continue  # There are a hundred of them, and every mount takes time.
        if entry.is_dir():
            os.mkdir(shown)
        else:
            _touch(shown)
        try:
            _bind(entry.path, shown)
        except PermissionError:
            continue  # Somebody else's private mount: it stays as unreachable as it was.


def _is_closed_device(entry: os.DirEntry[str]) -> bool:
    """Whether this is a device that this user can neither read nor write."""
    kind = entry.stat(follow_symlinks=False).st_mode
    if not (stat.S_ISCHR(kind) or stat.S_ISBLK(kind)):
        return False
    return not (os.access(entry.path, os.R_OK) or os.access(entry.path, os.W_OK))


def _bind(source: str, target: str) -> None:
    syscalls.mount(source, target, "none", syscalls.MS_BIND | syscalls.MS_REC)


def _touch(path: str) -> None:
    os.close(os.open(path, os.O_CREAT | os.O_CLOEXEC, 0o644))
