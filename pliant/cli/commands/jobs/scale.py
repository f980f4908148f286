"""`pliant scale`: another size for a group of a job."""

from __future__ import annotations

import asyncio
import sys
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from typing import TYPE_CHECKING

from pliant.cli.cluster.target import TARGET_HELP, add_target_options
from pliant.cli.cluster.waiting import add_wait_options

if TYPE_CHECKING:
    from pliant.cli.cluster.job_lookup import JobObject
    from pliant.cli.cluster.target import ClusterTarget
    from pliant.model.job import Job, ReplicaGroup

EPILOG = f"""\
{TARGET_HELP}
Sizes move between minReplicas and maxReplicas of a group; resizing is never a failure, and costs a restart only
where members could not be told of it otherwise.

examples:
  pliant scale bert 4                        the group that is elastic
  pliant scale bert 3 --group ps --wait      another group, and wait until its members run
"""


def configure(parser: ArgumentParser) -> None:
    """Declare the options."""
    parser.epilog = EPILOG
    parser.add_argument("job", metavar="JOB", help="NAME or KIND/NAME")
    parser.add_argument("size", type=_parse_size, metavar="N", help="how many members")
    parser.add_argument("--group", "-g", metavar="NAME", help="which group (the elastic one, or the only one)")
    add_wait_options(parser, "they run")
    add_target_options(parser)


def _parse_size(text: str) -> int:
    if not text.isascii() or not text.isdigit():
        raise ArgumentTypeError(f"`{text}` is not a number of members")
    return int(text)


def execute(args: Namespace) -> int:
    """Ask for the size."""
    return asyncio.run(_scale_job(args))


async def _scale_job(args: Namespace) -> int:
    from pliant.cli.cluster.job_lookup import find_job
    from pliant.cli.cluster.target import connect_target
    from pliant.cli.cluster.waiting import wait_for_job
    from pliant.cli.explain.group_sizes import size_bounds_text
    from pliant.engine.sizing import with_applied_sizes
    from pliant.engine.status.messages import pluralize

    async with connect_target(args) as target:
        one = await find_job(target, args.job)
        job = _require_scalable(one)
        group = _require_resizable(job, _select_group(job, args.group))
        now = with_applied_sizes(job, job.state).group(group.name) if job.state else group
        size = await _request_size(target, one, group, args.size)
        bounds = f" (bounds {within})" if (within := size_bounds_text(group)) else ""
        held = f"; you asked for {args.size}" if size != args.size else ""
        before = now.size if now else group.size
        anew = "; all replicas restart" if _restarts_all(group, before, size) else ""
        sys.stdout.write(f"{one.key.name}: {group.name} {before} → {size}{bounds}{held}{anew}\n")
        sys.stdout.flush()
        if args.wait:

            def is_done(latest: JobObject | None) -> bool:
                return latest is None or _has_size(latest, group.name, size)

            await wait_for_job(target, one, is_done, args.timeout, f"at size {size}")
            sys.stdout.write(f"{one.key.name}: {group.name} has {pluralize(size, 'member')} up\n")
    return 0


def _require_scalable(job_object: JobObject) -> Job:
    from pliant.errors import UserError

    if job_object.job is None:
        raise UserError(f"{job_object.key.name} cannot be understood: {job_object.parse_error}")
    if job_object.job.state is not None and job_object.job.state.phase.is_final:
        raise UserError(f"{job_object.key.name} has ended ({job_object.phase}); submit it again with the size you want")
    return job_object.job


def _select_group(job: Job, group_name: str | None) -> ReplicaGroup:
    """The group that is meant."""
    from pliant.errors import UserError
    from pliant.model.labels import normalize_group_name

    names = ", ".join(group.name for group in job.groups)
    wanted = group_name or job.scalable_group or (job.groups[0].name if len(job.groups) == 1 else "")
    if not wanted:
        raise UserError(f"which group? {job.key.name} has {names}; say --group")
    for group in job.groups:
        if normalize_group_name(group.name) == normalize_group_name(wanted):
            return group
    raise UserError(f"{job.key.name} has no group `{wanted}`; there are: {names}")


def _require_resizable(job: Job, group: ReplicaGroup) -> ReplicaGroup:
    """The group, unless its members could not be told of another size."""
    from pliant.errors import UserError
    from pliant.model.job import ResizeMode

    if group.resize_mode is ResizeMode.FIXED and not job.is_suspended:  # after a rest all are told anew
        raise UserError(f"{group.name} of {job.key.name} keeps its size: {group.fixed_size_reason}")
    return group


def _restarts_all(group: ReplicaGroup, old_size: int, new_size: int) -> bool:
    from pliant.model.job import ResizeMode

    return group.resize_mode is ResizeMode.RESTART and new_size != old_size


async def _request_size(target: ClusterTarget, job_object: JobObject, group: ReplicaGroup, size: int) -> int:
    """Write the size where the later edit wins; the answer is what will come of it."""
    from pliant.cli.explain.group_sizes import size_bounds_text
    from pliant.cli.input.field_paths import check_edit, merge_patch, replicas_path, scale_path, with_field
    from pliant.errors import UserError

    key, path = job_object.key, scale_path(job_object.frontend)
    if job_object.job is not None and path is not None and group.name == job_object.job.scalable_group:
        check_edit(job_object.frontend, with_field(job_object.raw, path, size))
        patch = {"spec": {"replicas": size}}
        await target.client.patch(job_object.resource, key.namespace, key.name, patch, subresource="scale")
        return max(group.min_size, size if group.max_size is None else min(size, group.max_size))
    if group.is_elastic and (size < group.min_size or (group.max_size is not None and size > group.max_size)):
        raise UserError(f"{group.name} moves between {size_bounds_text(group)}; {size} is out of these bounds")
    path = replicas_path(job_object.raw, group.name)
    check_edit(job_object.frontend, with_field(job_object.raw, path, size))
    await target.client.patch(job_object.resource, key.namespace, key.name, merge_patch(path, size), strict=True)
    return size


def _has_size(job_object: JobObject, group_name: str, size: int) -> bool:
    state = job_object.state
    if state is None:
        return False
    counts = state.replica_counts.get(group_name)
    is_there = counts is not None and counts.size == size and counts.active + counts.succeeded == size
    return state.phase.is_final or (state.group(group_name).applied_size == size and is_there)
