"""The spec and status of a PaddleJob of paddlepaddle.org; the CRD schema is generated from these structs."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Meta, Struct, field

from pliant.frontends import fields
from pliant.frontends.crd import field_doc
from pliant.frontends.fields import MAX_REPLICAS_PER_JOB

MAX_PORTS = 200

GroupSize = Annotated[int, Meta(ge=0, le=MAX_REPLICAS_PER_JOB)]
Count = Annotated[int, Meta(ge=0, le=2**31 - 1)]
PortCount = Annotated[int, Meta(ge=0, le=MAX_PORTS)]
PortNumber = Annotated[int, Meta(ge=0, le=65535)]
JsonObjectList = list[dict[str, Any]]


class PaddleResources(Struct, frozen=True, kw_only=True):
    """Compute resources of each replica."""

    limits: Annotated[dict[str, Any], field_doc("Maximum resources: cpu, memory, nvidia.com/gpu, …")] = {}
    requests: Annotated[dict[str, Any], field_doc("Requested resources.")] = {}


class PaddleRoleSpec(Struct, frozen=True, kw_only=True):
    """The replicas of one role."""

    min_instance: Annotated[GroupSize, field_doc("Initial and minimum number of replicas.")] = field(
        default=0, name="min-instance"
    )
    max_instance: Annotated[GroupSize, field_doc("Maximum number of trainers; ignored for other roles.")] = field(
        default=0, name="max-instance"
    )
    resources: Annotated[PaddleResources, field_doc("Compute resources of each replica.")] = PaddleResources()
    entrypoint: Annotated[str, field_doc("Shell command to run. Servers default to the command of the trainers.")] = ""
    image_pull_secrets: Annotated[JsonObjectList, field_doc("Additional image pull secrets.")] = field(
        default_factory=list, name="imagePullSecrets"
    )
    envs: Annotated[Any, field_doc("Additional environment variables: a map, or a list as in pods.")] = None
    grace_period_seconds: Annotated[Count | None, field_doc("Termination grace period of the pods.")] = None
    pre_stop_cmd: Annotated[Any, field_doc("Command of the preStop hook; requires grace_period_seconds.")] = None
    tolerations: Annotated[JsonObjectList, field_doc("Tolerations of the pods.")] = []
    node_selector: Annotated[dict[str, Any], field_doc("Node selector of the pods.")] = {}
    liveness_probe: Annotated[dict[str, Any], field_doc("Liveness probe of the container.")] = {}
    readiness_probe: Annotated[dict[str, Any], field_doc("Readiness probe of the container.")] = {}
    restart_limit: Annotated[Any, field_doc("Maximum number of restarts: a number, or a percentage such as 50%.")] = (
        None
    )


class PaddleTrainerSpec(PaddleRoleSpec, frozen=True, kw_only=True):
    """The trainers. The job completes when they succeed."""

    instances: Annotated[GroupSize | None, field_doc("Desired number of trainers, as set by `kubectl scale`.")] = None
    workspace: Annotated[str, field_doc("Working directory of the program, which is added to PYTHONPATH.")] = ""
    passes: Annotated[Count | None, field_doc("Number of passes over the data, for the program.")] = None
    trainer_gpu: Annotated[Count, field_doc("GPUs of each trainer.")] = 0


class PaddleJobSpec(Struct, frozen=True, kw_only=True):
    """Specification of the desired behavior of the job."""

    image: Annotated[str, field_doc("Image of all roles. Default: paddlepaddle/paddlecloud-job.")] = ""
    port: Annotated[PortNumber, field_doc("First port of servers and trainers. Default: 7164.")] = 0
    ports_num: Annotated[PortCount | None, field_doc("Number of ports for dense parameters. Default: 1.")] = None
    ports_num_for_sparse: Annotated[PortCount | None, field_doc("Ports for sparse parameters. Default: 1.")] = None
    trainer_port: Annotated[PortNumber, field_doc("First port of the trainers, if it differs from `port`.")] = 0
    trainer_ports_num: Annotated[PortCount | None, field_doc("Number of ports of the trainers. Default: 1.")] = None
    mount_path: Annotated[str, field_doc("Mount path of the volume job-workspace in servers and trainers.")] = field(
        default="", name="mountPath"
    )
    trainer_package: Annotated[str, field_doc("Alias of trainer.workspace.")] = ""
    scheduler_name: Annotated[str, field_doc("Scheduler of the pods.")] = field(default="", name="schedulerName")
    pod_group_name: Annotated[str, field_doc("PodGroup of the pods.")] = field(default="", name="podGroupName")
    fault_tolerant: Annotated[
        bool | None,
        field_doc("""If true, the job has a master with etcd and tolerates the loss of trainers. If false, the number
        of trainers is fixed at the start."""),
    ] = None
    passes: Annotated[Count | None, field_doc("Number of passes over the data, unless trainer.passes is set.")] = None
    host_network: Annotated[bool, field_doc("Whether the pods use the network of their nodes.")] = False
    volumes: Annotated[JsonObjectList, field_doc("Volumes of all pods.")] = []
    volume_mounts: Annotated[JsonObjectList, field_doc("Volume mounts of all roles.")] = field(
        default_factory=list, name="VolumeMounts"
    )
    node_selector: Annotated[dict[str, Any], field_doc("Node selector of all pods.")] = field(
        default_factory=dict, name="NodeSelector"
    )
    image_pull_secrets: Annotated[JsonObjectList, field_doc("Image pull secrets of all pods.")] = field(
        default_factory=list, name="imagePullSecrets"
    )
    local_job: Annotated[bool, field_doc("Whether the job consists of a single trainer.")] = False
    is_nccl: Annotated[bool, field_doc("Whether the trainers communicate by NCCL, without servers.")] = False
    frame_work: Annotated[
        dict[str, Any], field_doc("`type: local` is equivalent to local_job, `nccl2` to is_nccl.")
    ] = {}
    annotations: Annotated[dict[str, Any], field_doc("`walltime`: seconds that the job may be active.")] = {}
    suspend: fields.Suspend = False
    managed_by: fields.ManagedBy = field(default="", name="managedBy")
    pserver: Annotated[PaddleRoleSpec | None, field_doc("The parameter servers; their number is min-instance.")] = None
    trainer: Annotated[PaddleTrainerSpec | None, field_doc("The trainers.")] = None
    master: Annotated[PaddleRoleSpec | None, field_doc("The master of a fault-tolerant job.")] = None


class PaddleRoleStatus(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Status of the replicas of one role."""

    training_resource_type: Annotated[str, field_doc("PSERVER, TRAINER or MASTER.")]
    state: Annotated[str, field_doc("starting, running, succeeded or failed.")] = ""
    resource_states: Annotated[dict[str, int], field_doc("Number of replicas by state.")] = {}


class PaddleJobStatus(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """Most recently observed status of the job."""

    phase: Annotated[str, field_doc("creating, running, scaling, suspended, succeeded or failed.")] = ""
    reason: fields.Message = ""
    invalid: Annotated[str, field_doc("Validation error of the spec; absent if the spec is valid.")] = ""
    ready: fields.Ready = ""
    conditions: fields.JobConditions = ()
    replicas: Annotated[int | None, field_doc("Number of trainers.")] = None
    selector: fields.Selector = ""
    restarts: fields.Restarts = None
    replica_statuses: Annotated[tuple[PaddleRoleStatus, ...], field_doc("Status by role.", nullable=True)] = field(
        default=(), name="replica_statuses"
    )
    scaling: fields.Scaling = ()
    root_cause: fields.RootCause = None
    start_time: fields.StartTime = None
    running_time: fields.RunningTime = None
    completion_time: fields.CompletionTime = None
    last_reconcile_time: fields.LastReconcileTime = None
    progress: fields.Progress = None
    pliant: fields.EngineStateData = {}
