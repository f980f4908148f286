"""Suspends and resumes jobs, for `pliant suspend`, `pliant resume` and the Python API."""

from __future__ import annotations

import sys
from argparse import Namespace
from datetime import timedelta

from pliant.cli.cluster.job_lookup import JobObject, find_jobs
from pliant.cli.cluster.target import ClusterTarget, connect_target
from pliant.cli.cluster.waiting import wait_for_job, wait_for_pods_deleted
from pliant.cli.input.field_paths import check_edited_job, merge_patch_for_field, suspend_path, with_field
from pliant.errors import UserError
from pliant.model.state import JobPhase


async def suspend_or_resume_jobs(args: Namespace, is_suspended: bool) -> int:
    async with connect_target(args) as target:
        jobs = await find_jobs(target, args.jobs)
        for job in jobs:
            check_suspendable(job, is_suspended=is_suspended)
        for job in jobs:
            await _suspend_or_resume(target, job, is_suspended)
        if args.wait:
            for job in jobs:
                await _wait_and_print(target, job, is_suspended, args.timeout)
    return 0


async def _suspend_or_resume(target: ClusterTarget, job_object: JobObject, is_suspended: bool) -> None:
    name = job_object.key.name
    if not await set_suspended(target, job_object, is_suspended=is_suspended):
        sys.stdout.write(f"{name}: {'already suspended' if is_suspended else 'not suspended'}\n")
        return
    result = f"suspended; its pods are deleted (pliant resume {name})" if is_suspended else "resumed"
    sys.stdout.write(f"{name}: {result}\n")
    sys.stdout.flush()


async def _wait_and_print(target: ClusterTarget, job_object: JobObject, is_suspended: bool, timeout: timedelta) -> None:
    latest = await (wait_suspended if is_suspended else wait_resumed)(target, job_object, timeout)
    result = "all pods are deleted" if is_suspended else latest.message
    sys.stdout.write(f"{job_object.key.name}: {latest.phase}, {result}\n")


def check_suspendable(job_object: JobObject, *, is_suspended: bool) -> None:
    """Raise UserError for a job that has finished."""
    if job_object.state is not None and job_object.state.phase.is_final:
        action = "suspended" if is_suspended else "resumed"
        raise UserError(f"{job_object.key.name} has finished ({job_object.phase}) and cannot be {action}")


async def set_suspended(target: ClusterTarget, job_object: JobObject, *, is_suspended: bool) -> bool:
    """Suspend or resume a job; return False if it is already suspended or not suspended."""
    if job_object.job is not None and job_object.job.is_suspended is is_suspended:
        return False
    path = suspend_path(job_object.frontend)
    check_edited_job(job_object.frontend, with_field(job_object.raw, path, is_suspended))
    patch = merge_patch_for_field(path, is_suspended)
    key = job_object.key
    await target.client.patch(job_object.resource, key.namespace, key.name, patch, strict=True)
    return True


async def wait_suspended(target: ClusterTarget, job_object: JobObject, timeout: timedelta) -> JobObject:
    """Wait until a job is suspended and its pods are deleted, except those of its master."""
    latest = await wait_for_job(target, job_object, _has_suspended, timeout, "suspended")
    if latest is None:
        raise UserError(f"{job_object.key.name} was deleted")
    masters = [group.name for group in latest.job.groups if group.is_master] if latest.job else []
    await wait_for_pods_deleted(target, job_object, timeout, kept_groups=masters)
    return latest


async def wait_resumed(target: ClusterTarget, job_object: JobObject, timeout: timedelta) -> JobObject:
    """Wait until a job is running or has finished."""
    latest = await wait_for_job(target, job_object, _has_resumed, timeout, "running")
    if latest is None:
        raise UserError(f"{job_object.key.name} was deleted")
    return latest


def _has_suspended(job_object: JobObject | None) -> bool:
    if job_object is None or job_object.state is None:
        return job_object is None
    return job_object.state.phase.is_final or job_object.state.phase is JobPhase.SUSPENDED


def _has_resumed(job_object: JobObject | None) -> bool:
    if job_object is None or job_object.phase == JobPhase.RUNNING:
        return True
    return job_object.state is not None and job_object.state.phase.is_final
