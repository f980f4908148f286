"""`pliant describe`: all there is to know about a job, on one page."""

from __future__ import annotations

import asyncio
import sys
from argparse import ArgumentParser, Namespace

from pliant.cli.cluster.target import TARGET_HELP, add_target_options

EPILOG = f"""\
{TARGET_HELP}
`pliant why JOB` tells the same as a story.

examples:
  pliant describe bert
  pliant describe aitj/bert -n team-a
"""


def configure(parser: ArgumentParser) -> None:
    """Declare the options."""
    parser.epilog = EPILOG
    parser.add_argument("jobs", nargs="+", metavar="JOB", help="NAME or KIND/NAME")
    add_target_options(parser)


def execute(args: Namespace) -> int:
    """Write the page."""
    return asyncio.run(_describe(args))


async def _describe(args: Namespace) -> int:
    from pliant.cli.cluster.job_context import load_cluster_context
    from pliant.cli.cluster.job_lookup import find_jobs
    from pliant.cli.cluster.target import connect_target
    from pliant.cli.output.job_page import render_job_page
    from pliant.cli.output.style import TerminalStyle
    from pliant.cli.output.table import terminal_width
    from pliant.runtime.clock import SystemClock

    style, width = TerminalStyle.for_stream(sys.stdout), terminal_width(sys.stdout)
    async with connect_target(args) as target:
        pages = [
            render_job_page(one, await load_cluster_context(target.client, one), SystemClock().now(), style, width)
            for one in await find_jobs(target, args.jobs)
        ]
    sys.stdout.write("\n\n".join(pages) + "\n")
    return 0
