"""`pliant events`: what was told about a job and its pods, the latest last."""

from __future__ import annotations

import asyncio
import sys
from argparse import ArgumentParser, Namespace
from typing import TYPE_CHECKING

from pliant.cli.cluster.target import TARGET_HELP, add_target_options
from pliant.cli.output.formats import add_output_option

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from pliant.cli.cluster.job_context import JobEvent

EPILOG = f"""\
{TARGET_HELP}
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
    return asyncio.run(_list_events(args))


async def _list_events(args: Namespace) -> int:
    from pliant.cli.cluster.job_context import list_job_events
    from pliant.cli.cluster.job_lookup import find_job
    from pliant.cli.cluster.target import connect_target
    from pliant.cli.output.formats import format_data
    from pliant.cli.output.style import TerminalStyle
    from pliant.cli.output.table import Table, terminal_width
    from pliant.runtime.clock import SystemClock

    async with connect_target(args) as target:
        told = await list_job_events(target.client, await find_job(target, args.job))
    if args.output != "table":
        sys.stdout.write(format_data(args.output, [_event_to_dict(one) for one in told]))
    elif not told:
        sys.stderr.write("no events; a cluster forgets them after an hour, `pliant why` knows more\n")
    else:
        table = Table(
            ("AGE", "TYPE", "REASON", "ABOUT", "MESSAGE"),
            TerminalStyle.for_stream(sys.stdout),
            terminal_width(sys.stdout),
        )
        sys.stdout.write("\n".join(table.render(event_rows(told, SystemClock().now()))) + "\n")
    return 0


def event_rows(events: Sequence[JobEvent], now: datetime) -> list[list[str]]:
    """One row per event."""
    from pliant.cli.durations import format_age

    return [
        [
            format_age(now - one.at) if one.at else "–",
            "Warning" if one.is_warning else "Normal",
            one.reason,
            one.involved_object,
            f"{one.message} (×{one.count})" if one.count > 1 else one.message,
        ]
        for one in events
    ]


def _event_to_dict(event: JobEvent) -> dict[str, object]:
    return {
        "at": event.at.isoformat() if event.at else None,
        "type": "Warning" if event.is_warning else "Normal",
        "reason": event.reason,
        "about": event.involved_object,
        "message": event.message,
        "count": event.count,
    }
