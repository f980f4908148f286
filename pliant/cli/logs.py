"""`pliant logs`: what all members of a job write, each line with its speaker."""

from __future__ import annotations

import asyncio
import sys
from argparse import ArgumentParser, ArgumentTypeError, BooleanOptionalAction, Namespace
from typing import TYPE_CHECKING

from pliant.cli.cluster_options import duration
from pliant.cli.target import WHICH_CLUSTER, add_target_options

if TYPE_CHECKING:
    from pliant.cli.jobs import Found

EPILOG = f"""\
{WHICH_CLUSTER}
With -f, new attempts and new members are followed too, until the job ends.

examples:
  pliant logs bert                           everything, member by member
  pliant logs bert -f --tail 20              the last lines of each, and whatever comes
  pliant logs bert --group worker --rank 0   one member
  pliant logs bert --since 10m | grep -i error
"""


def configure(parser: ArgumentParser) -> None:
    """Declare the options."""
    parser.epilog = EPILOG
    parser.add_argument("job", metavar="JOB", help="NAME or KIND/NAME")
    parser.add_argument("--group", "-g", metavar="NAME", help="only this group")
    parser.add_argument("--rank", "-r", type=_count, metavar="N", help="only the member of this number")
    parser.add_argument("--container", "-c", metavar="NAME", help="only this container")
    parser.add_argument("--follow", "-f", action="store_true", help="go on until the job ends")
    parser.add_argument("--previous", "-p", action="store_true", help="of the run before, inside the same pod")
    parser.add_argument("--tail", type=_count, metavar="N", help="only the last lines of each")
    parser.add_argument("--since", type=duration, metavar="TIME", help="only what is younger than 30s, 10m, 1h…")
    parser.add_argument(
        "--prefix", action=BooleanOptionalAction, default=True, help="put the member before each line (yes)"
    )
    add_target_options(parser)


def _count(text: str) -> int:
    if not text.isascii() or not text.isdigit():
        raise ArgumentTypeError(f"`{text}` is not a whole number")
    return int(text)


def execute(args: Namespace) -> int:
    """Write them."""
    return asyncio.run(_logs(args))


async def _logs(args: Namespace) -> int:
    from pliant.cli.jobs import named_job
    from pliant.cli.logreader import LogReader
    from pliant.cli.target import connected
    from pliant.errors import UserError

    if args.follow and args.previous:
        raise UserError("--follow and --previous exclude each other: what has ended writes no more")
    async with connected(args) as target:
        one = await named_job(target, args.job)
        _check(args, one)
        reader = LogReader(target.client, one, args, sys.stdout)
        if args.follow:
            async with asyncio.TaskGroup() as tasks:
                await reader.follow(tasks)
        elif not await reader.read():
            sys.stderr.write(f"{_silence(one)}\n")
            return 1
    return 0


def _check(args: Namespace, one: Found) -> None:
    """Refuse a group that the job does not have."""
    from pliant.errors import UserError
    from pliant.model.labels import member_group

    groups = [group.name for group in one.job.groups] if one.job else []
    if args.group and member_group(args.group) not in map(member_group, groups):
        raise UserError(f"{one.key.name} has no group `{args.group}`; there are: {', '.join(groups)}")


def _silence(one: Found) -> str:
    """Why there is nothing to read."""
    if one.state is not None and one.state.phase.is_final and one.job is not None and one.job.clean == "All":
        return (
            f"{one.key.name} has ended and its pods are gone, and their logs with them; "
            "cleanPodPolicy: None keeps them"
        )
    return f"no member of {one.key.name} has written anything: {one.message}"
