"""What a container says of its own end: the file Kubernetes gives it for that, or the tail of its log."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from pliant.embedded.node.link import Mount
from pliant.embedded.node.logfiles import RunLog

_USUAL: Final = "/dev/termination-log"
_LONGEST: Final = 4096
_LONGEST_TAIL: Final = 2048


def note_beside(log: Path) -> Path:
    """An empty file beside the log of a run, for the container to write its last words to."""
    path = log.with_suffix(".end")
    path.write_bytes(b"")
    # The container may run under any user id that is mapped; the file is its own.
    path.chmod(0o666)
    return path


def mount_of(spec: Mapping[str, Any], note: Path) -> Mount:
    """Where the container finds that file."""
    target = str(spec.get("terminationMessagePath") or _USUAL)
    return Mount(target=target, source=str(note), readonly=False, private=False)


def last_words(spec: Mapping[str, Any], log: Path, *, has_failed: bool) -> str:
    """The message of an end."""
    said = _read(log.with_suffix(".end"), _LONGEST)
    falls_back = spec.get("terminationMessagePolicy") == "FallbackToLogsOnError"
    if not said and has_failed and falls_back:
        said = RunLog(log).tail(_LONGEST_TAIL).decode(errors="replace")
    return said


def _read(path: Path, most: int) -> str:
    try:
        with path.open("rb") as file:
            return file.read(most).decode(errors="replace")
    except OSError:
        return ""
