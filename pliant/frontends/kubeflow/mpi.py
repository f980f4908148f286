"""MPIJob: a launcher starts the processes of workers that wait for it."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Any

from msgspec import field

from pliant.frontends.crd import CustomKind, field_doc
from pliant.frontends.kubeflow.job import (
    API_GROUP,
    API_VERSION,
    PRINTER_COLUMNS,
    KubeflowJobFrontend,
    KubeflowKind,
    worker_scale_paths,
)
from pliant.frontends.kubeflow.types import Count, KubeflowJobSpec, KubeflowJobStatus, KubeflowReplicaSpec
from pliant.model.job import CleanPodPolicy, Port

LAUNCHER, WORKER = "Launcher", "Worker"
WORKER_COMMAND = "/etc/mpi/worker"
"""What workers do that are told nothing else: they start what the launcher asks for."""
IDLE_COMMANDS = frozenset({"sleep", "sshd"})
"""Programs by which workers wait for a launcher under other operators."""


class MPIImplementation(StrEnum):
    """Which MPI the programs were built with."""

    OPEN_MPI = "OpenMPI"
    INTEL = "Intel"
    MPICH = "MPICH"


class MPIJobSpec(KubeflowJobSpec, frozen=True, kw_only=True, rename="camel"):
    """What is to be trained, and how."""

    slots_per_worker: Annotated[Count | None, field_doc("Processes that a worker has room for. Default: 1.")] = None
    main_container: Annotated[str, field_doc("The container that runs the program. Default: mpi, else all.")] = ""
    mpi_implementation: Annotated[
        MPIImplementation | None, field_doc("Which MPI it is: OpenMPI (the default), Intel, MPICH.")
    ] = None
    run_launcher_as_worker: Annotated[bool, field_doc("Whether the launcher is a worker too; not read.")] = False
    launcher_creation_policy: Annotated[str, field_doc("When the launcher starts; not read.")] = ""
    ssh_auth_mount_path: Annotated[str, field_doc("Where keys of ssh are; not read.")] = ""
    mpi_replica_specs: Annotated[dict[str, KubeflowReplicaSpec], field_doc("The groups: Launcher, Worker.")] = field(
        default_factory=dict
    )


class MPIJobFrontend(KubeflowJobFrontend):
    """The front end of MPIJob."""

    kubeflow_kind = KubeflowKind(
        custom_kind=CustomKind(
            group=API_GROUP,
            version=API_VERSION,
            other_versions=("v2beta1",),
            kind="MPIJob",
            plural="mpijobs",
            description="A job whose processes are started by an MPI launcher.",
            spec_type=MPIJobSpec,
            status_type=KubeflowJobStatus,
            printer_columns=PRINTER_COLUMNS,
            scale_paths=worker_scale_paths("mpiReplicaSpecs"),
        ),
        framework="mpi",
        replica_specs_field="mpiReplicaSpecs",
        roles=(LAUNCHER, WORKER),
        main_container="mpi",
        default_port=Port("mpi-port", 9999),
        # Workers wait for a launcher that comes no more: nobody wants to keep those.
        default_clean_pod_policy=CleanPodPolicy.RUNNING,
        single_replica_roles=frozenset({LAUNCHER}),
        required_role=LAUNCHER,
        pod_overrides={"launcher": "{job}-launcher"},
    )

    def pod_template(self, spec: MPIJobSpec, role: str, replica: KubeflowReplicaSpec) -> Mapping[str, Any]:
        """Workers that are to do nothing, or to wait, serve the launcher."""
        pod = replica.template.get("spec")
        containers = pod.get("containers") if isinstance(pod, Mapping) else None
        if role != WORKER or not isinstance(containers, list) or not isinstance(pod, Mapping):
            return replica.template
        serving = [
            _with_worker_command(each) if number == 0 and _is_idle_container(each) else each
            for number, each in enumerate(containers)
        ]
        return {**replica.template, "spec": {**pod, "containers": serving}}

    def main_container(self, spec: MPIJobSpec) -> str:
        """The container that the author names, or the usual one."""
        return spec.main_container or self.kubeflow_kind.main_container

    def framework_options(self, spec: MPIJobSpec) -> Mapping[str, Any]:
        """What the launcher is told."""
        return {
            "slots_per_worker": spec.slots_per_worker,
            "mpi_implementation": spec.mpi_implementation,
            "main_container": spec.main_container,
        }


def _is_idle_container(container: Any) -> bool:
    """Whether a container waits for a launcher that comes by kubectl or ssh."""
    if not isinstance(container, Mapping):
        return False
    words = container.get("command") or ()
    program = words[0] if isinstance(words, list) and words else ""
    return not words or (isinstance(program, str) and program.rpartition("/")[2] in IDLE_COMMANDS)


def _with_worker_command(container: Mapping[str, Any]) -> dict[str, Any]:
    return {**{name: value for name, value in container.items() if name != "args"}, "command": [WORKER_COMMAND]}
