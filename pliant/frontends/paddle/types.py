"""The fields of a PaddleJob of paddlepaddle.org, under the names used most: the source of its schema."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Meta, Struct, field

from pliant.frontends.crd import field_doc
from pliant.frontends.scaling import GroupScalingStatus
from pliant.frontends.status.results import ProgressStatus, ReplicaFailureStatus
from pliant.model.state import Timestamp

MAX_REPLICAS = 10_000
MAX_PORTS = 200

GroupSize = Annotated[int, Meta(ge=0, le=MAX_REPLICAS)]
Count = Annotated[int, Meta(ge=0, le=2**31 - 1)]
PortCount = Annotated[int, Meta(ge=0, le=MAX_PORTS)]
PortNumber = Annotated[int, Meta(ge=0, le=65535)]
Seconds = Annotated[int, Meta(ge=0, le=2**31 - 1)]
JsonObjectList = list[dict[str, Any]]


class PaddleResources(Struct, frozen=True, kw_only=True):
    """What each member asks for, and what it may use at most."""

    limits: Annotated[dict[str, Any], field_doc("The most it may use: cpu, memory, nvidia.com/gpu, …")] = {}
    requests: Annotated[dict[str, Any], field_doc("What it asks for.")] = {}


class PaddleRoleSpec(Struct, frozen=True, kw_only=True):
    """The members of one role."""

    min_instance: Annotated[GroupSize, field_doc("How many there are at first, and at least.")] = field(
        default=0, name="min-instance"
    )
    max_instance: Annotated[GroupSize, field_doc("How many trainers there may be; of others it is not read.")] = field(
        default=0, name="max-instance"
    )
    resources: Annotated[PaddleResources, field_doc("What each asks for.")] = PaddleResources()
    entrypoint: Annotated[str, field_doc("What to run, by a shell; servers run what trainers run unless they say.")] = (
        ""
    )
    image_pull_secrets: Annotated[JsonObjectList, field_doc("More secrets to pull the image with.")] = field(
        default_factory=list, name="imagePullSecrets"
    )
    envs: Annotated[Any, field_doc("More variables: a map, or a list as in pods.")] = None
    grace_period_seconds: Annotated[Seconds | None, field_doc("How long a member may take to stop.")] = None
    pre_stop_cmd: Annotated[Any, field_doc("What runs first when a member is stopped, given grace_period_seconds.")] = (
        None
    )
    tolerations: Annotated[JsonObjectList, field_doc("Taints of nodes that are borne.")] = []
    node_selector: Annotated[dict[str, Any], field_doc("Labels that a node must have.")] = {}
    liveness_probe: Annotated[dict[str, Any], field_doc("As in pods.")] = {}
    readiness_probe: Annotated[dict[str, Any], field_doc("As in pods.")] = {}
    restart_limit: Annotated[
        Any, field_doc("Restarts of the role's members: a number, or a share of the role's size such as 50%.")
    ] = None


class PaddleTrainerSpec(PaddleRoleSpec, frozen=True, kw_only=True):
    """The trainers, whose success is the job's."""

    instances: Annotated[
        GroupSize | None, field_doc("How many there are to be, between the bounds: what `kubectl scale` writes.")
    ] = None
    workspace: Annotated[str, field_doc("The folder of the program: it starts there, and imports from there.")] = ""
    passes: Annotated[Count | None, field_doc("How often to go through the data, told to the program.")] = None
    trainer_gpu: Annotated[Count, field_doc("GPUs of each trainer.")] = 0


class PaddleJobSpec(Struct, frozen=True, kw_only=True):
    """What is to be trained, and how."""

    image: Annotated[str, field_doc("The image of all roles. Default: paddlepaddle/paddlecloud-job.")] = ""
    port: Annotated[PortNumber, field_doc("The first port of servers and trainers. Default: 7164.")] = 0
    ports_num: Annotated[PortCount | None, field_doc("How many ports there are for dense parameters. Default: 1.")] = (
        None
    )
    ports_num_for_sparse: Annotated[PortCount | None, field_doc("How many more for sparse ones. Default: 1.")] = None
    trainer_port: Annotated[PortNumber, field_doc("The first port of trainers, if they have others.")] = 0
    trainer_ports_num: Annotated[PortCount | None, field_doc("How many of those. Default: 1.")] = None
    mount_path: Annotated[str, field_doc("Where the volume job-workspace is mounted in servers and trainers.")] = field(
        default="", name="mountPath"
    )
    trainer_package: Annotated[str, field_doc("Another word for trainer.workspace.")] = ""
    scheduler_name: Annotated[str, field_doc("Who places the pods.")] = field(default="", name="schedulerName")
    pod_group_name: Annotated[str, field_doc("The PodGroup that the pods belong to.")] = field(
        default="", name="podGroupName"
    )
    fault_tolerant: Annotated[
        bool | None,
        field_doc("True: with a master and etcd, and trainers may be lost. False: their number is fixed at the start."),
    ] = None
    passes: Annotated[Count | None, field_doc("How often to go through the data, unless trainer.passes says.")] = None
    host_network: Annotated[bool, field_doc("Whether pods use the network of their nodes.")] = False
    volumes: Annotated[JsonObjectList, field_doc("Volumes of all pods.")] = []
    volume_mounts: Annotated[JsonObjectList, field_doc("Where they are mounted, in all roles.")] = field(
        default_factory=list, name="VolumeMounts"
    )
    node_selector: Annotated[dict[str, Any], field_doc("Labels that nodes must have.")] = field(
        default_factory=dict, name="NodeSelector"
    )
    image_pull_secrets: Annotated[JsonObjectList, field_doc("Secrets to pull the image with.")] = field(
        default_factory=list, name="imagePullSecrets"
    )
    local_job: Annotated[bool, field_doc("Whether there is one trainer and nobody else.")] = False
    is_nccl: Annotated[bool, field_doc("Whether trainers talk to each other, without servers.")] = False
    frame_work: Annotated[dict[str, Any], field_doc("type: local or nccl2 say the same as local_job and is_nccl.")] = {}
    annotations: Annotated[dict[str, Any], field_doc("walltime: seconds that the job may take; all else is kept.")] = {}
    suspend: Annotated[bool, field_doc("Whether the job rests: its pods are deleted, its place is kept.")] = False
    managed_by: Annotated[str, field_doc("Who looks after the job; others than us are left to do so.")] = field(
        default="", name="managedBy"
    )
    pserver: Annotated[PaddleRoleSpec | None, field_doc("The parameter servers; as many as min-instance.")] = None
    trainer: Annotated[PaddleTrainerSpec | None, field_doc("The trainers.")] = None
    master: Annotated[PaddleRoleSpec | None, field_doc("The master, if the job is fault tolerant.")] = None


class PaddleRoleStatus(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How the members of one role are."""

    training_resource_type: Annotated[str, field_doc("PSERVER, TRAINER or MASTER.")]
    state: Annotated[str, field_doc("starting, running, succeeded or failed.")] = ""
    resource_states: Annotated[dict[str, int], field_doc("How many members are in which state.")] = {}


class PaddleJobStatus(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """How the job is."""

    phase: Annotated[str, field_doc("creating, running, scaling, succeeded or failed; suspended if it rests.")] = ""
    reason: Annotated[str, field_doc("Why, for people.")] = ""
    invalid: Annotated[str, field_doc("The field that cannot be used, and why; absent if all is well.")] = ""
    ready: Annotated[str, field_doc("Members that run, of those wanted.")] = ""
    replicas: Annotated[int | None, field_doc("Trainers that there are.")] = None
    selector: Annotated[str, field_doc("Labels of the trainers' pods.")] = ""
    restarts: Annotated[int | None, field_doc("Restarts so far.")] = None
    replica_statuses: Annotated[
        tuple[PaddleRoleStatus, ...], field_doc("How the members of each role are.", nullable=True)
    ] = field(default=(), name="replica_statuses")
    scaling: Annotated[
        tuple[GroupScalingStatus, ...], field_doc("Sizes that may change, and why they are what they are.")
    ] = ()
    first_cause: Annotated[ReplicaFailureStatus | None, field_doc("The failure that came first.")] = None
    start_time: Annotated[Timestamp | None, field_doc("When the job was accepted.")] = None
    running_time: Annotated[Timestamp | None, field_doc("When all members first ran.")] = None
    completion_time: Annotated[Timestamp | None, field_doc("When its end was decided.")] = None
    last_reconcile_time: Annotated[Timestamp | None, field_doc("When this status was last written.")] = None
    progress: Annotated[ProgressStatus | None, field_doc("How far the training has come, as its members report.")] = (
        None
    )
    pliant: Annotated[dict[str, Any], field_doc("What the operator must not forget; not for reading.")] = {}
