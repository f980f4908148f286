"""The slice of the cluster that decisions read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from signal import Signals

from pliant.model.operator_config import OperatorConfig
from pliant.model.scale_plans import ScalePlan
from pliant.model.state import SizeAdvice


class PodPhase(StrEnum):
    """How far a pod has come, judged by the containers that count."""

    PENDING = "Pending"
    SCHEDULED = "Scheduled"
    RUNNING = "Running"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class PodExit:
    """How a container, or a pod as a whole, came to its end."""

    code: int | None = None
    container: str = ""
    reason: str = ""
    message: str = ""
    """In one line."""
    last_log_lines: str = ""
    """The end of what it said, in as many lines as it took."""

    @property
    def signal(self) -> str:
        """The signal that its code tells of, `SIGKILL`; empty if it tells of none."""
        try:
            return Signals(self.code - 128).name if self.code is not None and self.code > 128 else ""
        except ValueError:
            return ""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeFault:
    """What is wrong with the node a pod sits on."""

    description: str
    """`is not ready (NodeStatusUnknown)`, `is gone`, `has a GPU fault (GPUUnhealthy)`."""
    since: datetime
    is_dead: bool = True
    """Whether nobody is there to take the pod away in good order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StuckContainer:
    """A container that the node cannot create, although the pod has been placed."""

    container: str
    reason: str
    since: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedPod:
    """A pod that a job owns, as last seen."""

    name: str
    uid: str
    group: str
    index: int
    attempt: int
    phase: PodPhase
    is_terminating: bool = False
    """Whether its deletion has begun; nothing it does from then on counts."""
    deletion_deadline: datetime | None = None
    """When it should be gone, if its deletion has begun."""
    finalizers: tuple[str, ...] = ()
    """Who must agree before it goes."""
    node: str = ""
    exit: PodExit | None = None
    problem: str = ""
    """Why it does not start, in the cluster's own words."""
    started_at: datetime | None = None
    finished_at: datetime | None = None
    node_fault: NodeFault | None = None
    stuck_container: StuckContainer | None = None
    rank: int = -1
    """Of a member whom a master looks after."""
    is_external: bool = False
    """Whether the job's master made it, and not we."""
    disruption: str = ""
    """How the cluster took it away through no fault of its own: `was evicted: …`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedService:
    """A service that a job owns, as last seen."""

    name: str
    uid: str
    is_terminating: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ScaleRecommendation:
    """What the autoscaler wants of a group."""

    advice: SizeAdvice
    should_apply: bool = True
    """Whether the size is to be taken on, or only told."""
    observed_at: datetime | None = None
    """Until when the job's story was known to whoever wants this: what somebody asked for since then wins."""
    throughput_by_size: Mapping[int, float] = field(default_factory=dict)
    """What is to be remembered of how fast the group was at sizes it has had; nothing if there is nothing new."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """Everything a decision about one job may look at besides the job."""

    pods: tuple[ObservedPod, ...] = ()
    services: Mapping[str, ObservedService] = field(default_factory=dict)
    create_errors: Mapping[str, str] = field(default_factory=dict)
    """Names the API server would not let us create, and its words for why."""
    config: OperatorConfig = field(default_factory=OperatorConfig)
    recommendations: Mapping[str, ScaleRecommendation] = field(default_factory=dict)
    """What the autoscaler wants, by group; without a word from it its last one stands."""
    plans: tuple[ScalePlan, ...] = ()
    """Every plan for this job, the oldest first."""
