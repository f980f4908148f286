"""`pliant suspend`: let jobs rest; members go, clock and memory stay."""

from __future__ import annotations

import asyncio
from argparse import ArgumentParser, Namespace

from pliant.cli.cluster.target import TARGET_HELP, add_target_options
from pliant.cli.cluster.waiting import add_wait_options

EPILOG = f"""\
{TARGET_HELP}
examples:
  pliant suspend bert            let it rest: its members go, its clock stands
  pliant suspend bert --wait     and wait until their members are gone
"""


def configure(parser: ArgumentParser) -> None:
    """Declare the options."""
    parser.epilog = EPILOG
    parser.add_argument("jobs", nargs="+", metavar="JOB", help="NAME or KIND/NAME")
    add_wait_options(parser, "their members are gone")
    add_target_options(parser)


def execute(args: Namespace) -> int:
    """Say so to each of them."""
    from pliant.cli.cluster.suspension import set_suspended

    return asyncio.run(set_suspended(args, is_suspended=True))
