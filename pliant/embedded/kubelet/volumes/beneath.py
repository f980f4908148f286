"""Files below a directory, opened without following symbolic links, which a pod may have put there."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path, PurePosixPath
from typing import BinaryIO

from pliant.embedded.kubelet.environment.variables import validate_relative_path

_DIRECTORY_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


@contextmanager
def open_directory(root: Path, parts: Sequence[str], *, create: bool = False) -> Iterator[int]:
    """Open a directory below `root`; raise OSError if one of its parts is a symbolic link."""
    directory = os.open(root, _DIRECTORY_FLAGS)
    try:
        for part in parts:
            if create:
                with suppress(FileExistsError):
                    os.mkdir(part, dir_fd=directory)
            child = os.open(part, _DIRECTORY_FLAGS, dir_fd=directory)
            os.close(directory)
            directory = child
        yield directory
    finally:
        os.close(directory)


def make_directory(root: Path, *parts: str) -> Path:
    """Create a directory below `root`, which is created if it is missing; raise OSError if a part of it is a link."""
    root.mkdir(parents=True, exist_ok=True)
    with open_directory(root, parts, create=True):
        return root.joinpath(*parts)


def touch_file(root: Path, *parts: str, mode: int = 0o600) -> Path:
    """Create a file below `root`, unless it exists; raise OSError if a part of its path is a link."""
    *parents, name = parts
    make_directory(root, *parents)
    with open_directory(root, parents) as directory:
        flags = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        os.close(os.open(name, flags, mode, dir_fd=directory))
    return root.joinpath(*parts)


def open_regular_file(path: Path) -> BinaryIO:
    """Open a file for reading; raise OSError if it is a link, or no regular file, whose reading might not end."""
    fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise OSError(errno.EINVAL, "not a regular file", str(path))
    return os.fdopen(fd, "rb")


def write_file(root: Path, relative_path: str, content: bytes, mode: int) -> None:
    """Write a file below `root` atomically, unless it has this content; create missing directories."""
    *parents, name = PurePosixPath(validate_relative_path(relative_path)).parts
    with open_directory(root, parents, create=True) as directory:
        if _has_content(directory, name, content):
            return
        new_name = f".{name}.new"
        with suppress(FileNotFoundError):
            os.unlink(new_name, dir_fd=directory)
        fd = os.open(new_name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600, dir_fd=directory)
        with os.fdopen(fd, "wb") as file:
            file.write(content)
            os.fchmod(fd, mode)
        os.replace(new_name, name, src_dir_fd=directory, dst_dir_fd=directory)


def remove_other_files(root: Path, kept: Collection[str]) -> None:
    """Remove the files below `root` whose relative path is not in `kept`; directories stay."""
    kept_paths = {PurePosixPath(path) for path in kept}
    with open_directory(root, ()) as directory:
        for folder, _, names, folder_fd in os.fwalk(".", dir_fd=directory):
            for name in names:
                if PurePosixPath(folder, name) not in kept_paths:
                    os.unlink(name, dir_fd=folder_fd)


def _has_content(directory: int, name: str, content: bytes) -> bool:
    try:
        # Not blocking: a pod may have replaced the file by a pipe.
        fd = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=directory)
    except OSError:
        return False
    with os.fdopen(fd, "rb") as file:
        return stat.S_ISREG(os.fstat(fd).st_mode) and file.read(len(content) + 1) == content
