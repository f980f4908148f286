"""The environment variables that every container has."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

_INHERITED_VARIABLES = ("PATH", "HOME", "USER", "LOGNAME", "LANG", "LC_ALL", "TZ", "LD_LIBRARY_PATH")


def base_environment(environment: Mapping[str, str], api_host: str, api_port: int) -> dict[str, str]:
    """Return the environment variables of every container; some come from the process of the cluster."""
    inherited = {name: environment[name] for name in _INHERITED_VARIABLES if name in environment}
    # Last, so that there is always a `python`, and the user's own comes first.
    path = [*inherited.get("PATH", "/usr/local/bin:/usr/bin:/bin").split(":"), str(Path(sys.executable).parent)]
    return {
        **inherited,
        "PATH": ":".join(dict.fromkeys(filter(None, path))),
        "PYTHONUNBUFFERED": "1",
        "KUBERNETES_SERVICE_HOST": api_host,
        "KUBERNETES_SERVICE_PORT": str(api_port),
        "KUBERNETES_SERVICE_PORT_HTTPS": str(api_port),
    }
