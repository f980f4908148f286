"""Build a container's root directory: the host's files, with volumes wherever they are wanted."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Sequence
from typing import NotRequired, TypedDict

from pliant.embedded.agent import syscalls

_HOST_ROOT = "/.host"
_STAGING_DIR = "/.stage"


class MountSpec(TypedDict):
    """Something shown at `target`: a file or folder of the host, or one kept in memory for the pod."""

    target: str
    source: str
    memory: NotRequired[str]
    """What that is called which is kept in memory."""
    readonly: bool
    private: bool
    """The source belongs to the pod, so that missing folders may be made inside it."""


def pivot_into_rootfs(rootfs_dir: str, mounts: Sequence[MountSpec]) -> None:
    """Make this process's root a private mirror of the host's, with `mounts` in place.

    The caller stands in mount and PID namespaces of its own. Nothing is written to the host's folders: a mount
    point that is missing there is made in a mirror of the nearest folder that exists.
    """
    _mount_tmpfs(rootfs_dir, 0o755)
    _mirror_entries("/", rootfs_dir, skip={"proc"})
    _mount_proc(rootfs_dir + "/proc")
    os.mkdir(rootfs_dir + _HOST_ROOT)
    syscalls.pivot_root(rootfs_dir, rootfs_dir + _HOST_ROOT)
    os.chdir("/")
    _MountPoints(mounts).mount_all()
    syscalls.unmount_lazily(_HOST_ROOT)
    os.rmdir(_HOST_ROOT)


class _MountPoints:
    """Where mounts go, and which folders may be written to for making room."""

    def __init__(self, mounts: Sequence[MountSpec]) -> None:
        self._mounts = sorted(mounts, key=lambda each: each["target"].count("/"))
        self._writable_devices = {os.stat("/").st_dev}
        self._pod_owned_prefixes: list[str] = []

    def mount_all(self) -> None:
        for each in self._mounts:
            self._mount(each)

    def _mount(self, mount: MountSpec) -> None:
        source = _HOST_ROOT + mount["source"]
        target = os.path.realpath(mount["target"])
        self._create_mount_point(target, is_folder=os.path.isdir(source))
        _bind_mount(source, target)
        if mount["readonly"]:
            syscalls.remount_read_only(target)
        elif mount["private"]:
            self._pod_owned_prefixes.append(target + "/")

    def _create_mount_point(self, target: str, *, is_folder: bool) -> None:
        if os.path.lexists(target):
            return
        nearest = os.path.dirname(target)
        while not os.path.isdir(nearest):
            nearest = os.path.dirname(nearest)
        inside = (nearest + "/").startswith(tuple(self._pod_owned_prefixes)) if self._pod_owned_prefixes else False
        if not inside and os.stat(nearest).st_dev not in self._writable_devices:
            self._writable_devices.add(_mount_writable_mirror(nearest))
        if is_folder:
            os.makedirs(target, exist_ok=True)
        else:
            os.makedirs(os.path.dirname(target), exist_ok=True)
            _create_file(target)


def _mount_writable_mirror(folder: str) -> int:
    """Put a writable mirror in place of a folder; its device number."""
    os.makedirs(_STAGING_DIR, exist_ok=True)
    _mount_tmpfs(_STAGING_DIR, stat.S_IMODE(os.stat(folder).st_mode) | 0o700)
    _mirror_entries(folder, _STAGING_DIR)
    syscalls.mount(_STAGING_DIR, folder, "none", syscalls.MS_MOVE)
    os.rmdir(_STAGING_DIR)
    return os.stat(folder).st_dev


def _mount_tmpfs(folder: str, mode: int) -> None:
    flags = syscalls.MS_NOSUID | syscalls.MS_NODEV
    syscalls.mount("tmpfs", folder, "tmpfs", flags, f"mode={mode:o}")


def _mount_proc(folder: str) -> None:
    """Show the processes of this PID namespace, or those of the host where a container hides parts of /proc."""
    os.mkdir(folder)
    try:
        syscalls.mount("proc", folder, "proc", syscalls.MS_NOSUID | syscalls.MS_NODEV | syscalls.MS_NOEXEC)
    except PermissionError:
        _bind_mount("/proc", folder)


def _mirror_entries(source: str, target: str, skip: Iterable[str] = ()) -> None:
    """Show each entry of `source` in `target`, which can then hold more."""
    try:
        entries = [entry for entry in os.scandir(source) if entry.name not in skip]
    except PermissionError:
        return  # Nothing in it can be reached by this user, so there is nothing to show.
    for entry in entries:
        shown = f"{target}/{entry.name}"
        if entry.path in (_HOST_ROOT, _STAGING_DIR):
            continue
        if entry.is_symlink():
            os.symlink(os.readlink(entry.path), shown)
            continue
        if _is_inaccessible_device(entry):
            continue  # There are a hundred of them, and every mount takes time.
        if entry.is_dir():
            os.mkdir(shown)
        else:
            _create_file(shown)
        try:
            _bind_mount(entry.path, shown)
        except PermissionError:
            continue  # Somebody else's private mount: it stays as unreachable as it was.


def _is_inaccessible_device(entry: os.DirEntry[str]) -> bool:
    """Whether this is a device that this user can neither read nor write."""
    kind = entry.stat(follow_symlinks=False).st_mode
    if not (stat.S_ISCHR(kind) or stat.S_ISBLK(kind)):
        return False
    return not (os.access(entry.path, os.R_OK) or os.access(entry.path, os.W_OK))


def _bind_mount(source: str, target: str) -> None:
    syscalls.mount(source, target, "none", syscalls.MS_BIND | syscalls.MS_REC)


def _create_file(path: str) -> None:
    os.close(os.open(path, os.O_CREAT | os.O_CLOEXEC, 0o644))
