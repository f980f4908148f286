"""`pliant delete`: take jobs away, with their pods and services."""

from __future__ import annotations

import asyncio
import sys
from argparse import ArgumentParser, Namespace
from typing import TYPE_CHECKING

from pliant.cli.target import WHICH_CLUSTER, add_target_options
from pliant.cli.waiting import add_wait_options

if TYPE_CHECKING:
    from pliant.cli.jobs import Found
    from pliant.cli.target import Target

EPILOG = f"""\
{WHICH_CLUSTER}
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
    from pliant.cli.jobs import all_jobs, named_jobs
    from pliant.cli.target import connected
    from pliant.errors import NotFound, UserError

    if bool(args.jobs) is args.all:
        raise UserError("name the jobs to delete, or say --all")
    async with connected(args) as target:
        jobs = await (all_jobs(target) if args.all else named_jobs(target, args.jobs))
        for one in jobs:
            try:
                await target.client.delete(one.resource, one.key.namespace, one.key.name, uid=one.uid)
            except NotFound:
                continue  # somebody else was faster
            sys.stdout.write(f"{one.key.name}: deleted\n")
            sys.stdout.flush()
        if args.wait:
            await _wait(target, jobs, args)
    if not jobs:
        sys.stderr.write("no jobs to delete\n")
    return 0


async def _wait(target: Target, jobs: list[Found], args: Namespace) -> None:
    from pliant.cli.waiting import wait_no_pods, wait_until

    for one in jobs:
        await wait_until(target, one, lambda latest: latest is None, args.timeout, "gone")
        await wait_no_pods(target, one, args.timeout)
    sys.stdout.write("nothing of them is left\n")
