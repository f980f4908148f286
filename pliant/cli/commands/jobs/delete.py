"""`pliant delete`: take jobs away, with their pods and services."""

from __future__ import annotations

import asyncio
import sys
from argparse import ArgumentParser, Namespace
from typing import TYPE_CHECKING

from pliant.cli.cluster.target import TARGET_HELP, add_target_options
from pliant.cli.cluster.waiting import add_wait_options

if TYPE_CHECKING:
    from pliant.cli.cluster.job_lookup import JobObject
    from pliant.cli.cluster.target import ClusterTarget

EPILOG = f"""\
{TARGET_HELP}
examples:
  pliant delete bert               its pods get their grace period
  pliant delete bert gpt --wait    and wait until nothing of them is left
  pliant delete --all              all jobs of this namespace
"""


def configure(parser: ArgumentParser) -> None:
    """Declare the options."""
    parser.epilog = EPILOG
    parser.add_argument("jobs", nargs="*", metavar="JOB", help="NAME or KIND/NAME")
    parser.add_argument("--all", action="store_true", help="all jobs of the namespace")
    add_wait_options(parser, "they and their pods are gone")
    add_target_options(parser)


def execute(args: Namespace) -> int:
    """Delete them."""
    return asyncio.run(_delete(args))


async def _delete(args: Namespace) -> int:
    from pliant.cli.cluster.job_lookup import find_jobs, list_jobs
    from pliant.cli.cluster.target import connect_target
    from pliant.errors import NotFound, UserError

    if bool(args.jobs) is args.all:
        raise UserError("name the jobs to delete, or say --all")
    async with connect_target(args) as target:
        jobs = await (list_jobs(target) if args.all else find_jobs(target, args.jobs))
        for one in jobs:
            try:
                await target.client.delete(one.resource, one.key.namespace, one.key.name, uid=one.uid)
            except NotFound:
                continue  # somebody else was faster
            sys.stdout.write(f"{one.key.name}: deleted\n")
            sys.stdout.flush()
        if args.wait:
            await _wait_until_deleted(target, jobs, args)
    if not jobs:
        sys.stderr.write("no jobs to delete\n")
    return 0


async def _wait_until_deleted(target: ClusterTarget, jobs: list[JobObject], args: Namespace) -> None:
    from pliant.cli.cluster.waiting import wait_for_job, wait_for_pods_deleted

    for one in jobs:
        await wait_for_job(target, one, lambda latest: latest is None, args.timeout, "gone")
        await wait_for_pods_deleted(target, one, args.timeout)
    sys.stdout.write("nothing of them is left\n")
