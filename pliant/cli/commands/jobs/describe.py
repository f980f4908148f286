"""`pliant describe`: shows the details of jobs."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace

from pliant.cli.cluster.target import CLUSTER_SELECTION_HELP, add_target_options, connect_target
from pliant.cli.output.style import TerminalStyle
from pliant.cli.output.table import terminal_width
from pliant.runtime.clock import SystemClock

DESCRIPTION = "Show the details of jobs: status, groups, replicas, scale plans, timeline and events."
EPILOG = f"""\
{CLUSTER_SELECTION_HELP}
`pliant why JOB` explains the state of a job and suggests fixes.

examples:
  pliant describe bert
  pliant describe aitj/bert -n team-a
"""


def configure(parser: ArgumentParser) -> None:
    parser.add_argument("jobs", nargs="+", metavar="JOB", help="NAME or KIND/NAME")
    add_target_options(parser)


async def execute(args: Namespace) -> int:
    from pliant.cli.cluster.job_lookup import find_jobs
    from pliant.cli.cluster.retained_logs import load_context_with_logs
    from pliant.cli.output.job_page import render_job_page

    style, width = TerminalStyle.for_stream(sys.stdout), terminal_width(sys.stdout)
    async with connect_target(args) as target:
        pages = [
            render_job_page(job, await load_context_with_logs(target.client, job), SystemClock().now(), style, width)
            for job in await find_jobs(target, args.jobs)
        ]
    sys.stdout.write("\n\n".join(pages) + "\n")
    return 0
