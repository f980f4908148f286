"""`pliant logs`: prints the logs of all replicas of a job, also those of deleted pods on a local cluster."""

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
With -f, the command also follows replicas that start later, until the job ends. A local cluster keeps the logs of
earlier attempts until the job is deleted; other clusters delete the logs of a pod with the pod.

examples:
  pliant logs bert                           print all logs, replica by replica
  pliant logs bert -f --tail 20              print the last 20 lines of each replica and follow
  pliant logs bert --group worker --rank 0   print the logs of worker-0
  pliant logs bert --rank 0 --attempt 1      print the logs of replica 0 before its second restart
  pliant logs bert --since 10m | grep -i error
"""


def configure(parser: ArgumentParser) -> None:
    parser.add_argument("job", metavar="JOB", help="NAME or KIND/NAME")
    parser.add_argument("--group", "-g", metavar="NAME", help="Name of the group (default: all groups)")
    parser.add_argument(
        "--rank", "-r", type=parse_non_negative_int, metavar="N", help="Index of the replica (default: all)"
    )
    attempt_help = "Attempt of the replicas, as in `pliant describe` (default: all attempts)"
    parser.add_argument("--attempt", type=parse_non_negative_int, metavar="N", help=attempt_help)
    parser.add_argument("--container", "-c", metavar="NAME", help="Name of the container (default: all containers)")
    parser.add_argument("--follow", "-f", action="store_true", help="Follow the logs until the job ends")
    parser.add_argument("--previous", "-p", action="store_true", help="Print the logs before the latest restart")
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
        _check_group(args, job)
        reader = JobLogPrinter(target.client, job, args, sys.stdout)
        if args.follow:
            async with asyncio.TaskGroup() as tasks:
                await reader.follow(tasks)
        elif not await reader.print_existing():
            sys.stderr.write(f"{_no_logs_message(job, args)}\n")
            return 1
    return 0


def _check_group(args: Namespace, job_object: JobObject) -> None:
    from pliant.model.labels import normalize_group_name

    groups = [group.name for group in job_object.job.groups] if job_object.job else []
    if args.group and normalize_group_name(args.group) not in map(normalize_group_name, groups):
        raise UserError(f"{job_object.key.name} has no group `{args.group}`; groups: {', '.join(groups)}")


def _no_logs_message(job_object: JobObject, args: Namespace) -> str:
    from pliant.cli.explain.remedies import keep_pods_advice

    job, state, name = job_object.job, job_object.state, job_object.key.name
    options = ("group", "rank", "attempt", "container", "since")
    selection = [f"--{option}" for option in options if getattr(args, option) is not None]
    if args.previous:
        return f"no replica of {name} has a log from before its latest restart"
    if selection:
        return f"no log of {name} matches {', '.join(selection)}; `pliant describe {name}` lists the replicas"
    if state is not None and state.phase.is_final and job is not None and job.clean_pod_policy == "All":
        return f"the pods of {name} and their logs are deleted; {keep_pods_advice(job)} keeps those that have finished"
    return f"no replica of {name} has written logs: {job_object.message}"
