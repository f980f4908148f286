"""`pliant logs`: prints the logs of all replicas of a job."""

from __future__ import annotations

import asyncio
import sys
from argparse import ArgumentParser, BooleanOptionalAction, Namespace
from typing import TYPE_CHECKING

from pliant.cli.cluster.target import CLUSTER_SELECTION_HELP, add_target_options, connect_target
from pliant.cli.input.local_cluster_options import parse_duration_option, parse_non_negative_int
from pliant.errors import UserError

if TYPE_CHECKING:
    from pliant.cli.cluster.job_lookup import JobObject

DESCRIPTION = "Print the logs of all replicas of a job, each line with the name of its replica."
EPILOG = f"""\
{CLUSTER_SELECTION_HELP}
With -f, the command also follows replicas that start later, until the job ends.

examples:
  pliant logs bert                           print all logs, replica by replica
  pliant logs bert -f --tail 20              print the last 20 lines of each replica and follow
  pliant logs bert --group worker --rank 0   print the logs of worker-0
  pliant logs bert --since 10m | grep -i error
"""


def configure(parser: ArgumentParser) -> None:
    parser.add_argument("job", metavar="JOB", help="NAME or KIND/NAME")
    parser.add_argument("--group", "-g", metavar="NAME", help="Name of the group (default: all groups)")
    parser.add_argument(
        "--rank", "-r", type=parse_non_negative_int, metavar="N", help="Index of the replica (default: all)"
    )
    parser.add_argument("--container", "-c", metavar="NAME", help="Name of the container (default: all containers)")
    parser.add_argument("--follow", "-f", action="store_true", help="Follow the logs until the job ends")
    parser.add_argument("--previous", "-p", action="store_true", help="Print the logs of the previous container")
    parser.add_argument(
        "--tail", type=parse_non_negative_int, metavar="N", help="Number of lines from the end of each log"
    )
    parser.add_argument("--since", type=parse_duration_option, metavar="TIME", help="Maximum age of lines, such as 10m")
    parser.add_argument(
        "--prefix", action=BooleanOptionalAction, default=True, help="Prefix each line with its replica (yes)"
    )
    add_target_options(parser)


async def execute(args: Namespace) -> int:
    from pliant.cli.cluster.job_lookup import find_job
    from pliant.cli.output.log_reader import JobLogPrinter

    if args.follow and args.previous:
        raise UserError("--follow and --previous are mutually exclusive")
    async with connect_target(args) as target:
        job = await find_job(target, args.job)
        check_group(args, job)
        reader = JobLogPrinter(target.client, job, args, sys.stdout)
        if args.follow:
            async with asyncio.TaskGroup() as tasks:
                await reader.follow(tasks)
        elif not await reader.print_existing():
            sys.stderr.write(f"{_no_logs_message(job)}\n")
            return 1
    return 0


def check_group(args: Namespace, job_object: JobObject) -> None:
    """Raise UserError for the name of a group that the job does not have."""
    from pliant.model.labels import normalize_group_name

    groups = [group.name for group in job_object.job.groups] if job_object.job else []
    if args.group and normalize_group_name(args.group) not in map(normalize_group_name, groups):
        raise UserError(f"{job_object.key.name} has no group `{args.group}`; groups: {', '.join(groups)}")


def _no_logs_message(job_object: JobObject) -> str:
    job, state = job_object.job, job_object.state
    if state is not None and state.phase.is_final and job is not None and job.clean_pod_policy == "All":
        return f"the pods of {job_object.key.name} and their logs are deleted; cleanPodPolicy: None keeps them"
    return f"no replica of {job_object.key.name} has written logs: {job_object.message}"
