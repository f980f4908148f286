"""Operator settings that apply to all jobs."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorConfig:
    """Timeouts, limits and master defaults, set by the options of `pliant operator`."""

    container_creation_timeout: timedelta = timedelta(minutes=15)
    """How long container creation may fail before the pod is recreated."""
    creation_retry_window: timedelta = timedelta(hours=1)
    """The total time during which such pods are recreated."""
    should_fail_on_creation_timeout: bool = False
    """Whether the job fails after the retry window; otherwise it keeps waiting."""
    node_grace_period: timedelta = timedelta(seconds=10)
    """How long a node may be not ready before its pods count as lost."""
    plan_ttl: timedelta = timedelta(minutes=30)
    """How long finished ScalePlans of masters are kept."""
    plan_history_limit: int = 10
    """How many finished ScalePlans are kept per job."""
    plan_timeout: timedelta = timedelta(minutes=10)
    """How long a ScalePlan may be executed before it fails."""
    master_image: str = ""
    """The image of the master for jobs that name none; empty in clusters that run no images."""
    master_command: tuple[str, ...] = ("python", "-m", "pliant.master")
