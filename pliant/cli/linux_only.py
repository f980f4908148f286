"""Says which commands need Linux, and what to use on other systems."""

from __future__ import annotations

import sys

from pliant.errors import UnsupportedEnvironment

LINUX_COMMANDS = frozenset({"up", "down", "status", "node"})
"""Commands about clusters of this machine; `run` needs Linux unless the job runs on another cluster."""
_INSTEAD = {
    "darwin": "use a Linux virtual machine (`limactl start`, then `lima pliant {command}`)",
    "win32": "use WSL 2 (`wsl --install`, then `wsl pliant {command}`)",
}


def is_linux() -> bool:
    return sys.platform == "linux"


def require_linux(command: str) -> None:
    """Raise UnsupportedEnvironment if this machine cannot run a local cluster."""
    if is_linux():
        return
    here = _INSTEAD.get(sys.platform, "use a Linux virtual machine").format(command=command)
    remote = "a cluster: `pliant run train.py --context NAME --image IMAGE`, `pliant submit job.yaml --context NAME`"
    raise UnsupportedEnvironment(
        f"`pliant {command}` needs Linux, because pods are processes with their own network; {here}, or {remote}"
    )
