"""Jobs for contracts, and what their members are told."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from pliant.frameworks import FRAMEWORKS
from pliant.model.framework import Rank
from pliant.model.job import Job, JobKey, ReplicaGroup
from tests.builders import make_group, make_job


def written_for(framework: str, *groups: ReplicaGroup, options: dict[str, Any] | None = None, **sizes: int) -> Job:
    """A job `team/bert` of these groups and of groups of these sizes."""
    every = (*groups, *(make_group(name, size) for name, size in sizes.items()))
    job = make_job(*every, frameworks=(framework,), framework_options=options or {})
    return replace(job, key=JobKey("team", "bert"))


def told(job: Job, group: str, index: int = 0) -> dict[str, str]:
    """All variables of one member, less what only keeps Python from holding its output back."""
    found, framework = job.group(group), FRAMEWORKS[job.frameworks[-1]]
    assert found is not None
    rank = Rank(group=found, index=index, attempt=0)
    every = {**framework.shared_environment(job), **framework.environment(job, rank, "trainer")}
    return {name: value for name, value in every.items() if name != "PYTHONUNBUFFERED"}
