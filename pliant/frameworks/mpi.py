"""MPI and Horovod: a launcher that starts processes on workers, by a list of hosts and without SSH."""

from __future__ import annotations

import json
from collections.abc import Mapping
from hashlib import blake2b

from pliant.frameworks.mpi_scripts import AGENT_SCRIPT, DISCOVER_HOSTS_SCRIPT, RSH_SCRIPT, WORKER_SCRIPT
from pliant.frameworks.role_assignment import RoleAssignment, count_gpus
from pliant.model.framework import Framework, Rank, Role
from pliant.model.job import EndPolicy, Job, Port, ReplicaGroup

LAUNCHER_ROLE, WORKER_ROLE = "launcher", "worker"
MPI_DIR = "/etc/mpi"
HOSTFILE_PATH, RSH_PATH = f"{MPI_DIR}/hostfile", f"{MPI_DIR}/rsh"
MAX_DISCOVERED_GROWTH = 16
"""How many more workers than at first are looked for in a group that may grow without bounds."""


class Mpi(Framework):
    """Hosts and programs in /etc/mpi, and the variables by which MPI uses them.

    Options: `mpi_implementation` (OpenMPI, Intel, MPICH), `slots_per_worker`, by default its GPUs or one, and
    `run_launcher_as_worker`.
    """

    name = "mpi"
    aliases = ("horovod", "openmpi")
    port = Port("mpi-port", 9999)
    files_dir = MPI_DIR
    roles = (
        Role(name=LAUNCHER_ROLE, aliases=("master", "chief"), complete_policy=EndPolicy.RANK0),
        Role(name=WORKER_ROLE, complete_policy=EndPolicy.NONE, may_resize=True),
    )

    def shared_environment(self, job: Job) -> Mapping[str, str]:
        """How to start processes on other members."""
        workers = RoleAssignment(job, self).first_group(WORKER_ROLE)
        slots = str(_slots_per_worker(job, workers)) if workers else "1"
        return _ENVIRONMENT_BY_IMPLEMENTATION[_mpi_implementation(job)](slots)

    def environment(self, job: Job, rank: Rank, container: str) -> Mapping[str, str]:
        """Which part one plays; a launcher that asks for no GPU sees none."""
        role = RoleAssignment(job, self).role_name(rank.group)
        found = {"K_MPI_JOB_ROLE": role}
        if role == LAUNCHER_ROLE and not count_gpus(rank.group):
            found |= {"NVIDIA_VISIBLE_DEVICES": "", "NVIDIA_DRIVER_CAPABILITIES": ""}
        return found

    def files(self, job: Job) -> Mapping[str, str]:
        """The workers of today, the way to find those of tomorrow, and what runs commands on them."""
        cast = RoleAssignment(job, self)
        workers = cast.first_group(WORKER_ROLE)
        if workers is None:
            return {}
        roles = (LAUNCHER_ROLE, WORKER_ROLE) if job.framework_options.get("run_launcher_as_worker") else (WORKER_ROLE,)
        line = "{host} slots={slots}\n" if _mpi_implementation(job) == "openmpi" else "{host}:{slots}\n"
        slots = _slots_per_worker(job, workers)
        # Who may read the job may read this; who may not cannot guess it.
        key = blake2b(f"mpi/{job.owner.uid}".encode(), digest_size=16).hexdigest()
        return {
            "hostfile": "".join(line.format(host=host, slots=slots) for host in cast.hosts(*roles)),
            "discover_hosts.sh": _discover_hosts_script(cast, workers, slots),
            "rsh": RSH_SCRIPT,
            "ssh": RSH_SCRIPT,
            "worker": WORKER_SCRIPT,
            "agent.py": AGENT_SCRIPT,
            "agent.json": json.dumps({"port": cast.group_port(workers), "key": key}),
        }


def _discover_hosts_script(assignment: RoleAssignment, workers: ReplicaGroup, slots: int) -> str:
    most = workers.size + MAX_DISCOVERED_GROWTH if workers.max_size is None else workers.max_size
    hosts = " ".join(assignment.host(workers, index) for index in range(most))
    return DISCOVER_HOSTS_SCRIPT.format(hosts=hosts, slots=slots)


def _slots_per_worker(job: Job, workers: ReplicaGroup) -> int:
    return int(job.framework_options.get("slots_per_worker") or count_gpus(workers) or 1)


def _mpi_implementation(job: Job) -> str:
    asked = str(job.framework_options.get("mpi_implementation") or "").lower()
    return asked if asked in _ENVIRONMENT_BY_IMPLEMENTATION else "openmpi"


def _open_mpi_environment(slots: str) -> dict[str, str]:
    return {
        "OMPI_MCA_orte_keep_fqdn_hostnames": "true",
        "OMPI_MCA_orte_default_hostfile": HOSTFILE_PATH,
        "OMPI_MCA_orte_set_default_slots": slots,
        "OMPI_MCA_plm_rsh_agent": RSH_PATH,
        "OMPI_MCA_plm_rsh_args": "-o ConnectionAttempts=10",
        # The same for Open MPI 5, whose launcher has another name.
        "PRTE_MCA_prte_default_hostfile": HOSTFILE_PATH,
        "PRTE_MCA_plm_ssh_agent": RSH_PATH,
        # In a container everybody is root.
        "OMPI_ALLOW_RUN_AS_ROOT": "1",
        "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    }


def _intel_mpi_environment(slots: str) -> dict[str, str]:
    return {
        "I_MPI_HYDRA_HOST_FILE": HOSTFILE_PATH,
        "I_MPI_HYDRA_BOOTSTRAP": "rsh",
        "I_MPI_HYDRA_BOOTSTRAP_EXEC": RSH_PATH,
        "I_MPI_PERHOST": slots,
    }


def _mpich_environment(slots: str) -> dict[str, str]:
    return {"HYDRA_HOST_FILE": HOSTFILE_PATH, "HYDRA_LAUNCHER": "rsh", "HYDRA_LAUNCHER_EXEC": RSH_PATH}


_ENVIRONMENT_BY_IMPLEMENTATION = {
    "openmpi": _open_mpi_environment,
    "intel": _intel_mpi_environment,
    "mpich": _mpich_environment,
}
