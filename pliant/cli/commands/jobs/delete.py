"""`pliant delete`: deletes jobs and everything they own."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace

from pliant.cli.cluster.target import CLUSTER_SELECTION_HELP, add_target_options, connect_target
from pliant.cli.cluster.waiting import add_wait_options, wait_deleted
from pliant.errors import NotFound, UserError

DESCRIPTION = "Delete jobs and everything they own: pods, services and ConfigMaps."
EPILOG = f"""\
{CLUSTER_SELECTION_HELP}
examples:
  pliant delete bert               delete a job; its pods have their grace period
  pliant delete bert gpt --wait    delete two jobs and wait until their pods are gone
  pliant delete --all              delete all jobs of the namespace
"""


def configure(parser: ArgumentParser) -> None:
    parser.add_argument("jobs", nargs="*", metavar="JOB", help="NAME or KIND/NAME")
    parser.add_argument("--all", action="store_true", help="Delete all jobs of the namespace")
    add_wait_options(parser, "the jobs and their pods are deleted")
    add_target_options(parser)


async def execute(args: Namespace) -> int:
    from pliant.cli.cluster.job_lookup import find_jobs, list_jobs

    if bool(args.jobs) is args.all:
        raise UserError("specify the names of jobs, or --all")
    async with connect_target(args) as target:
        jobs = await (list_jobs(target) if args.all else find_jobs(target, args.jobs))
        for job in jobs:
            try:
                await target.client.delete(job.resource, job.key.namespace, job.key.name, uid=job.uid)
            except NotFound:
                continue  # another client has deleted it
            sys.stdout.write(f"{job.key.name}: deleted\n")
            sys.stdout.flush()
        if args.wait:
            for job in jobs:
                await wait_deleted(target, job, args.timeout)
            sys.stdout.write("all pods are deleted\n")
    if not jobs:
        sys.stderr.write("no jobs to delete\n")
    return 0
