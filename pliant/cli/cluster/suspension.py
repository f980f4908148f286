"""Suspends and resumes jobs, for `pliant suspend` and `pliant resume`."""

from __future__ import annotations

import sys
from argparse import Namespace

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
            if job.state is not None and job.state.phase.is_final:
                action = "suspended" if is_suspended else "resumed"
                raise UserError(f"{job.key.name} has finished ({job.phase}) and cannot be {action}")
        for job in jobs:
            await _set_suspend_field(target, job, is_suspended)
        if args.wait:
            for job in jobs:
                await (_wait_suspended if is_suspended else _wait_resumed)(target, job, args)
    return 0


async def _set_suspend_field(target: ClusterTarget, job_object: JobObject, is_suspended: bool) -> None:
    name = job_object.key.name
    if job_object.job is not None and job_object.job.is_suspended is is_suspended:
        sys.stdout.write(f"{name}: {'already suspended' if is_suspended else 'not suspended'}\n")
        return
    path = suspend_path(job_object.frontend)
    check_edited_job(job_object.frontend, with_field(job_object.raw, path, is_suspended))
    patch = merge_patch_for_field(path, is_suspended)
    await target.client.patch(job_object.resource, job_object.key.namespace, name, patch, strict=True)
    result = f"suspended; its pods are deleted (pliant resume {name})" if is_suspended else "resumed"
    sys.stdout.write(f"{name}: {result}\n")
    sys.stdout.flush()


async def _wait_suspended(target: ClusterTarget, job_object: JobObject, args: Namespace) -> None:
    latest = await wait_for_job(target, job_object, _has_suspended, args.timeout, "suspended")
    if latest is None:
        raise UserError(f"{job_object.key.name} was deleted")
    masters = [group.name for group in latest.job.groups if group.is_master] if latest.job else []
    await wait_for_pods_deleted(target, job_object, args.timeout, kept_groups=masters)
    sys.stdout.write(f"{job_object.key.name}: {latest.phase}, all pods are deleted\n")


async def _wait_resumed(target: ClusterTarget, job_object: JobObject, args: Namespace) -> None:
    latest = await wait_for_job(target, job_object, _has_resumed, args.timeout, "running")
    if latest is None:
        raise UserError(f"{job_object.key.name} was deleted")
    sys.stdout.write(f"{job_object.key.name}: {latest.phase}, {latest.message}\n")


def _has_suspended(job_object: JobObject | None) -> bool:
    if job_object is None or job_object.state is None:
        return job_object is None
    return job_object.state.phase.is_final or job_object.state.phase is JobPhase.SUSPENDED


def _has_resumed(job_object: JobObject | None) -> bool:
    if job_object is None or job_object.phase == JobPhase.RUNNING:
        return True
    return job_object.state is not None and job_object.state.phase.is_final
