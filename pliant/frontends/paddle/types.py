"""The fields of a PaddleJob of paddlepaddle.org, under the names used most: the source of its schema."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Meta, Struct, field

from pliant.frontends.crd import told
from pliant.frontends.results import MemberFailure, Progress
from pliant.frontends.scaling import GroupScaling
from pliant.model.state import Time

MOST_MEMBERS = 10_000
MOST_PORTS = 200

Size = Annotated[int, Meta(ge=0, le=MOST_MEMBERS)]
Count = Annotated[int, Meta(ge=0, le=2**31 - 1)]
Ports = Annotated[int, Meta(ge=0, le=MOST_PORTS)]
PortNumber = Annotated[int, Meta(ge=0, le=65535)]
Seconds = Annotated[int, Meta(ge=0, le=2**31 - 1)]
Maps = list[dict[str, Any]]


class Resources(Struct, frozen=True, kw_only=True):
    """What each member asks for, and what it may use at most."""

    limits: Annotated[dict[str, Any], told("The most it may use: cpu, memory, nvidia.com/gpu, …")] = {}
    requests: Annotated[dict[str, Any], told("What it asks for.")] = {}


class RoleSpec(Struct, frozen=True, kw_only=True):
    """The members of one role."""

    min_instance: Annotated[Size, told("How many there are at first, and at least.")] = field(
        default=0, name="min-instance"
    )
    max_instance: Annotated[Size, told("How many trainers there may be; of others it is not read.")] = field(
        default=0, name="max-instance"
    )
    resources: Annotated[Resources, told("What each asks for.")] = Resources()
    entrypoint: Annotated[str, told("What to run, by a shell; servers run what trainers run unless they say.")] = (
        ""
    )
    image_pull_secrets: Annotated[Maps, told("More secrets to pull the image with.")] = field(
        default_factory=list, name="imagePullSecrets"
    )
    envs: Annotated[Any, told("More variables: a map, or a list as in pods.")] = None
    grace_period_seconds: Annotated[Seconds | None, told("How long a member may take to stop.")] = None
    pre_stop_cmd: Annotated[Any, told("What runs first when a member is stopped, given grace_period_seconds.")] = (
        None
    )
    tolerations: Annotated[Maps, told("Taints of nodes that are borne.")] = []
    node_selector: Annotated[dict[str, Any], told("Labels that a node must have.")] = {}
    liveness_probe: Annotated[dict[str, Any], told("As in pods.")] = {}
    readiness_probe: Annotated[dict[str, Any], told("As in pods.")] = {}
    restart_limit: Annotated[
        Any, told("Restarts of the role's members: a number, or a share of the role's size such as 50%.")
    ] = None


class TrainerSpec(RoleSpec, frozen=True, kw_only=True):
    """The trainers, whose success is the job's."""

    instances: Annotated[
        Size | None, told("How many there are to be, between the bounds: what `kubectl scale` writes.")
    ] = None
    workspace: Annotated[str, told("The folder of the program: it starts there, and imports from there.")] = ""
    passes: Annotated[Count | None, told("How often to go through the data, told to the program.")] = None
    trainer_gpu: Annotated[Count, told("GPUs of each trainer.")] = 0


class PaddleJobSpec(Struct, frozen=True, kw_only=True):
    """What is to be trained, and how."""

    image: Annotated[str, told("The image of all roles. Default: paddlepaddle/paddlecloud-job.")] = ""
    port: Annotated[PortNumber, told("The first port of servers and trainers. Default: 7164.")] = 0
    ports_num: Annotated[Ports | None, told("How many ports there are for dense parameters. Default: 1.")] = None
    ports_num_for_sparse: Annotated[Ports | None, told("How many more for sparse ones. Default: 1.")] = None
    trainer_port: Annotated[PortNumber, told("The first port of trainers, if they have others.")] = 0
    trainer_ports_num: Annotated[Ports | None, told("How many of those. Default: 1.")] = None
    mount_path: Annotated[str, told("Where the volume job-workspace is mounted in servers and trainers.")] = field(
        default="", name="mountPath"
    )
    trainer_package: Annotated[str, told("Another word for trainer.workspace.")] = ""
    scheduler_name: Annotated[str, told("Who places the pods.")] = field(default="", name="schedulerName")
    pod_group_name: Annotated[str, told("The PodGroup that the pods belong to.")] = field(
        default="", name="podGroupName"
    )
    fault_tolerant: Annotated[
        bool | None,
        told("True: with a master and etcd, and trainers may be lost. False: their number is fixed at the start."),
    ] = None
    passes: Annotated[Count | None, told("How often to go through the data, unless trainer.passes says.")] = None
    host_network: Annotated[bool, told("Whether pods use the network of their nodes.")] = False
    volumes: Annotated[Maps, told("Volumes of all pods.")] = []
    volume_mounts: Annotated[Maps, told("Where they are mounted, in all roles.")] = field(
        default_factory=list, name="VolumeMounts"
    )
    node_selector: Annotated[dict[str, Any], told("Labels that nodes must have.")] = field(
        default_factory=dict, name="NodeSelector"
    )
    image_pull_secrets: Annotated[Maps, told("Secrets to pull the image with.")] = field(
        default_factory=list, name="imagePullSecrets"
    )
    local_job: Annotated[bool, told("Whether there is one trainer and nobody else.")] = False
    is_nccl: Annotated[bool, told("Whether trainers talk to each other, without servers.")] = False
    frame_work: Annotated[dict[str, Any], told("type: local or nccl2 say the same as local_job and is_nccl.")] = {}
    annotations: Annotated[dict[str, Any], told("walltime: seconds that the job may take; all else is kept.")] = {}
    suspend: Annotated[bool, told("Whether the job rests: its pods are deleted, its place is kept.")] = False
    managed_by: Annotated[str, told("Who looks after the job; others than us are left to do so.")] = field(
        default="", name="managedBy"
    )
    pserver: Annotated[RoleSpec | None, told("The parameter servers; as many as min-instance.")] = None
    trainer: Annotated[TrainerSpec | None, told("The trainers.")] = None
    master: Annotated[RoleSpec | None, told("The master, if the job is fault tolerant.")] = None


class RoleStatus(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How the members of one role are."""

    training_resource_type: Annotated[str, told("PSERVER, TRAINER or MASTER.")]
    state: Annotated[str, told("starting, running, succeeded or failed.")] = ""
    resource_states: Annotated[dict[str, int], told("How many members are in which state.")] = {}


class PaddleJobStatus(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """How the job is."""

    phase: Annotated[str, told("creating, running, scaling, succeeded or failed; suspended if it rests.")] = ""
    reason: Annotated[str, told("Why, for people.")] = ""
    invalid: Annotated[str, told("The field that cannot be used, and why; absent if all is well.")] = ""
    ready: Annotated[str, told("Members that run, of those wanted.")] = ""
    replicas: Annotated[int | None, told("Trainers that there are.")] = None
    selector: Annotated[str, told("Labels of the trainers' pods.")] = ""
    restarts: Annotated[int | None, told("Restarts so far.")] = None
    replica_statuses: Annotated[
        tuple[RoleStatus, ...], told("How the members of each role are.", nullable=True)
    ] = field(default=(), name="replica_statuses")
    scaling: Annotated[
        tuple[GroupScaling, ...], told("Sizes that may change, and why they are what they are.")
    ] = ()
    first_cause: Annotated[MemberFailure | None, told("The failure that came first.")] = None
    start_time: Annotated[Time | None, told("When the job was accepted.")] = None
    running_time: Annotated[Time | None, told("When all members first ran.")] = None
    completion_time: Annotated[Time | None, told("When its end was decided.")] = None
    last_reconcile_time: Annotated[Time | None, told("When this status was last written.")] = None
    progress: Annotated[Progress | None, told("How far the training has come, as its members report.")] = None
    pliant: Annotated[dict[str, Any], told("What the operator must not forget; not for reading.")] = {}
