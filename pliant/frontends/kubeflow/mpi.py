"""MPIJob: a launcher starts the processes of workers that wait for it."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Any

from msgspec import field

from pliant.frontends.crd import CustomKind, told
from pliant.frontends.kubeflow.base import COLUMNS, GROUP, VERSION, Dialect, KubeflowJob, worker_scale
from pliant.frontends.kubeflow.types import Count, JobSpec, JobStatus, ReplicaSpec
from pliant.model.job import CleanPolicy, Port

LAUNCHER, WORKER = "Launcher", "Worker"
SERVING = "/etc/mpi/worker"
"""What workers do that are told nothing else: they start what the launcher asks for."""
WAITING = frozenset({"sleep", "sshd"})
"""Programs by which workers wait for a launcher under other operators."""


class Implementation(StrEnum):
    """Which MPI the programs were built with."""

    OPEN_MPI = "OpenMPI"
    INTEL = "Intel"
    MPICH = "MPICH"


class MPIJobSpec(JobSpec, frozen=True, kw_only=True, rename="camel"):
    """What is to be trained, and how."""

    slots_per_worker: Annotated[Count | None, told("Processes that a worker has room for. Default: 1.")] = None
    main_container: Annotated[str, told("The container that runs the program. Default: mpi, else all.")] = ""
    mpi_implementation: Annotated[
        Implementation | None, told("Which MPI it is: OpenMPI (the default), Intel, MPICH.")
    ] = None
    run_launcher_as_worker: Annotated[bool, told("Whether the launcher is a worker too; not read.")] = False
    launcher_creation_policy: Annotated[str, told("When the launcher starts; not read.")] = ""
    ssh_auth_mount_path: Annotated[str, told("Where keys of ssh are; not read.")] = ""
    mpi_replica_specs: Annotated[dict[str, ReplicaSpec], told("The groups: Launcher, Worker.")] = field(
        default_factory=dict
    )


class MPIJob(KubeflowJob):
    """The front end of MPIJob."""

    dialect = Dialect(
        kind=CustomKind(
            group=GROUP,
            version=VERSION,
            versions=("v2beta1",),
            kind="MPIJob",
            plural="mpijobs",
            description="A job whose processes are started by an MPI launcher.",
            spec=MPIJobSpec,
            status=JobStatus,
            columns=COLUMNS,
            scale=worker_scale("mpiReplicaSpecs"),
        ),
        framework="mpi",
        replica_specs="mpiReplicaSpecs",
        roles=(LAUNCHER, WORKER),
        container="mpi",
        port=Port("mpi-port", 9999),
        # Workers wait for a launcher that comes no more: nobody wants to keep those.
        clean=CleanPolicy.RUNNING,
        single=frozenset({LAUNCHER}),
        needed=LAUNCHER,
        pods={"launcher": "{job}-launcher"},
    )

    def template(self, spec: MPIJobSpec, role: str, replica: ReplicaSpec) -> Mapping[str, Any]:
        """Workers that are to do nothing, or to wait, serve the launcher."""
        pod = replica.template.get("spec")
        containers = pod.get("containers") if isinstance(pod, Mapping) else None
        if role != WORKER or not isinstance(containers, list) or not isinstance(pod, Mapping):
            return replica.template
        serving = [
            _serving(each) if number == 0 and _waits(each) else each for number, each in enumerate(containers)
        ]
        return {**replica.template, "spec": {**pod, "containers": serving}}

    def container(self, spec: MPIJobSpec) -> str:
        """The container that the author names, or the usual one."""
        return spec.main_container or self.dialect.container

    def options(self, spec: MPIJobSpec) -> Mapping[str, Any]:
        """What the launcher is told."""
        return {
            "slots_per_worker": spec.slots_per_worker,
            "mpi_implementation": spec.mpi_implementation,
            "main_container": spec.main_container,
        }


def _waits(container: Any) -> bool:
    """Whether a container waits for a launcher that comes by kubectl or ssh."""
    if not isinstance(container, Mapping):
        return False
    words = container.get("command") or ()
    program = words[0] if isinstance(words, list) and words else ""
    return not words or (isinstance(program, str) and program.rpartition("/")[2] in WAITING)


def _serving(container: Mapping[str, Any]) -> dict[str, Any]:
    return {**{name: value for name, value in container.items() if name != "args"}, "command": [SERVING]}
