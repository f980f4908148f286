"""`pliant suspend`: suspends jobs."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from pliant.cli.cluster.target import CLUSTER_SELECTION_HELP, add_target_options
from pliant.cli.cluster.waiting import add_wait_options

DESCRIPTION = "Suspend jobs: delete their pods and keep their state. The timeLimit of a suspended job is paused."
EPILOG = f"""\
{CLUSTER_SELECTION_HELP}
examples:
  pliant suspend bert            suspend a job
  pliant suspend bert --wait     suspend a job and wait until its pods are deleted
"""


def configure(parser: ArgumentParser) -> None:
    parser.add_argument("jobs", nargs="+", metavar="JOB", help="NAME or KIND/NAME")
    add_wait_options(parser, "their pods are deleted")
    add_target_options(parser)


async def execute(args: Namespace) -> int:
    from pliant.cli.cluster.suspension import suspend_or_resume_jobs

    return await suspend_or_resume_jobs(args, is_suspended=True)
