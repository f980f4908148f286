"""What a framework needs beside the replicas of the spec: a replica that serves them, and the membership."""

from __future__ import annotations

import dataclasses

from pliant.engine.members import has_ranks
from pliant.model.framework import Framework
from pliant.model.job import Job
from pliant.model.state import EngineState, JobPhase


def apply_framework(job: Job, framework: Framework, before: EngineState | None) -> Job:
    """Return the job with what its framework needs: a control group, unless the user has a group of its name, and
    the membership. An active job keeps the control group that it started with, or does without."""
    if before is not None and before.phase is not JobPhase.SUSPENDED:
        job = dataclasses.replace(job, has_rendezvous_store=before.has_control_group)
    group = framework.control_group(job)
    if group is not None and not any(each.name.lower() == group.name for each in job.groups):
        job = dataclasses.replace(job, groups=(*job.groups, group))
    has_file = job.has_membership_file or bool(framework.membership_files(job, ()))
    is_published = has_file or any(each.is_elastic and has_ranks(each) for each in job.groups)
    if (is_published, has_file) == (job.publishes_membership, job.has_membership_file):
        return job
    return dataclasses.replace(job, publishes_membership=is_published, has_membership_file=has_file)
