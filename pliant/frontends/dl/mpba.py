"""MXJob and TFJob of mpba.fbk.eu/v1."""

from __future__ import annotations

from collections.abc import Mapping

from pliant.frontends.dl.job import DLJob
from pliant.frontends.dl.pod_templates import ContainerProperties
from pliant.frontends.dl.replica import DLReplica
from pliant.model.job import Naming

API_GROUP = "mpba.fbk.eu"
POD_NAMING = Naming(
    pod="{group}-{job}-{index}", service="{pod}-service", labels={"pod_name": "{pod}", "job_name": "{job}"}
)


class MpbaMXJob(DLJob):
    """A training job that runs MXNet with a scheduler, servers and workers."""

    job_type = "MXJob"
    group = API_GROUP
    naming = POD_NAMING
    replica_types = ("scheduler", "server", "worker")
    container_properties = ContainerProperties(ports={"mxjob-port": 9000})
    frameworks = ("mxnet",)

    def get_environment_variables(self, replica: DLReplica) -> Mapping[str, str]:
        """Return the address of the scheduler; the MXNet framework adds the other DMLC variables."""
        return {
            "DMLC_PS_ROOT_URI": replica.host_of("scheduler"),
            "DMLC_PS_ROOT_PORT": str(replica.port_of("scheduler")),
            "PS_VERBOSE": "2",
        }


class MpbaTFJob(DLJob):
    """A training job that runs TensorFlow with parameter servers and workers, or a chief and workers."""

    job_type = "TFJob"
    group = API_GROUP
    naming = POD_NAMING
    replica_types = ("chief", "master", "ps", "evaluator", "worker")
    container_properties = ContainerProperties(ports={"tfjob-port": 2222})
    completing = ("chief", "master", "worker")
    frameworks = ("tensorflow",)

    def get_environment_variables(self, replica: DLReplica) -> Mapping[str, str]:
        """Return no variables; the TensorFlow framework adds TF_CONFIG."""
        return {}
