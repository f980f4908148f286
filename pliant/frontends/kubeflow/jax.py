"""JAXJob: equals that find each other at the first of them."""

from __future__ import annotations

from typing import Annotated

from msgspec import field

from pliant.frontends.crd import CustomKind, field_doc
from pliant.frontends.kubeflow.job import (
    API_GROUP,
    API_VERSION,
    PRINTER_COLUMNS,
    GroupEndPolicies,
    KubeflowJobFrontend,
    KubeflowKind,
    worker_scale_paths,
)
from pliant.frontends.kubeflow.types import KubeflowJobSpec, KubeflowJobStatus, KubeflowReplicaSpec
from pliant.model.job import EndPolicy, Port

WORKER = "Worker"


class JAXJobSpec(KubeflowJobSpec, frozen=True, kw_only=True, rename="camel"):
    """What is to be trained, and how."""

    jax_replica_specs: Annotated[dict[str, KubeflowReplicaSpec], field_doc("The groups: Worker.")] = field(
        default_factory=dict
    )


class JAXJobFrontend(KubeflowJobFrontend):
    """The front end of JAXJob."""

    kubeflow_kind = KubeflowKind(
        custom_kind=CustomKind(
            group=API_GROUP,
            version=API_VERSION,
            kind="JAXJob",
            plural="jaxjobs",
            description="A training job written with JAX.",
            spec_type=JAXJobSpec,
            status_type=KubeflowJobStatus,
            printer_columns=PRINTER_COLUMNS,
            scale_paths=worker_scale_paths("jaxReplicaSpecs"),
        ),
        framework="jax",
        replica_specs_field="jaxReplicaSpecs",
        roles=(WORKER,),
        main_container="jax",
        default_port=Port("jaxjob-port", 6666),
    )

    def end_policies(self, spec: JAXJobSpec, role: str, roles: tuple[str, ...]) -> GroupEndPolicies:
        """All workers' ends are the job's."""
        return GroupEndPolicies(EndPolicy.ALL)
