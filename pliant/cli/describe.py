"""`pliant describe`: all there is to know about a job, on one page."""

from __future__ import annotations

import asyncio
import sys
from argparse import ArgumentParser, Namespace

from pliant.cli.target import WHICH_CLUSTER, add_target_options

EPILOG = f"""\
{WHICH_CLUSTER}
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
    from pliant.cli.jobs import named_jobs
    from pliant.cli.page import page_text
    from pliant.cli.style import Style
    from pliant.cli.surroundings import surroundings_of
    from pliant.cli.table import width_of
    from pliant.cli.target import connected
    from pliant.runtime.clock import SystemClock

    style, width = Style.of(sys.stdout), width_of(sys.stdout)
    async with connected(args) as target:
        pages = [
            page_text(one, await surroundings_of(target.client, one), SystemClock().now(), style, width)
            for one in await named_jobs(target, args.jobs)
        ]
    sys.stdout.write("\n\n".join(pages) + "\n")
    return 0
