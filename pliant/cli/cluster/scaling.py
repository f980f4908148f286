"""Resizes groups of jobs, for `pliant scale` and the Python API."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from pliant.cli.cluster.job_lookup import JobObject
from pliant.cli.cluster.target import ClusterTarget
from pliant.cli.cluster.waiting import wait_for_job
from pliant.cli.explain.group_sizes import size_bounds_text
from pliant.cli.input.field_paths import (
    check_edited_job,
    group_replicas_path,
    merge_patch_for_field,
    scale_replicas_path,
    with_field,
)
from pliant.engine.plans.membership import job_in_effect
from pliant.errors import UserError
from pliant.model.job import Job, ReplicaGroup, ResizeMode
from pliant.model.labels import normalize_group_name


@dataclass(frozen=True, slots=True, kw_only=True)
class SizeChange:
    """A size that was requested for a group, and the size that applies within its bounds."""

    group: ReplicaGroup
    old_size: int
    requested_size: int
    size: int

    def __str__(self) -> str:
        bounds = f" (bounds {limits})" if (limits := size_bounds_text(self.group)) else ""
        clamped = f"; {self.requested_size} requested" if self.size != self.requested_size else ""
        is_restart = self.group.resize_mode is ResizeMode.RESTART and self.size != self.old_size
        restart = "; all replicas restart" if is_restart else ""
        return f"{self.group.name} {self.old_size} → {self.size}{bounds}{clamped}{restart}"


async def resize_group(target: ClusterTarget, job_object: JobObject, group_name: str | None, size: int) -> SizeChange:
    """Request a size of a group, by default of the elastic or only group."""
    job = _require_scalable(job_object)
    group = _select_group(job, group_name)
    if group.resize_mode is ResizeMode.FIXED and not job.is_suspended:  # new pods learn the size when it resumes
        raise UserError(f"{group.name} of {job.key.name} cannot be resized: {group.fixed_size_reason}")
    current = job_in_effect(job, job_object.state).group(group.name) if job_object.state else group
    old_size = current.size if current else group.size
    applied_size = await _request_size(target, job_object, group, size)
    return SizeChange(group=group, old_size=old_size, requested_size=size, size=applied_size)


async def wait_resized(
    target: ClusterTarget, job_object: JobObject, change: SizeChange, timeout: timedelta
) -> JobObject | None:
    """Wait until all replicas of the new size run; return None if the job was deleted."""

    def is_done(latest: JobObject | None) -> bool:
        return latest is None or _has_size(latest, change.group.name, change.size)

    return await wait_for_job(target, job_object, is_done, timeout, f"at size {change.size}")


def _require_scalable(job_object: JobObject) -> Job:
    if job_object.job is None:
        raise UserError(f"{job_object.key.name} has an invalid spec: {job_object.parse_error}")
    if job_object.state is not None and job_object.state.phase.is_final:
        raise UserError(f"{job_object.key.name} has finished ({job_object.phase}); submit it again with the new size")
    return job_object.job


def _select_group(job: Job, group_name: str | None) -> ReplicaGroup:
    names = ", ".join(group.name for group in job.groups)
    wanted = group_name or job.scalable_group or (job.groups[0].name if len(job.groups) == 1 else "")
    if not wanted:
        raise UserError(f"{job.key.name} has several groups ({names}); choose one with --group")
    for group in job.groups:
        if normalize_group_name(group.name) == normalize_group_name(wanted):
            return group
    raise UserError(f"{job.key.name} has no group `{wanted}`; groups: {names}")


async def _request_size(target: ClusterTarget, job_object: JobObject, group: ReplicaGroup, size: int) -> int:
    """Write the requested size; return the size that will apply within the bounds of the group."""
    key, path = job_object.key, scale_replicas_path(job_object.frontend)
    if job_object.job is not None and path is not None and group.name == job_object.job.scalable_group:
        check_edited_job(job_object.frontend, with_field(job_object.raw, path, size))
        patch = {"spec": {"replicas": size}}
        await target.client.patch(job_object.resource, key.namespace, key.name, patch, subresource="scale")
        return max(group.min_size, size if group.max_size is None else min(size, group.max_size))
    if group.is_elastic and (size < group.min_size or (group.max_size is not None and size > group.max_size)):
        raise UserError(f"{size} is out of the bounds of {group.name} ({size_bounds_text(group)})")
    path = group_replicas_path(job_object.raw, group.name)
    check_edited_job(job_object.frontend, with_field(job_object.raw, path, size))
    await target.client.patch(
        job_object.resource, key.namespace, key.name, merge_patch_for_field(path, size), strict=True
    )
    return size


def _has_size(job_object: JobObject, group_name: str, size: int) -> bool:
    state = job_object.state
    if state is None:
        return False
    counts = state.replica_counts.get(group_name)
    is_complete = counts is not None and counts.size == size and counts.active + counts.succeeded == size
    return state.phase.is_final or (state.group(group_name).applied_size == size and is_complete)
