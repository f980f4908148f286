"""`pliant events`: what was told about a job and its pods, the latest last."""

from __future__ import annotations

import asyncio
import sys
from argparse import ArgumentParser, Namespace
from typing import TYPE_CHECKING

from pliant.cli.output import add_output_option
from pliant.cli.target import WHICH_CLUSTER, add_target_options

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from pliant.cli.surroundings import Told

EPILOG = f"""\
{WHICH_CLUSTER}
examples:
  pliant events bert
  pliant events bert -o json       for programs
"""


def configure(parser: ArgumentParser) -> None:
    """Declare the options."""
    parser.epilog = EPILOG
    parser.add_argument("job", metavar="JOB", help="NAME or KIND/NAME")
    add_output_option(parser, ("table", "json", "yaml"))
    add_target_options(parser)


def execute(args: Namespace) -> int:
    """Tell them."""
    return asyncio.run(_events(args))


async def _events(args: Namespace) -> int:
    from pliant.cli.jobs import named_job
    from pliant.cli.output import data_text
    from pliant.cli.style import Style
    from pliant.cli.surroundings import events_of
    from pliant.cli.table import Table, width_of
    from pliant.cli.target import connected
    from pliant.runtime.clock import SystemClock

    async with connected(args) as target:
        told = await events_of(target.client, await named_job(target, args.job))
    if args.output != "table":
        sys.stdout.write(data_text(args.output, [_data(one) for one in told]))
    elif not told:
        sys.stderr.write("no events; a cluster forgets them after an hour, `pliant why` knows more\n")
    else:
        table = Table(("AGE", "TYPE", "REASON", "ABOUT", "MESSAGE"), Style.of(sys.stdout), width_of(sys.stdout))
        sys.stdout.write("\n".join(table.lines(event_rows(told, SystemClock().now()))) + "\n")
    return 0


def event_rows(told: Sequence[Told], now: datetime) -> list[list[str]]:
    """One row per event."""
    from pliant.cli.durations import age_text

    return [
        [
            age_text(now - one.at) if one.at else "–",
            "Warning" if one.is_warning else "Normal",
            one.reason,
            one.about,
            f"{one.message} (×{one.count})" if one.count > 1 else one.message,
        ]
        for one in told
    ]


def _data(one: Told) -> dict[str, object]:
    return {
        "at": one.at.isoformat() if one.at else None,
        "type": "Warning" if one.is_warning else "Normal",
        "reason": one.reason,
        "about": one.about,
        "message": one.message,
        "count": one.count,
    }
