"""Sets and clears the wish that a job rest, for `pliant suspend` and `pliant resume`."""

from __future__ import annotations

import sys
from argparse import Namespace

from pliant.cli.cluster.job_lookup import JobObject, find_jobs
from pliant.cli.cluster.target import ClusterTarget, connect_target
from pliant.cli.cluster.waiting import wait_for_job
from pliant.cli.input.field_paths import check_edit, merge_patch, suspend_path, with_field
from pliant.errors import UserError
from pliant.model.state import JobPhase


async def set_suspended(args: Namespace, is_suspended: bool) -> int:
    """Let every job named rest, or go on."""
    async with connect_target(args) as target:
        jobs = await find_jobs(target, args.jobs)
        for one in jobs:
            if one.state is not None and one.state.phase.is_final:
                raise UserError(
                    f"{one.key.name} has ended ({one.phase}); there is nothing to {_ACTION_NAMES[is_suspended]}"
                )
        for one in jobs:
            await _set_suspend_field(target, one, is_suspended)
        if args.wait:
            for one in jobs:
                await _wait_for_effect(target, one, is_suspended, args)
    return 0


_ACTION_NAMES = {True: "suspend", False: "resume"}


async def _set_suspend_field(target: ClusterTarget, job_object: JobObject, is_suspended: bool) -> None:
    name = job_object.key.name
    if job_object.job is not None and job_object.job.is_suspended is is_suspended:
        sys.stdout.write(f"{name}: {'is suspended already' if is_suspended else 'is not suspended'}\n")
        return
    path = suspend_path(job_object.frontend)
    check_edit(job_object.frontend, with_field(job_object.raw, path, is_suspended))
    patch = merge_patch(path, is_suspended)
    await target.client.patch(job_object.resource, job_object.key.namespace, name, patch, strict=True)
    said = f"suspended; its members leave (pliant resume {name})" if is_suspended else "resumed; its members come back"
    sys.stdout.write(f"{name}: {said}\n")
    sys.stdout.flush()


async def _wait_for_effect(target: ClusterTarget, job_object: JobObject, is_suspended: bool, args: Namespace) -> None:
    latest = await wait_for_job(
        target,
        job_object,
        _has_suspended if is_suspended else _has_resumed,
        args.timeout,
        "at rest" if is_suspended else "at work",
    )
    if latest is None:
        raise UserError(f"{job_object.key.name} was deleted meanwhile")
    sys.stdout.write(f"{job_object.key.name}: {latest.phase}, {latest.message}\n")


def _has_suspended(job_object: JobObject | None) -> bool:
    if job_object is None or job_object.state is None:
        return job_object is None
    left = sum(each.active + each.pending + each.scheduled for each in job_object.state.replica_counts.values())
    return job_object.state.phase.is_final or (
        job_object.state.phase is JobPhase.SUSPENDED and job_object.message == "suspended" and not left
    )


def _has_resumed(job_object: JobObject | None) -> bool:
    return (
        job_object is None
        or job_object.phase == JobPhase.RUNNING
        or (job_object.state is not None and job_object.state.phase.is_final)
    )
