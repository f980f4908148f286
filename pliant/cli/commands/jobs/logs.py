"""`pliant logs`: what all members of a job write, each line with its speaker."""

from __future__ import annotations

import asyncio
import sys
from argparse import ArgumentParser, ArgumentTypeError, BooleanOptionalAction, Namespace
from typing import TYPE_CHECKING

from pliant.cli.cluster.target import TARGET_HELP, add_target_options
from pliant.cli.input.local_cluster_options import parse_duration_option

if TYPE_CHECKING:
    from pliant.cli.cluster.job_lookup import JobObject

EPILOG = f"""\
{TARGET_HELP}
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
    parser.add_argument("--rank", "-r", type=_parse_count, metavar="N", help="only the member of this number")
    parser.add_argument("--container", "-c", metavar="NAME", help="only this container")
    parser.add_argument("--follow", "-f", action="store_true", help="go on until the job ends")
    parser.add_argument("--previous", "-p", action="store_true", help="of the run before, inside the same pod")
    parser.add_argument("--tail", type=_parse_count, metavar="N", help="only the last lines of each")
    parser.add_argument(
        "--since", type=parse_duration_option, metavar="TIME", help="only what is younger than 30s, 10m, 1h…"
    )
    parser.add_argument(
        "--prefix", action=BooleanOptionalAction, default=True, help="put the member before each line (yes)"
    )
    add_target_options(parser)


def _parse_count(text: str) -> int:
    if not text.isascii() or not text.isdigit():
        raise ArgumentTypeError(f"`{text}` is not a whole number")
    return int(text)


def execute(args: Namespace) -> int:
    """Write them."""
    return asyncio.run(_show_logs(args))


async def _show_logs(args: Namespace) -> int:
    from pliant.cli.cluster.job_lookup import find_job
    from pliant.cli.cluster.target import connect_target
    from pliant.cli.output.log_reader import LogReader
    from pliant.errors import UserError

    if args.follow and args.previous:
        raise UserError("--follow and --previous exclude each other: what has ended writes no more")
    async with connect_target(args) as target:
        one = await find_job(target, args.job)
        _check_group(args, one)
        reader = LogReader(target.client, one, args, sys.stdout)
        if args.follow:
            async with asyncio.TaskGroup() as tasks:
                await reader.follow(tasks)
        elif not await reader.read_existing():
            sys.stderr.write(f"{_no_logs_message(one)}\n")
            return 1
    return 0


def _check_group(args: Namespace, job_object: JobObject) -> None:
    """Refuse a group that the job does not have."""
    from pliant.errors import UserError
    from pliant.model.labels import normalize_group_name

    groups = [group.name for group in job_object.job.groups] if job_object.job else []
    if args.group and normalize_group_name(args.group) not in map(normalize_group_name, groups):
        raise UserError(f"{job_object.key.name} has no group `{args.group}`; there are: {', '.join(groups)}")


def _no_logs_message(job_object: JobObject) -> str:
    """Why there is nothing to read."""
    if (
        job_object.state is not None
        and job_object.state.phase.is_final
        and job_object.job is not None
        and job_object.job.clean_pod_policy == "All"
    ):
        return (
            f"{job_object.key.name} has ended and its pods are gone, and their logs with them; "
            "cleanPodPolicy: None keeps them"
        )
    return f"no member of {job_object.key.name} has written anything: {job_object.message}"
