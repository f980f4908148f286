"""MPI and Horovod: a launcher that starts processes on the workers of a hostfile, without SSH."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from hashlib import blake2b

from pliant.frameworks.mpi_scripts import (
    DISCOVER_HOSTS_SCRIPT,
    RSH_SCRIPT,
    WORKER_AGENT_SCRIPT,
    WORKER_ENTRYPOINT_SCRIPT,
)
from pliant.frameworks.role_assignment import RoleAssignment, gpus_per_replica
from pliant.model.departures import PublishedMember
from pliant.model.framework import Framework, Rank, Role
from pliant.model.job import EndPolicy, Job, Port, ReplicaGroup, ResizeMode
from pliant.model.labels import job_service_name

LAUNCHER_ROLE, WORKER_ROLE = "launcher", "worker"
MPI_DIR = "/etc/mpi"
HOSTFILE_PATH, RSH_PATH = f"{MPI_DIR}/hostfile", f"{MPI_DIR}/rsh"
MAX_DISCOVERED_EXTRA_WORKERS = 16
"""How many workers above the size discover_hosts.sh looks for if the group has no maximum size."""


class Mpi(Framework):
    """The hostfile and scripts in /etc/mpi, and the variables that make MPI use them.

    Options: `mpi_implementation` (OpenMPI, Intel, MPICH), `slots_per_worker` (default: the number of GPUs, at least
    1) and `run_launcher_as_worker`.
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
        workers = RoleAssignment(job, self).first_group(WORKER_ROLE)
        slots = str(_slots_per_worker(job, workers)) if workers else "1"
        match _mpi_implementation(job):
            case "intel":
                return {**_INTEL_MPI_ENVIRONMENT, "I_MPI_PERHOST": slots}
            case "mpich":
                return _MPICH_ENVIRONMENT
            case _:
                return {**_OPEN_MPI_ENVIRONMENT, "OMPI_MCA_orte_set_default_slots": slots}

    def environment(self, job: Job, rank: Rank, container: str) -> Mapping[str, str]:
        role = RoleAssignment(job, self).role_name(rank.group)
        variables = {"K_MPI_JOB_ROLE": role}
        # A launcher without a GPU request must not see the GPUs of its node.
        if role == LAUNCHER_ROLE and not gpus_per_replica(rank.group):
            variables |= {"NVIDIA_VISIBLE_DEVICES": "", "NVIDIA_DRIVER_CAPABILITIES": ""}
        return variables

    def files(self, job: Job) -> Mapping[str, str]:
        """Return the hostfile, the host discovery script for elastic jobs, and the programs that replace SSH."""
        assignment = RoleAssignment(job, self)
        workers = assignment.first_group(WORKER_ROLE)
        if workers is None:
            return {}
        roles = (LAUNCHER_ROLE, WORKER_ROLE) if job.framework_options.get("run_launcher_as_worker") else (WORKER_ROLE,)
        line = "{host} slots={slots}\n" if _mpi_implementation(job) == "openmpi" else "{host}:{slots}\n"
        slots = _slots_per_worker(job, workers)
        max_size = workers.size + MAX_DISCOVERED_EXTRA_WORKERS if workers.max_size is None else workers.max_size
        hosts = [assignment.host(workers, index) for index in range(max_size)]
        # Readable for users who may read the job; others cannot guess the UID.
        key = blake2b(f"mpi/{job.owner.uid}".encode(), digest_size=16).hexdigest()
        return {
            "hostfile": "".join(line.format(host=host, slots=slots) for host in assignment.hosts(*roles)),
            "discover_hosts.sh": DISCOVER_HOSTS_SCRIPT.format(hosts=" ".join(hosts), slots=slots),
            "rsh": RSH_SCRIPT,
            "ssh": RSH_SCRIPT,
            "worker": WORKER_ENTRYPOINT_SCRIPT,
            "agent.py": WORKER_AGENT_SCRIPT,
            "agent.json": json.dumps(
                {"port": assignment.group_port(workers), "key": key, "service": job_service_name(job)}
            ),
        }

    def membership_files(self, job: Job, members: Sequence[PublishedMember]) -> Mapping[str, str]:
        """Return the current workers for discover_hosts.sh, one `host:slots` per line."""
        workers = RoleAssignment(job, self).first_group(WORKER_ROLE)
        if workers is None or workers.resize_mode is ResizeMode.FIXED:
            return {}
        hosts = [
            member.address.removesuffix(f".{job.key.namespace}") for member in members if member.group == workers.name
        ]
        slots = _slots_per_worker(job, workers)
        return {"hosts": "".join(f"{host}:{slots}\n" for host in hosts)}


def _slots_per_worker(job: Job, workers: ReplicaGroup) -> int:
    return int(job.framework_options.get("slots_per_worker") or gpus_per_replica(workers) or 1)


def _mpi_implementation(job: Job) -> str:
    option = str(job.framework_options.get("mpi_implementation") or "").lower()
    return option if option in ("intel", "mpich") else "openmpi"


_OPEN_MPI_ENVIRONMENT = {
    "OMPI_MCA_orte_keep_fqdn_hostnames": "true",
    "OMPI_MCA_orte_default_hostfile": HOSTFILE_PATH,
    "OMPI_MCA_plm_rsh_agent": RSH_PATH,
    "OMPI_MCA_plm_rsh_args": "-o ConnectionAttempts=10",
    # The same for Open MPI 5, whose launcher is PRRTE.
    "PRTE_MCA_prte_default_hostfile": HOSTFILE_PATH,
    "PRTE_MCA_plm_ssh_agent": RSH_PATH,
    # Containers usually run as root.
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
}
_INTEL_MPI_ENVIRONMENT = {
    "I_MPI_HYDRA_HOST_FILE": HOSTFILE_PATH,
    "I_MPI_HYDRA_BOOTSTRAP": "rsh",
    "I_MPI_HYDRA_BOOTSTRAP_EXEC": RSH_PATH,
}
_MPICH_ENVIRONMENT = {"HYDRA_HOST_FILE": HOSTFILE_PATH, "HYDRA_LAUNCHER": "rsh", "HYDRA_LAUNCHER_EXEC": RSH_PATH}
