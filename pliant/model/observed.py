"""The part of the cluster state that decisions read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from signal import Signals

from pliant.model.messages import Message
from pliant.model.scale_plans import ScalePlan
from pliant.model.state import SizeAdvice


class PodPhase(StrEnum):
    """The phase of a pod, computed from its main containers."""

    PENDING = "Pending"
    SCHEDULED = "Scheduled"
    RUNNING = "Running"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class PodExit:
    code: int | None = None
    container: str = ""
    reason: str = ""
    message: str = ""
    last_log_lines: str = ""
    """The end of the container log; may have several lines."""

    @property
    def signal(self) -> str:
        """The name of the signal encoded in the exit code, such as `SIGKILL`; empty if there is none."""
        try:
            return Signals(self.code - 128).name if self.code is not None and self.code > 128 else ""
        except ValueError:
            return ""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeFault:
    description: str
    """`is not ready (NodeStatusUnknown)`, `is gone`, `has a GPU fault (GPUUnhealthy)`."""
    since: datetime
    is_dead: bool = True
    """Whether no kubelet is left to terminate the pod gracefully."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StuckContainer:
    """A container that the kubelet cannot create although the pod is scheduled."""

    container: str
    reason: str
    since: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedPod:
    name: str
    uid: str
    group: str
    index: int
    attempt: int
    phase: PodPhase
    is_terminating: bool = False
    """Whether the pod has a deletion timestamp; its exit no longer counts."""
    deletion_deadline: datetime | None = None
    """When the pod should be gone, if it is terminating."""
    finalizers: tuple[str, ...] = ()
    node: str = ""
    exit: PodExit | None = None
    start_problem: str = ""
    """Why the pod does not start, as reported by the cluster."""
    start_problem_since: datetime | None = None
    """Since when it is known not to start, or earlier."""
    started_at: datetime | None = None
    finished_at: datetime | None = None
    node_fault: NodeFault | None = None
    stuck_container: StuckContainer | None = None
    rank: int = -1
    """The rank label of a member of a master-managed group."""
    is_external: bool = False
    """Whether the job's master created the pod, not the operator."""
    disruption: str = ""
    """How the cluster removed the pod through no fault of its own: `was evicted: …`."""
    is_disrupted_by_node: bool = False
    """Whether the pod ended because its node was shut down or restarted; that never counts as a restart."""
    acknowledged_checkpoint: int | None = None
    """The latest checkpoint request that the replica has acknowledged; None if it acknowledges none."""
    is_node_draining: bool = False
    """Whether the node is cordoned, or has a taint that is going to evict the pod."""
    is_eviction_blocked: bool = False
    """Whether the disruption budget of the job selects the pod."""
    is_on_spot_node: bool = False
    """Whether the node may be reclaimed by its provider at any time."""
    deletion_cost: int = 0
    """The annotation `controller.kubernetes.io/pod-deletion-cost`: lower costs are removed first."""
    excluded_nodes: tuple[str, ...] = ()
    """Nodes on which the pod may not be placed, because they had a device fault when it was created."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedService:
    name: str
    uid: str
    is_terminating: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ScaleRecommendation:
    """The size that the autoscaler recommends for a group."""

    advice: SizeAdvice
    should_apply: bool = True
    """Whether to apply the size or only to record the advice."""
    observed_at: datetime | None = None
    """The time of the job state on which the autoscaler based this; later size requests take precedence."""
    throughput_by_size: Mapping[int, float] = field(default_factory=dict)
    """New throughput measurements to persist; empty if there are none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """The objects of one job in the cluster."""

    pods: tuple[ObservedPod, ...] = ()
    services: Mapping[str, ObservedService] = field(default_factory=dict)
    create_errors: Mapping[str, Message] = field(default_factory=dict)
    """Messages of the API server for objects it refused to create, by object name."""
    plans: tuple[ScalePlan, ...] = ()
    """All ScalePlans of this job, the oldest first."""
    unusable_nodes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Nodes on which new pods might get a faulty device, by group name; groups without such nodes are absent."""
