"""`pliant resume`: resumes suspended jobs."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from pliant.cli.cluster.target import CLUSTER_SELECTION_HELP, add_target_options
from pliant.cli.cluster.waiting import add_wait_options

DESCRIPTION = "Resume suspended jobs: create their pods again. The timeLimit counts from where it was paused."
EPILOG = f"""\
{CLUSTER_SELECTION_HELP}
examples:
  pliant resume bert            resume a job
  pliant resume bert --wait     resume a job and wait until all replicas run
"""


def configure(parser: ArgumentParser) -> None:
    parser.add_argument("jobs", nargs="+", metavar="JOB", help="NAME or KIND/NAME")
    add_wait_options(parser, "all replicas are running")
    add_target_options(parser)


async def execute(args: Namespace) -> int:
    from pliant.cli.cluster.suspension import suspend_or_resume_jobs

    return await suspend_or_resume_jobs(args, is_suspended=False)
