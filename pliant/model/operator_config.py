"""What whoever runs the operator has laid down for all jobs."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorConfig:
    """How long to be patient with a cluster, and what happens when patience ends."""

    creation_timeout: timedelta = timedelta(minutes=15)
    """How long a container may fail to be created before its pod is made anew."""
    creation_retry_window: timedelta = timedelta(hours=1)
    """For how long pods are made anew on that account, all in all."""
    should_fail_on_creation: bool = False
    """Whether the job fails once that is over; otherwise it goes on waiting."""
    node_grace_period: timedelta = timedelta(seconds=10)
    """How long a node may be away before its pods count as lost."""
    plan_ttl: timedelta = timedelta(minutes=30)
    """How long finished plans of masters are kept."""
    plan_history_limit: int = 10
    """How many of them are kept."""
    plan_timeout: timedelta = timedelta(minutes=10)
    """How long a plan may take before it is given up."""
    master_image: str = ""
    """The image of the master of jobs that name none; empty where images are not run."""
    master_command: tuple[str, ...] = ("python", "-m", "pliant.master")
    """What starts it."""
