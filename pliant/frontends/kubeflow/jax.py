"""JAXJob: workers that initialize through the first worker."""

from __future__ import annotations

from typing import Annotated

from msgspec import field

from pliant.frontends.crd import field_doc
from pliant.frontends.kubeflow.job import GroupEndPolicies, KubeflowJobFrontend, KubeflowKind, define_kind
from pliant.frontends.kubeflow.types import KubeflowJobSpec, KubeflowReplicaSpecs
from pliant.model.job import EndPolicy, Port

WORKER = "Worker"


class JAXJobSpec(KubeflowJobSpec, frozen=True, kw_only=True, rename="camel"):
    """Specification of the desired behavior of the job."""

    jax_replica_specs: Annotated[KubeflowReplicaSpecs, field_doc("Replicas by type: Worker.")] = field(
        default_factory=dict
    )


class JAXJobFrontend(KubeflowJobFrontend):
    custom_kind = define_kind(
        "JAXJob", JAXJobSpec, "A training job that runs JAX.", "jaxReplicaSpecs", is_scalable=True
    )
    kubeflow_kind = KubeflowKind(
        framework="jax",
        replica_specs_field="jaxReplicaSpecs",
        roles=(WORKER,),
        main_container="jax",
        default_port=Port("jaxjob-port", 6666),
    )

    def end_policies(self, spec: JAXJobSpec, role: str, roles: tuple[str, ...]) -> GroupEndPolicies:
        """The job completes when all workers succeed."""
        return GroupEndPolicies(EndPolicy.ALL)
