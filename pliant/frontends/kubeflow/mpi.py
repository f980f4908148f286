"""MPIJob: a launcher starts processes on workers that wait for it."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Any

from msgspec import field

from pliant.frontends.crd import field_doc
from pliant.frontends.fields import Count
from pliant.frontends.kubeflow.job import KubeflowJobFrontend, KubeflowKind, define_kind
from pliant.frontends.kubeflow.types import KubeflowJobSpec, KubeflowReplicaSpec, KubeflowReplicaSpecs
from pliant.model.job import CleanPodPolicy, Port

LAUNCHER, WORKER = "Launcher", "Worker"
WORKER_AGENT_COMMAND = "/etc/mpi/worker"
"""The default command of workers: it starts the processes that the launcher requests."""
IDLE_WORKER_PROGRAMS = frozenset({"sleep", "sshd"})
"""Programs with which workers wait for the launchers of other operators."""


class MPIImplementation(StrEnum):
    OPEN_MPI = "OpenMPI"
    INTEL = "Intel"
    MPICH = "MPICH"


class MPIJobSpec(KubeflowJobSpec, frozen=True, kw_only=True, rename="camel"):
    """Specification of the desired behavior of the job."""

    slots_per_worker: Annotated[Count | None, field_doc("Maximum number of processes per worker. Default: 1.")] = None
    main_container: Annotated[str, field_doc("Container of the program. Default: mpi, else all containers.")] = ""
    mpi_implementation: Annotated[MPIImplementation | None, field_doc("OpenMPI (the default), Intel or MPICH.")] = None
    run_launcher_as_worker: Annotated[
        bool, field_doc("Whether the launcher is also a worker.", ignored="only workers run processes")
    ] = False
    launcher_creation_policy: Annotated[
        str, field_doc("When the launcher is created.", ignored="it is created with the workers and waits for them")
    ] = ""
    ssh_auth_mount_path: Annotated[str, field_doc("Mount path of SSH keys.", ignored="no SSH is used")] = ""
    mpi_replica_specs: Annotated[KubeflowReplicaSpecs, field_doc("Replicas by type: Launcher, Worker.")] = field(
        default_factory=dict
    )


class MPIJobFrontend(KubeflowJobFrontend):
    custom_kind = define_kind(
        "MPIJob",
        MPIJobSpec,
        "A job whose processes are started by an MPI launcher.",
        "mpiReplicaSpecs",
        is_scalable=True,
        other_versions=("v2beta1",),
    )
    kubeflow_kind = KubeflowKind(
        framework="mpi",
        replica_specs_field="mpiReplicaSpecs",
        roles=(LAUNCHER, WORKER),
        main_container="mpi",
        default_port=Port("mpi-port", 9999),
        # After the launcher has finished, the workers wait in vain.
        default_clean_pod_policy=CleanPodPolicy.RUNNING,
        single_replica_roles=frozenset({LAUNCHER}),
        required_role=LAUNCHER,
        pod_overrides={"launcher": "{job}-launcher"},
    )

    def pod_template(self, spec: MPIJobSpec, role: str, replica: KubeflowReplicaSpec) -> Mapping[str, Any]:
        """Return the template; workers without a command, or with an idle one, run WORKER_COMMAND."""
        pod = replica.template.get("spec")
        containers = pod.get("containers") if isinstance(pod, Mapping) else None
        if role != WORKER or not isinstance(containers, list) or not isinstance(pod, Mapping) or not containers:
            return replica.template
        first, *others = containers
        if _is_idle_container(first):
            first = {
                **{name: value for name, value in first.items() if name != "args"},
                "command": [WORKER_AGENT_COMMAND],
            }
        return {**replica.template, "spec": {**pod, "containers": [first, *others]}}

    def main_container(self, spec: MPIJobSpec) -> str:
        return spec.main_container or self.kubeflow_kind.main_container

    def framework_options(self, spec: MPIJobSpec) -> Mapping[str, Any]:
        return {
            "slots_per_worker": spec.slots_per_worker,
            "mpi_implementation": spec.mpi_implementation,
            "main_container": spec.main_container,
        }


def _is_idle_container(container: Any) -> bool:
    """Return whether a container waits for a launcher that uses kubectl or ssh."""
    if not isinstance(container, Mapping):
        return False
    command = container.get("command") or ()
    program = command[0] if isinstance(command, list) and command else ""
    return not command or (isinstance(program, str) and program.rpartition("/")[2] in IDLE_WORKER_PROGRAMS)
