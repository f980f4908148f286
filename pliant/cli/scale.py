"""`pliant scale`: another size for a group of a job."""

from __future__ import annotations

import asyncio
import sys
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from typing import TYPE_CHECKING

from pliant.cli.target import WHICH_CLUSTER, add_target_options
from pliant.cli.waiting import add_wait_options

if TYPE_CHECKING:
    from pliant.cli.jobs import Found
    from pliant.cli.target import Target
    from pliant.model.job import Group, Job

EPILOG = f"""\
{WHICH_CLUSTER}
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
    parser.add_argument("size", type=_size, metavar="N", help="how many members")
    parser.add_argument("--group", "-g", metavar="NAME", help="which group (the elastic one, or the only one)")
    add_wait_options(parser, "they run")
    add_target_options(parser)


def _size(text: str) -> int:
    if not text.isascii() or not text.isdigit():
        raise ArgumentTypeError(f"`{text}` is not a number of members")
    return int(text)


def execute(args: Namespace) -> int:
    """Ask for the size."""
    return asyncio.run(_scale(args))


async def _scale(args: Namespace) -> int:
    from pliant.cli.jobs import named_job
    from pliant.cli.sizes import bounds_text
    from pliant.cli.target import connected
    from pliant.cli.waiting import wait_until
    from pliant.engine.sizing import sized
    from pliant.engine.wording import counted

    async with connected(args) as target:
        one = await named_job(target, args.job)
        job = _scalable(one)
        group = _free_to_move(job, _group(job, args.group))
        now = sized(job, job.state).group(group.name) if job.state else group
        size = await _ask(target, one, group, args.size)
        bounds = f" (bounds {within})" if (within := bounds_text(group)) else ""
        held = f"; you asked for {args.size}" if size != args.size else ""
        before = now.size if now else group.size
        anew = "; all members start again, to be told of it" if _starts_all_again(group, before, size) else ""
        sys.stdout.write(f"{one.key.name}: {group.name} {before} → {size}{bounds}{held}{anew}\n")
        sys.stdout.flush()
        if args.wait:

            def is_done(latest: Found | None) -> bool:
                return latest is None or _has_size(latest, group.name, size)

            await wait_until(target, one, is_done, args.timeout, f"at size {size}")
            sys.stdout.write(f"{one.key.name}: {group.name} has {counted(size, 'member')} up\n")
    return 0


def _scalable(one: Found) -> Job:
    from pliant.errors import UserError

    if one.job is None:
        raise UserError(f"{one.key.name} cannot be understood: {one.problem}")
    if one.job.state is not None and one.job.state.phase.is_final:
        raise UserError(f"{one.key.name} has ended ({one.phase}); submit it again with the size you want")
    return one.job


def _group(job: Job, asked: str | None) -> Group:
    """The group that is meant."""
    from pliant.errors import UserError
    from pliant.model.labels import member_group

    names = ", ".join(group.name for group in job.groups)
    wanted = asked or job.elastic or (job.groups[0].name if len(job.groups) == 1 else "")
    if not wanted:
        raise UserError(f"which group? {job.key.name} has {names}; say --group")
    for group in job.groups:
        if member_group(group.name) == member_group(wanted):
            return group
    raise UserError(f"{job.key.name} has no group `{wanted}`; there are: {names}")


def _free_to_move(job: Job, group: Group) -> Group:
    """The group, unless its members could not be told of another size."""
    from pliant.errors import UserError
    from pliant.model.job import Resize

    if group.resize is Resize.HOLD and not job.is_suspended:  # after a rest all are told anew
        raise UserError(f"{group.name} of {job.key.name} keeps its size: {group.hold}")
    return group


def _starts_all_again(group: Group, before: int, size: int) -> bool:
    from pliant.model.job import Resize

    return group.resize is Resize.RESTART and size != before


async def _ask(target: Target, one: Found, group: Group, size: int) -> int:
    """Write the size where the later edit wins; the answer is what will come of it."""
    from pliant.cli.edits import check_edit, patch_of, replicas_path, scale_path, with_value
    from pliant.cli.sizes import bounds_text
    from pliant.errors import UserError

    key, path = one.key, scale_path(one.frontend)
    if one.job is not None and path is not None and group.name == one.job.elastic:
        check_edit(one.frontend, with_value(one.raw, path, size))
        patch = {"spec": {"replicas": size}}
        await target.client.patch(one.resource, key.namespace, key.name, patch, subresource="scale")
        return max(group.least, size if group.most is None else min(size, group.most))
    if group.is_elastic and (size < group.least or (group.most is not None and size > group.most)):
        raise UserError(f"{group.name} moves between {bounds_text(group)}; {size} is out of these bounds")
    path = replicas_path(one.raw, group.name)
    check_edit(one.frontend, with_value(one.raw, path, size))
    await target.client.patch(one.resource, key.namespace, key.name, patch_of(path, size), strict=True)
    return size


def _has_size(one: Found, group: str, size: int) -> bool:
    state = one.state
    if state is None:
        return False
    counts = state.counts.get(group)
    is_there = counts is not None and counts.size == size and counts.active + counts.succeeded == size
    return state.phase.is_final or (state.group(group).size == size and is_there)
