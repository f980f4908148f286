"""What a container says of its own end: the file Kubernetes gives it for that, or the tail of its log."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from pliant.embedded.node.link import Mount

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
    said = _read(log.with_suffix(".end"), _LONGEST, from_end=False)
    falls_back = spec.get("terminationMessagePolicy") == "FallbackToLogsOnError"
    if not said and has_failed and falls_back:
        said = _read(log, _LONGEST_TAIL, from_end=True)
    return said


def _read(path: Path, most: int, *, from_end: bool) -> str:
    try:
        with path.open("rb") as file:
            if from_end:
                file.seek(max(path.stat().st_size - most, 0))
            return file.read(most).decode(errors="replace")
    except OSError:
        return ""
