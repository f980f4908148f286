"""`pliant resume`: let jobs that rest go on."""

from __future__ import annotations

import asyncio
from argparse import ArgumentParser, Namespace

from pliant.cli.cluster.target import TARGET_HELP, add_target_options
from pliant.cli.cluster.waiting import add_wait_options

EPILOG = f"""\
{TARGET_HELP}
examples:
  pliant resume bert            let it go on where it was
  pliant resume bert --wait     and wait until all members run
"""


def configure(parser: ArgumentParser) -> None:
    """Declare the options."""
    parser.epilog = EPILOG
    parser.add_argument("jobs", nargs="+", metavar="JOB", help="NAME or KIND/NAME")
    add_wait_options(parser, "all members run")
    add_target_options(parser)


def execute(args: Namespace) -> int:
    """Say so to each of them."""
    from pliant.cli.cluster.suspension import set_suspended

    return asyncio.run(set_suspended(args, is_suspended=False))
