"""What a container says of its own end: the file Kubernetes gives it for that, or the tail of its log."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from pliant.embedded.kubelet.logs.log_files import ContainerLog
from pliant.embedded.kubelet.runtime.node_agent import Mount

_DEFAULT_MESSAGE_PATH: Final = "/dev/termination-log"
_MAX_MESSAGE_BYTES: Final = 4096
_MAX_LOG_TAIL_BYTES: Final = 2048


def create_message_file(log_path: Path) -> Path:
    """An empty file beside the log of a run, for the container to write its last words to."""
    path = log_path.with_suffix(".end")
    path.write_bytes(b"")
    # The container may run under any user id that is mapped; the file is its own.
    path.chmod(0o666)
    return path


def message_file_mount(container_spec: Mapping[str, Any], message_file: Path) -> Mount:
    """Where the container finds that file."""
    target = str(container_spec.get("terminationMessagePath") or _DEFAULT_MESSAGE_PATH)
    return Mount(target=target, source=str(message_file), readonly=False, private=False)


def read_termination_message(container_spec: Mapping[str, Any], log_path: Path, *, has_failed: bool) -> str:
    """The message of an end."""
    said = _read_start(log_path.with_suffix(".end"), _MAX_MESSAGE_BYTES)
    falls_back = container_spec.get("terminationMessagePolicy") == "FallbackToLogsOnError"
    if not said and has_failed and falls_back:
        said = ContainerLog(log_path).read_tail(_MAX_LOG_TAIL_BYTES).decode(errors="replace")
    return said


def _read_start(path: Path, max_bytes: int) -> str:
    try:
        with path.open("rb") as file:
            return file.read(max_bytes).decode(errors="replace")
    except OSError:
        return ""
