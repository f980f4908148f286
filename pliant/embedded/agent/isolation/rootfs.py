"""Build the root file system of a container: the host's files, with the container's mounts on top."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress

from pliant.embedded.agent import syscalls
from pliant.embedded.agent.container.config import Mount

_HOST_ROOT = "/.host"
_STAGING_DIR = "/.stage"


def pivot_into_rootfs(rootfs_dir: str, mounts: Sequence[Mount]) -> None:
    """Make a private mirror of the host's root, with `mounts` in place, the root of this process.

    The caller has its own mount and PID namespaces. Nothing is written to the directories of the host: a missing
    mount point is created in a mirror of its nearest existing parent.
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
    """Creates the mount points of a container and mounts its volumes there."""

    def __init__(self, mounts: Sequence[Mount]) -> None:
        self._mounts = sorted(mounts, key=lambda mount: mount["target"].count("/"))
        self._writable_devices = {os.stat("/").st_dev}
        self._pod_owned_prefixes: list[str] = []

    def mount_all(self) -> None:
        for mount in self._mounts:
            target = os.path.realpath(mount["target"])
            with _pin_source(mount) as source:
                self._create_mount_point(target, is_directory=os.path.isdir(source))
                _bind_mount(source, target)
            if mount["readonly"]:
                syscalls.remount_read_only(target)
            elif mount["pod_owned"]:
                self._pod_owned_prefixes.append(target + "/")

    def _create_mount_point(self, target: str, *, is_directory: bool) -> None:
        if os.path.lexists(target):
            return
        nearest = os.path.dirname(target)
        while not os.path.isdir(nearest):
            nearest = os.path.dirname(nearest)
        is_pod_owned = (nearest + "/").startswith(tuple(self._pod_owned_prefixes))
        if not is_pod_owned and os.stat(nearest).st_dev not in self._writable_devices:
            self._writable_devices.add(_mount_writable_mirror(nearest))
        if is_directory:
            os.makedirs(target, exist_ok=True)
        else:
            os.makedirs(os.path.dirname(target), exist_ok=True)
            _create_file(target)


@contextmanager
def _pin_source(mount: Mount) -> Iterator[str]:
    """Yield a path to the source of a mount, which nobody can replace by another file before it is mounted."""
    root = mount.get("beneath", "")
    if not root:
        yield _HOST_ROOT + mount["source"]
        return
    fd = open_beneath(_HOST_ROOT + root, os.path.relpath(mount["source"], root))
    try:
        yield f"/proc/self/fd/{fd}"
    finally:
        os.close(fd)


def open_beneath(root: str, relative_path: str, *, create: bool = False) -> int:
    """Return a descriptor of a file or directory below `root`; raise OSError if a part of the path is a link."""
    fd = os.open(root, os.O_PATH | os.O_DIRECTORY)
    for part in relative_path.split("/"):
        if part in ("", "."):
            continue
        try:
            if create:
                with suppress(FileExistsError):
                    os.mkdir(part, dir_fd=fd)
            child = os.open(part, os.O_PATH | os.O_NOFOLLOW, dir_fd=fd)
        finally:
            os.close(fd)
        fd = child
        if part == ".." or stat.S_ISLNK(os.fstat(fd).st_mode):
            os.close(fd)
            raise OSError(errno.ELOOP, f"subPath {relative_path!r} leads outside its volume", None)
    return fd


def _mount_writable_mirror(directory: str) -> int:
    """Mount a writable mirror over a directory and return its device number."""
    os.makedirs(_STAGING_DIR, exist_ok=True)
    _mount_tmpfs(_STAGING_DIR, stat.S_IMODE(os.stat(directory).st_mode) | 0o700)
    _mirror_entries(directory, _STAGING_DIR)
    syscalls.mount(_STAGING_DIR, directory, "none", syscalls.MS_MOVE)
    os.rmdir(_STAGING_DIR)
    return os.stat(directory).st_dev


def _mount_tmpfs(directory: str, mode: int) -> None:
    syscalls.mount("tmpfs", directory, "tmpfs", syscalls.MS_NOSUID | syscalls.MS_NODEV, f"mode={mode:o}")


def _mount_proc(directory: str) -> None:
    """Mount the /proc of this PID namespace, or bind that of the host if an outer container masks parts of it."""
    os.mkdir(directory)
    try:
        syscalls.mount("proc", directory, "proc", syscalls.MS_NOSUID | syscalls.MS_NODEV | syscalls.MS_NOEXEC)
    except PermissionError:
        _bind_mount("/proc", directory)


def _mirror_entries(source: str, target: str, skip: Iterable[str] = ()) -> None:
    """Bind each entry of the directory `source` into `target`, so that more entries can be added there."""
    try:
        entries = [entry for entry in os.scandir(source) if entry.name not in skip]
    except PermissionError:
        return  # This user can reach nothing in it.
    for entry in entries:
        mirror = f"{target}/{entry.name}"
        if entry.path in (_HOST_ROOT, _STAGING_DIR):
            continue
        if entry.is_symlink():
            os.symlink(os.readlink(entry.path), mirror)
            continue
        if _is_inaccessible_device(entry):
            continue  # There are about a hundred of them, and each mount takes time.
        if entry.is_dir():
            os.mkdir(mirror)
        else:
            _create_file(mirror)
        try:
            _bind_mount(entry.path, mirror)
        except PermissionError:
            continue  # A private mount of another user, which this user cannot reach anyway.


def _is_inaccessible_device(entry: os.DirEntry[str]) -> bool:
    mode = entry.stat(follow_symlinks=False).st_mode
    if not (stat.S_ISCHR(mode) or stat.S_ISBLK(mode)):
        return False
    return not (os.access(entry.path, os.R_OK) or os.access(entry.path, os.W_OK))


def _bind_mount(source: str, target: str) -> None:
    syscalls.mount(source, target, "none", syscalls.MS_BIND | syscalls.MS_REC)


def _create_file(path: str) -> None:
    os.close(os.open(path, os.O_CREAT | os.O_CLOEXEC, 0o644))
