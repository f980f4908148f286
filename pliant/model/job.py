"""The one shape every kind of training resource becomes before anything is decided about it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, NamedTuple

from pliant.errors import InvalidSpec
from pliant.model.state import EngineState, JobPhase, SizeRequester


class JobKey(NamedTuple):
    """The only way to name a job; prints as `namespace/name`."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


class EndPolicy(StrEnum):
    """Which members speak for their group, or which groups for the job."""

    ANY = "Any"
    RANK0 = "Rank0"
    ALL = "All"
    NONE = "None"


class RestartPolicy(StrEnum):
    """What starts a restart."""

    ALWAYS = "Always"
    ON_FAILURE = "OnFailure"
    ON_NODE_FAIL = "OnNodeFail"
    NEVER = "Never"
    EXIT_CODE = "ExitCode"
    ON_NODE_FAIL_WITH_EXIT_CODE = "OnNodeFailWithExitCode"


class RestartScope(StrEnum):
    """How far a restart reaches."""

    POD = "Pod"
    REPLICA = "Replica"
    ALL = "All"


class CleanPodPolicy(StrEnum):
    """Which pods and services go away when the job ends."""

    ALL = "All"
    RUNNING = "Running"
    """Only those that have not ended: what they wrote can still be read from the others."""
    NONE = "None"


class ResizeMode(StrEnum):
    """How members learn that their group has another size."""

    JOIN = "join"
    """Newcomers come and others leave while the rest work on."""
    RESTART = "restart"
    """All members of the job start again, each told the new numbers, from what they have saved."""
    FIXED = "hold"
    """They cannot: the size stays what it was at first."""


class MembershipSource(StrEnum):
    """Who says which members a group has."""

    ENGINE = "engine"
    """So many, at indexes from 0: whoever is lost is made anew by the rules of the job."""
    MASTER = "master"
    """The job's own master, by plans or by making pods itself: whoever is lost is its concern."""


class Port(NamedTuple):
    """A port that members of a group listen on."""

    name: str
    number: int
    container: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Owner:
    """The resource that owns everything a job creates."""

    api_version: str
    kind: str
    plural: str = ""
    """Its name in paths."""
    name: str
    uid: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Naming:
    """How a kind names what its jobs own; `{job}`, `{group}` and `{index}` stand for those of a member."""

    pod: str = "{job}-{group}-{index}"
    pod_overrides: Mapping[str, str] = field(default_factory=dict)
    """Names of pods that are made in another way, by group in lower case."""
    service: str = "{pod}"
    subdomain: str = ""
    """The subdomain of a pod, `{pod}`: where a service has that name, the pod knows its whole name by itself."""
    service_overrides: Mapping[str, str] = field(default_factory=dict)
    """Names of services that are made in another way, by group in lower case."""
    labels: Mapping[str, str] = field(default_factory=dict)
    """Labels of members beside those that every job's members have; values may hold the same words and `{pod}`.

    Of groups that a master looks after also `{rank}` and `{relaunches}`.
    """
    type_label: str = ""
    """The label by which members are told apart whom a master made: of what type they are."""
    id_label: str = ""
    rank_label: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RestartRule:
    """When, how far and how often members are restarted."""

    policy: RestartPolicy | None = None
    """None when the user said nothing: the pod's own restartPolicy stands, and the engine restarts nothing."""
    scope: RestartScope = RestartScope.ALL
    limit: int | None = None
    counts_disruptions: bool = False
    """Whether a member that the cluster took away costs a restart, too."""
    permanent_exit_codes: frozenset[int] = frozenset()
    """Exit codes by which a member says that trying again is in vain."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaGroup:
    """A set of like pods: the trainers, the parameter servers."""

    name: str
    size: int
    """The wanted size as far as the resource alone tells; `engine.sizing` knows which request came last."""
    min_size: int = 0
    max_size: int | None = None
    is_elastic: bool = False
    """Whether its author gave it bounds to move between."""
    is_autoscaled: bool = False
    """Whether the autoscaler may set its size, between the bounds."""
    resize_mode: ResizeMode = ResizeMode.JOIN
    fixed_size_reason: str = ""
    """Why it cannot be resized, where it cannot."""
    membership_source: MembershipSource = MembershipSource.ENGINE
    is_master: bool = False
    """Whether it runs the job's own master: outside of ranks, and there while the job is suspended."""
    requested_sizes: Mapping[SizeRequester, int] = field(default_factory=dict)
    """The sizes asked for at present, by who asks."""
    template: Mapping[str, Any]
    """The pod template as the user wrote it; only `engine.podspec` looks inside."""
    template_hash: str = ""
    """Tells one template from another."""
    ports: tuple[Port, ...] = ()
    main_containers: frozenset[str] = frozenset()
    """Containers whose exit decides the pod's; empty means all of them."""
    complete_policy: EndPolicy = EndPolicy.ALL
    fail_policy: EndPolicy = EndPolicy.ANY
    restart_rule: RestartRule = field(default_factory=RestartRule)
    labels: Mapping[str, str] = field(default_factory=dict)
    """Labels of its pods beside those that all members have."""
    first_pod_labels: Mapping[str, str] = field(default_factory=dict)
    """More labels of its first pod."""

    def __post_init__(self) -> None:
        if self.size < 0:
            raise InvalidSpec(f"spec.replicaSpecs.{self.name}.replicas", f"must be 0 or more, got {self.size}")


@dataclass(frozen=True, slots=True, kw_only=True)
class EndRequest:
    """An end that somebody outside has ordered: a scheduler that preempts, a person who gives up."""

    phase: JobPhase
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AutoscalingSpec:
    """What a job says about the autoscaler; what it leaves open, the operator decides."""

    is_enabled: bool | None = None
    """False: leave it alone. True: set its size, though its kind would not ask for it."""
    policy: str = ""
    """The policy by which it is planned."""
    is_advice_only: bool | None = None
    """Whether to tell what would be done, and not do it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A training job, whatever dialect it was written in."""

    key: JobKey
    owner: Owner
    groups: tuple[ReplicaGroup, ...]
    labels: Mapping[str, str] = field(default_factory=dict)
    naming: Naming = field(default_factory=Naming)
    frameworks: tuple[str, ...] = ("generic",)
    """Whose contracts its members get, by name; the last one is what the job is written for."""
    framework_options: Mapping[str, Any] = field(default_factory=dict)
    """What the resource says to its framework alone: processes per node, a rendezvous backend."""
    complete_policy: EndPolicy = EndPolicy.ALL
    fail_policy: EndPolicy = EndPolicy.ANY
    clean_pod_policy: CleanPodPolicy = CleanPodPolicy.ALL
    is_fault_tolerant: bool = False
    """Whether an elastic group may lose members, its first one apart, down to its least size."""
    is_suspended: bool = False
    autoscaling: AutoscalingSpec = field(default_factory=AutoscalingSpec)
    """What the job itself says about the autoscaler."""
    time_limit: timedelta | None = None
    """How long it may run, from when all its members first ran."""
    counts_time_from_start: bool = False
    """Whether the time limit counts from the job's start instead."""
    restart_limit: int | None = None
    """Restarts of all groups together."""
    start_limit: timedelta | None = None
    """How long it may take until all its members run."""
    ttl_after_finished: timedelta | None = None
    """How long it is kept once it has ended."""
    end_request: EndRequest | None = None
    managed_by: str = ""
    """Who looks after it, if not us."""
    restart_exit_codes: frozenset[int] = frozenset()
    scheduler_name: str | None = None
    priority_class: str | None = None
    created_at: datetime
    is_deleting: bool = False
    warnings: tuple[str, ...] = ()
    """What its author should know though the job runs: told once."""
    scalable_group: str = ""
    """The group whose size one number can set, as `kubectl scale` does; empty if there is no such group."""
    state: EngineState | None = None
    """What the engine remembered; None for a job it has never seen."""

    @property
    def has_master(self) -> bool:
        """Whether it is run by a master of its own."""
        return any(group.is_master for group in self.groups)

    def group(self, name: str) -> ReplicaGroup | None:
        """The group of that name, if the job has one."""
        return next((group for group in self.groups if group.name == name), None)
