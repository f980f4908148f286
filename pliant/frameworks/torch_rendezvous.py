"""The rendezvous store of elastic torchrun jobs: a TCPStore that no worker hosts, and the settings of its clients.

The reasons are in docs/decisions/torchrun-rendezvous.md.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

from pliant.frameworks.role_assignment import nested_mapping
from pliant.model.job import ReplicaGroup

MAX_RESTARTS = 100
"""The crash of one worker makes the workers of all other agents crash, and each agent counts its own."""

MONITOR_INTERVAL = "0.5"
"""How often an agent looks at its workers and at the rendezvous, in seconds; up to torch 2.3 the default is 5."""

RENDEZVOUS_CONF: Mapping[str, str] = {
    "is_host": "0",  # without it, an agent on the node of the store takes itself for the host
    "join_timeout": "86400",  # the operator limits how long a job waits for its minimum size
    "read_timeout": "300",  # also limits the wait for the store, whose pod may pull its image last
    "last_call_timeout": "3",
    "keep_alive_interval": "2",
    "keep_alive_max_attempt": "5",
}

HOST_PORTS = range(20_000, 30_000)
"""The ports of stores that use the network of their node: each job has its own."""

_PROGRAM = """\
import signal, sys
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
try:
    from torch.distributed import TCPStore
except ImportError as error:
    print(f"rendezvous store: not started, as this image is not for torchrun: {error}", flush=True)
else:
    port = int(sys.argv[1])
    store = TCPStore("localhost", port, is_master=True, wait_for_workers=False)
    print(f"rendezvous store: listening on port {port}", flush=True)
signal.sigwait({signal.SIGTERM})
"""
_LAUNCHER = (
    'command -v "$0" >/dev/null && exec "$0" "$@"; '
    'echo "rendezvous store: not started, as this image has no $0"; while :; do sleep 1; done'
)
"""A job whose image has no torch, or not even Python, does not use the store and must not fail because of it."""

_OWN_RENDEZVOUS_OPTIONS = ("rdzv_host", "standalone")
_OWN_RENDEZVOUS_VARIABLES = frozenset({"PET_RDZV_ENDPOINT", "PET_RDZV_BACKEND", "PET_STANDALONE"})
_TORCHRUN = re.compile(r"\btorchrun\b|\btorch\.distributed\.(run|launch)\b|\baccelerate\b|\.sh\b")
_PYTHON_PROGRAM = re.compile(r"python[0-9.]*|torchrun")
_OWN_RENDEZVOUS_FLAGS = re.compile(
    r"--standalone\b|--rdzv[-_]backend[= ]+(?!c10d\b)|--rdzv[-_]endpoint[= ]+(?![\"']?\$[({]?PET_RDZV_ENDPOINT\b)"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RendezvousStore:
    """A program for the image of the workers; it listens on the port until SIGTERM and needs no other replica."""

    command: tuple[str, ...]
    port: int


def build_store(port: int, python: str = "python3") -> RendezvousStore:
    return RendezvousStore(command=("sh", "-c", _LAUNCHER, python, "-c", _PROGRAM, str(port)), port=port)


def host_port(job_uid: str) -> int:
    """Return the port of a store on the network of its node, below those that the system assigns.

    The workers have the default port in their templates, so the scheduler places no other pod with it on their nodes.
    """
    return HOST_PORTS.start + int.from_bytes(blake2b(job_uid.encode(), digest_size=4).digest()) % len(HOST_PORTS)


def is_in_volume(workers: ReplicaGroup, path: str) -> bool:
    """Return whether a file of the workers may be in one of their volumes."""
    containers = nested_mapping(workers.template, "spec").get("containers") or ()
    mounts = (mount for container in containers for mount in container.get("volumeMounts") or ())
    return any(path.startswith(f"{str(mount.get('mountPath') or '').rstrip('/')}/") for mount in mounts)


def find_python(workers: ReplicaGroup) -> str:
    """Return the Python of the workers, if their command has its path: it may be the only one with torch."""
    for container in nested_mapping(workers.template, "spec").get("containers") or ():
        for word in map(str, (*(container.get("command") or ()), *(container.get("args") or ()))):
            folder, _, program = word.rpartition("/")
            if folder.startswith("/") and _PYTHON_PROGRAM.fullmatch(program):
                return word if program.startswith("python") else f"{folder}/python3"
    return "python3"


def has_own_rendezvous(workers: ReplicaGroup, options: Mapping[str, Any]) -> bool:
    """Return whether the user chose the rendezvous: in the options of the job, or for torchrun in the template."""
    has_other_backend = (options.get("rdzv_backend") or "c10d") != "c10d"
    if has_other_backend or any(options.get(name) for name in _OWN_RENDEZVOUS_OPTIONS):
        return True
    return any(
        _OWN_RENDEZVOUS_VARIABLES & {str(variable.get("name")) for variable in container.get("env") or ()}
        or _OWN_RENDEZVOUS_FLAGS.search(_command_line(container))
        for container in nested_mapping(workers.template, "spec").get("containers") or ()
    )


def may_start_torchrun(workers: ReplicaGroup) -> bool:
    """Return whether a container starts torchrun, or a program that may do so: a shell script, or that of the image."""
    command_lines = map(_command_line, nested_mapping(workers.template, "spec").get("containers") or ())
    return any(not line or _TORCHRUN.search(line) for line in command_lines)


def client_environment(options: Mapping[str, Any]) -> dict[str, str]:
    """Return the variables that let agents survive the loss of others; the options of the job take precedence."""
    conf = {**RENDEZVOUS_CONF, **(options.get("rdzv_conf") or {})}
    max_restarts = options.get("max_restarts")
    return {
        "PET_RDZV_CONF": format_rendezvous_conf(conf),
        "PET_MAX_RESTARTS": str(MAX_RESTARTS if max_restarts is None else max_restarts),
        "PET_MONITOR_INTERVAL": MONITOR_INTERVAL,
        # The workers meet at a store of each round's rank 0, not at that of the agent that was rank 0 first.
        "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1",
    }


def format_rendezvous_conf(conf: Mapping[str, Any]) -> str:
    return ",".join(f"{key}={value}" for key, value in conf.items())


def _command_line(container: Mapping[str, Any]) -> str:
    return " ".join(str(word) for name in ("command", "args") for word in container.get(name) or ())
