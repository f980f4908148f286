"""The common job model: front ends translate every kind of training resource into it."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from functools import lru_cache
from itertools import count, islice
from typing import Any, NamedTuple

from pliant.errors import InvalidSpec
from pliant.model.accepted_spec import AcceptedSpec
from pliant.model.state import GroupMember, JobPhase, SizeRequester

DEFAULT_CHECKPOINT_GRACE = timedelta(seconds=30)
ALL_REPLICAS = sys.maxsize
"""In `Naming.own_services`: every replica of a group has a service of its own."""


class JobKey(NamedTuple):
    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


class EndPolicy(StrEnum):
    """Which replicas decide the outcome of their group, or which groups decide that of the job."""

    ANY = "Any"
    RANK0 = "Rank0"
    ALL = "All"
    NONE = "None"


class RestartPolicy(StrEnum):
    ALWAYS = "Always"
    ON_FAILURE = "OnFailure"
    ON_NODE_FAIL = "OnNodeFail"
    NEVER = "Never"
    EXIT_CODE = "ExitCode"
    ON_NODE_FAIL_WITH_EXIT_CODE = "OnNodeFailWithExitCode"


class RestartScope(StrEnum):
    """What a restart replaces: one pod, the replica group or all groups of the job."""

    POD = "Pod"
    REPLICA = "Replica"
    ALL = "All"


class CleanPodPolicy(StrEnum):
    ALL = "All"
    RUNNING = "Running"
    """Only pods that have not terminated; the logs of the others stay available."""
    NONE = "None"


class ResizeMode(StrEnum):
    """How the replicas of a job adapt to a new size of their group."""

    JOIN = "join"
    """Replicas join or leave while the others keep training."""
    RESTART = "restart"
    """All replicas of the job restart with the new size and continue from their checkpoints."""
    FIXED = "fixed"
    """Resizing is not supported: the group keeps its initial size."""


class Port(NamedTuple):
    name: str
    number: int
    container: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Owner:
    api_version: str
    kind: str
    plural: str = ""
    name: str
    uid: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Naming:
    """Name formats of the pods and services of a kind; `{job}`, `{group}` and `{index}` are replaced."""

    pod: str = "{job}-{group}-{index}"
    pod_overrides: Mapping[str, str] = field(default_factory=dict)
    """Pod name formats of single groups, by group name in lower case."""
    service: str = "{pod}"
    job_service: str = ""
    """The name format of one headless service for the whole job: replicas are `<pod>.<service>`, and only those that
    `own_services` counts have a service of their own. Empty if every replica has one."""
    own_services: Mapping[str, int] = field(default_factory=dict)
    """How many replicas of a group, from index 0 on, have a service of their own beside that of the job, by group name
    in lower case; none if the group is missing."""
    subdomain: str = ""
    """The `spec.subdomain` of pods, such as `{pod}`: with a service of that name the pod has an FQDN."""
    service_overrides: Mapping[str, str] = field(default_factory=dict)
    """Service name formats of single groups, by group name in lower case."""
    labels: Mapping[str, str] = field(default_factory=dict)
    """Additional labels; values may also contain `{pod}`, and in master-managed groups `{rank}` and `{relaunches}`."""
    type_label: str = ""
    """The label with the replica type of pods created by a master."""
    id_label: str = ""
    rank_label: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RestartRule:
    policy: RestartPolicy | None = None
    """None if the user set none: the restartPolicy of the pod applies, and the engine restarts nothing."""
    scope: RestartScope = RestartScope.ALL
    limit: int | None = None
    counts_disruptions: bool = False
    """Whether replacing a disrupted pod counts against the limit."""
    permanent_exit_codes: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaGroup:
    """A group of replicas with one pod template: the trainers, the parameter servers."""

    name: str
    size: int
    """The size in the spec; `engine.sizing` determines the latest size request."""
    min_size: int = 0
    max_size: int | None = None
    is_elastic: bool = False
    """Whether the user set a minimum or maximum size."""
    is_autoscaled: bool = False
    resize_mode: ResizeMode = ResizeMode.JOIN
    fixed_size_reason: str = ""
    is_master_managed: bool = False
    """Whether the job's master decides about the members and replaces lost ones, by ScalePlans or by creating pods;
    otherwise the engine runs `size` replicas with indexes from 0."""
    is_master: bool = False
    """Whether the group runs the job's master, which has no rank and stays while the job is suspended."""
    is_control: bool = False
    """Whether the operator added the group to serve the others, such as a rendezvous store: it has no ranks, is in no
    status, and does not decide how the job ends. If its replica is lost, all groups restart, free of charge."""
    unusable_markers: tuple[str, ...] = ()
    """Texts at the end of the log of another replica by which it says that it cannot use the control group any more."""
    is_server: bool = False
    """Whether its replicas never exit by themselves: parameter servers."""
    requested_sizes: Mapping[SizeRequester, int] = field(default_factory=dict)
    skipped_indexes: tuple[int, ...] = ()
    """Indexes that no replica has, although higher ones are used: their replicas were removed by a resize."""
    members: Mapping[int, GroupMember] = field(default_factory=dict)
    """The members in effect by ID, if the job's master decides about them."""
    generation: int = 0
    """How often all replicas of the group have been restarted together."""
    path: str = "spec"
    """The field of the spec that defines the group."""
    template: Mapping[str, Any]
    template_hash: str = ""
    ports: tuple[Port, ...] = ()
    main_containers: frozenset[str] = frozenset()
    """Containers whose exit codes determine the pod phase; empty means all."""
    complete_policy: EndPolicy = EndPolicy.ALL
    fail_policy: EndPolicy = EndPolicy.ANY
    restart_rule: RestartRule = field(default_factory=RestartRule)
    priority_class: str | None = None
    """The PriorityClass of the pods, instead of that of the job."""
    labels: Mapping[str, str] = field(default_factory=dict)
    first_pod_labels: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.size < 0:
            raise InvalidSpec(f"{self.path}.replicas", f"must be 0 or more, got {self.size}")

    @property
    def indexes(self) -> Sequence[int]:
        """The indexes of the replicas in order: from 0 on, without the skipped ones."""
        return _list_indexes(self.size, self.skipped_indexes) if self.skipped_indexes else range(self.size)


@lru_cache(maxsize=256)
def _list_indexes(size: int, skipped: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(islice((index for index in count() if index not in skipped), size))


@dataclass(frozen=True, slots=True, kw_only=True)
class Master:
    """A program of the job that decides about its members by ScalePlans, and what the engine must do for it."""

    group: str
    """The replica group that runs the master."""
    claims_manual_plans: bool = False
    """Whether it executes the manual plans itself that it has labelled as its own."""
    claim_timeout: timedelta = timedelta(seconds=10)
    """How long it may take to claim a manual plan; then the operator executes the plan."""
    first_request_timeout: timedelta = timedelta(minutes=2)
    """How long a manual plan waits for its first request, if it claims none: it takes over members that exist."""
    relaunches_deleted_pods: bool = False
    """Whether it recreates pods of its groups that are deleted, unless it is notified first."""
    assigns_member_ids: bool = False
    """Whether it assigns the IDs of members itself, from 0 after every start."""
    idle_timeout: timedelta | None = None
    """How long it may run without requesting members before it is restarted; None if it retries by itself."""
    completion_timeout: timedelta = timedelta(minutes=2)
    """How long it may take to end a job whose members have succeeded."""
    checks_keys: bool = False
    """Whether it accepts requests only with the keys of its job."""

    @property
    def manual_plan_timeout(self) -> timedelta:
        """How long manual plans may wait for the master."""
        return self.claim_timeout if self.claims_manual_plans else self.first_request_timeout


@dataclass(frozen=True, slots=True, kw_only=True)
class EndRequest:
    """A request to end the job, from a preempting scheduler or from a user."""

    phase: JobPhase
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AutoscalingSpec:
    """The autoscaling settings of a job; the operator supplies those that are not set."""

    is_enabled: bool | None = None
    """False disables autoscaling; True enables it even if the kind of the job does not by default."""
    policy: str = ""
    is_advice_only: bool | None = None
    """Whether to record recommendations without applying them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A job as its spec defines it."""

    key: JobKey
    owner: Owner
    groups: tuple[ReplicaGroup, ...]
    master: Master | None = None
    server_addresses: tuple[str, ...] = ()
    """The parameter servers in effect in rank order, if the master lists them."""
    labels: Mapping[str, str] = field(default_factory=dict)
    workspace: str = ""
    """The directory in which its programs start on an embedded cluster; empty for the default of the cluster."""
    naming: Naming = field(default_factory=Naming)
    frameworks: tuple[str, ...] = ("generic",)
    """Frameworks whose environment the replicas get; where two conflict, the last one wins."""
    framework_options: Mapping[str, Any] = field(default_factory=dict)
    """Settings that only the framework reads: processes per node, a rendezvous backend."""
    complete_policy: EndPolicy = EndPolicy.ALL
    fail_policy: EndPolicy = EndPolicy.ANY
    clean_pod_policy: CleanPodPolicy = CleanPodPolicy.ALL
    is_fault_tolerant: bool = False
    """Whether an elastic group may lose replicas other than the first, down to its minimum size."""
    is_suspended: bool = False
    autoscaling: AutoscalingSpec = field(default_factory=AutoscalingSpec)
    time_limit: timedelta | None = None
    """How long the job may run, counted from when all replicas first ran."""
    counts_time_from_start: bool = False
    """Whether the time limit counts from the start of the job instead."""
    restart_limit: int | None = None
    """The maximum number of restarts of all groups together."""
    checkpoint_grace: timedelta | None = None
    """How long a replica may take to save its state before it is deleted, if the user set it."""
    has_rendezvous_store: bool | None = None
    """Whether the operator adds a replica that hosts the rendezvous; None if that depends on the command."""
    publishes_membership: bool = False
    """Whether the replicas can learn who their peers are: a group is elastic, or the framework needs it."""
    has_membership_file: bool = False
    """Whether replicas find the membership in files, beside the operator's response."""
    has_disruption_budget: bool = False
    """Whether a PodDisruptionBudget holds drains until the replicas of the node have saved their state."""
    start_limit: timedelta | None = None
    """How long it may take until all replicas run."""
    ttl_after_finished: timedelta | None = None
    end_request: EndRequest | None = None
    managed_by: str = ""
    """The external controller that manages the job; empty if this operator does."""
    restart_exit_codes: frozenset[int] = frozenset()
    scheduler_name: str | None = None
    priority_class: str | None = None
    missing_priority_classes: frozenset[str] = frozenset()
    """The PriorityClasses that the job names and the cluster does not have: pods are created without them."""
    created_at: datetime
    generation: int = 0
    """Increases with every change of the spec."""
    accepted_spec: AcceptedSpec | None = None
    """The spec in its stored form."""
    is_deleting: bool = False
    warnings: tuple[str, ...] = ()
    """Problems of the spec that do not prevent the job from running; each is emitted as one event."""
    scalable_group: str = ""
    """The group that `kubectl scale` resizes; empty if there is none."""

    @property
    def training_groups(self) -> tuple[ReplicaGroup, ...]:
        """The groups of the spec, without those that the operator added."""
        return tuple(group for group in self.groups if not group.is_control)

    @property
    def effective_checkpoint_grace(self) -> timedelta:
        return DEFAULT_CHECKPOINT_GRACE if self.checkpoint_grace is None else self.checkpoint_grace

    def group(self, name: str) -> ReplicaGroup | None:
        return next((group for group in self.groups if group.name == name), None)
