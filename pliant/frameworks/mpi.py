"""MPI and Horovod: a launcher that starts processes on workers, by a list of hosts and without SSH."""

from __future__ import annotations

import json
from collections.abc import Mapping
from hashlib import blake2b

from pliant.frameworks.casting import Cast, devices
from pliant.frameworks.mpi_scripts import AGENT, DISCOVER_HOSTS, RSH, WORKER
from pliant.model.framework import Framework, Rank, Role
from pliant.model.job import EndPolicy, Group, Job, Port

LAUNCHER, WORKERS = "launcher", "worker"
FOLDER = "/etc/mpi"
HOSTFILE, REMOTE_SHELL = f"{FOLDER}/hostfile", f"{FOLDER}/rsh"
GROWTH = 16
"""How many more workers than at first are looked for in a group that may grow without bounds."""


class Mpi(Framework):
    """Hosts and programs in /etc/mpi, and the variables by which MPI uses them.

    Options: `mpi_implementation` (OpenMPI, Intel, MPICH), `slots_per_worker`, by default its GPUs or one, and
    `run_launcher_as_worker`.
    """

    name = "mpi"
    aliases = ("horovod", "openmpi")
    port = Port("mpi-port", 9999)
    folder = FOLDER
    roles = (
        Role(name=LAUNCHER, aliases=("master", "chief"), completes=EndPolicy.RANK0),
        Role(name=WORKERS, completes=EndPolicy.NONE, may_resize=True),
    )

    def shared(self, job: Job) -> Mapping[str, str]:
        """How to start processes on other members."""
        workers = Cast(job, self).group(WORKERS)
        slots = str(_slots(job, workers)) if workers else "1"
        return _VARIABLES[_implementation(job)](slots)

    def environment(self, job: Job, rank: Rank, container: str) -> Mapping[str, str]:
        """Which part one plays; a launcher that asks for no GPU sees none."""
        role = Cast(job, self).role(rank.group)
        found = {"K_MPI_JOB_ROLE": role}
        if role == LAUNCHER and not devices(rank.group):
            found |= {"NVIDIA_VISIBLE_DEVICES": "", "NVIDIA_DRIVER_CAPABILITIES": ""}
        return found

    def files(self, job: Job) -> Mapping[str, str]:
        """The workers of today, the way to find those of tomorrow, and what runs commands on them."""
        cast = Cast(job, self)
        workers = cast.group(WORKERS)
        if workers is None:
            return {}
        roles = (LAUNCHER, WORKERS) if job.options.get("run_launcher_as_worker") else (WORKERS,)
        line = "{host} slots={slots}\n" if _implementation(job) == "openmpi" else "{host}:{slots}\n"
        slots = _slots(job, workers)
        # Who may read the job may read this; who may not cannot guess it.
        key = blake2b(f"mpi/{job.owner.uid}".encode(), digest_size=16).hexdigest()
        return {
            "hostfile": "".join(line.format(host=host, slots=slots) for host in cast.hosts(*roles)),
            "discover_hosts.sh": _discovery(cast, workers, slots),
            "rsh": RSH,
            "ssh": RSH,
            "worker": WORKER,
            "agent.py": AGENT,
            "agent.json": json.dumps({"port": cast.port(workers), "key": key}),
        }


def _discovery(cast: Cast, workers: Group, slots: int) -> str:
    most = workers.size + GROWTH if workers.most is None else workers.most
    hosts = " ".join(cast.host(workers, index) for index in range(most))
    return DISCOVER_HOSTS.format(hosts=hosts, slots=slots)


def _slots(job: Job, workers: Group) -> int:
    return int(job.options.get("slots_per_worker") or devices(workers) or 1)


def _implementation(job: Job) -> str:
    asked = str(job.options.get("mpi_implementation") or "").lower()
    return asked if asked in _VARIABLES else "openmpi"


def _open_mpi(slots: str) -> dict[str, str]:
    return {
        "OMPI_MCA_orte_keep_fqdn_hostnames": "true",
        "OMPI_MCA_orte_default_hostfile": HOSTFILE,
        "OMPI_MCA_orte_set_default_slots": slots,
        "OMPI_MCA_plm_rsh_agent": REMOTE_SHELL,
        "OMPI_MCA_plm_rsh_args": "-o ConnectionAttempts=10",
        # The same for Open MPI 5, whose launcher has another name.
        "PRTE_MCA_prte_default_hostfile": HOSTFILE,
        "PRTE_MCA_plm_ssh_agent": REMOTE_SHELL,
        # In a container everybody is root.
        "OMPI_ALLOW_RUN_AS_ROOT": "1",
        "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    }


def _intel(slots: str) -> dict[str, str]:
    return {
        "I_MPI_HYDRA_HOST_FILE": HOSTFILE,
        "I_MPI_HYDRA_BOOTSTRAP": "rsh",
        "I_MPI_HYDRA_BOOTSTRAP_EXEC": REMOTE_SHELL,
        "I_MPI_PERHOST": slots,
    }


def _mpich(slots: str) -> dict[str, str]:
    return {"HYDRA_HOST_FILE": HOSTFILE, "HYDRA_LAUNCHER": "rsh", "HYDRA_LAUNCHER_EXEC": REMOTE_SHELL}


_VARIABLES = {"openmpi": _open_mpi, "intel": _intel, "mpich": _mpich}
