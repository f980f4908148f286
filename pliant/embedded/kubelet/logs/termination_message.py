"""The termination message of a container: the file at `terminationMessagePath`, or the end of its log."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from pliant.embedded.kubelet.logs.log_files import ContainerLog
from pliant.embedded.kubelet.runtime.messages import Mount

_DEFAULT_MESSAGE_PATH: Final = "/dev/termination-log"
_MAX_MESSAGE_BYTES: Final = 4096
_MAX_LOG_TAIL_BYTES: Final = 2048


def create_message_file(log_path: Path) -> Path:
    """Create the empty message file of a run beside its log."""
    path = log_path.with_suffix(".end")
    path.write_bytes(b"")
    # The container may run with any mapped user id.
    path.chmod(0o666)
    return path


def message_file_mount(container_spec: Mapping[str, Any], message_file: Path) -> Mount:
    """Return the mount of the message file in the container."""
    target = str(container_spec.get("terminationMessagePath") or _DEFAULT_MESSAGE_PATH)
    return Mount(target=target, source=str(message_file), readonly=False, pod_owned=False)


def read_termination_message(container_spec: Mapping[str, Any], log_path: Path, *, has_failed: bool) -> str:
    """Return the termination message of a container that has exited."""
    try:
        with log_path.with_suffix(".end").open("rb") as file:
            message = file.read(_MAX_MESSAGE_BYTES).decode(errors="replace")
    except OSError:
        message = ""
    falls_back_to_log = container_spec.get("terminationMessagePolicy") == "FallbackToLogsOnError"
    if not message and has_failed and falls_back_to_log:
        message = ContainerLog(log_path).read_tail(_MAX_LOG_TAIL_BYTES).decode(errors="replace")
    return message
