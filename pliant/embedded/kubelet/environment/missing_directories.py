"""Directories that programs expect in their image, and that this machine does not have."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable
from pathlib import Path

MISSING_DIRECTORY_REASON = "MissingDirectory"
"""The reason of the event about such a directory."""
_MISSING_DIRECTORY = re.compile(
    r"can't cd to (?P<dash>/\S+)|cd: (?P<bash>/[^:\n]+): No such file|workingDir '(?P<start>/[^'\n]+)': No such file"
    r"|can't open file '(?P<script>/[^'\n]+)'"
)


def find_missing_directory(error_text: str, mount_paths: Iterable[str] = ()) -> str:
    """Return the directory that a program did not find, according to its last lines; empty if it is another problem.

    Directories below a mount path are the user's own.
    """
    match = _MISSING_DIRECTORY.search(error_text)
    if match is None:
        return ""
    found = match["dash"] or match["bash"] or match["start"] or posixpath.dirname(match["script"])
    directory = posixpath.normpath(found)
    is_mounted = any(Path(directory).is_relative_to(posixpath.normpath(path)) for path in mount_paths)
    return "" if is_mounted or Path(directory).is_dir() else directory


def missing_directory_advice(directory: str) -> str:
    return (
        f"{directory} does not exist on this machine, and local pods do not use the files of the image: "
        f"mount a directory there with --mount DIR:{directory} of `pliant up` or `pliant run`"
    )
