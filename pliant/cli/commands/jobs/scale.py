"""`pliant scale`: changes the number of replicas of a job."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace
from typing import TYPE_CHECKING

from pliant.cli.cluster.target import CLUSTER_SELECTION_HELP, ClusterTarget, add_target_options, connect_target
from pliant.cli.cluster.waiting import add_wait_options, wait_for_job
from pliant.cli.input.local_cluster_options import parse_non_negative_int
from pliant.errors import UserError

if TYPE_CHECKING:
    from pliant.cli.cluster.job_lookup import JobObject
    from pliant.model.job import Job, ReplicaGroup

DESCRIPTION = "Change the number of replicas of a group of a job."
EPILOG = f"""\
{CLUSTER_SELECTION_HELP}
The size of an elastic group stays between its minReplicas and maxReplicas. A resize never counts as a failure. It
restarts the replicas only if they cannot learn the new size otherwise.

examples:
  pliant scale bert 4                        resize the elastic group
  pliant scale bert 3 --group ps --wait      resize the group ps and wait until it runs
"""


def configure(parser: ArgumentParser) -> None:
    parser.add_argument("job", metavar="JOB", help="NAME or KIND/NAME")
    parser.add_argument("size", type=parse_non_negative_int, metavar="N", help="Number of replicas")
    parser.add_argument("--group", "-g", metavar="NAME", help="Name of the group (default: the elastic or only group)")
    add_wait_options(parser, "the replicas are running")
    add_target_options(parser)


async def execute(args: Namespace) -> int:
    from pliant.cli.cluster.job_lookup import find_job
    from pliant.cli.explain.group_sizes import size_bounds_text
    from pliant.engine.plans.membership import job_in_effect
    from pliant.model.english import pluralize
    from pliant.model.job import ResizeMode

    async with connect_target(args) as target:
        job_object = await find_job(target, args.job)
        job = _require_scalable(job_object)
        group = _select_group(job, args.group)
        if group.resize_mode is ResizeMode.FIXED and not job.is_suspended:  # new pods learn the size when it resumes
            raise UserError(f"{group.name} of {job.key.name} cannot be resized: {group.fixed_size_reason}")
        current = job_in_effect(job, job_object.state).group(group.name) if job_object.state else group
        size = await _request_size(target, job_object, group, args.size)
        bounds = f" (bounds {limits})" if (limits := size_bounds_text(group)) else ""
        clamped = f"; {args.size} requested" if size != args.size else ""
        old_size = current.size if current else group.size
        is_restart = group.resize_mode is ResizeMode.RESTART and size != old_size
        restart = "; all replicas restart" if is_restart else ""
        sys.stdout.write(f"{job_object.key.name}: {group.name} {old_size} → {size}{bounds}{clamped}{restart}\n")
        sys.stdout.flush()
        if args.wait:

            def is_done(latest: JobObject | None) -> bool:
                return latest is None or _has_size(latest, group.name, size)

            await wait_for_job(target, job_object, is_done, args.timeout, f"at size {size}")
            sys.stdout.write(f"{job_object.key.name}: {group.name} has {pluralize(size, 'replica')} running\n")
    return 0


def _require_scalable(job_object: JobObject) -> Job:
    if job_object.job is None:
        raise UserError(f"{job_object.key.name} has an invalid spec: {job_object.parse_error}")
    if job_object.state is not None and job_object.state.phase.is_final:
        raise UserError(f"{job_object.key.name} has finished ({job_object.phase}); submit it again with the new size")
    return job_object.job


def _select_group(job: Job, group_name: str | None) -> ReplicaGroup:
    from pliant.model.labels import normalize_group_name

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
    from pliant.cli.explain.group_sizes import size_bounds_text
    from pliant.cli.input.field_paths import (
        check_edited_job,
        group_replicas_path,
        merge_patch_for_field,
        scale_replicas_path,
        with_field,
    )

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
