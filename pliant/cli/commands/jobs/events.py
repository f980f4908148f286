"""`pliant events`: lists the events of a job and its pods."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace
from typing import TYPE_CHECKING

from pliant.cli.cluster.target import CLUSTER_SELECTION_HELP, add_target_options, connect_target
from pliant.cli.output.formats import add_output_option, format_json_or_yaml
from pliant.cli.output.style import TerminalStyle
from pliant.cli.output.table import Table, terminal_width
from pliant.runtime.clock import SystemClock

if TYPE_CHECKING:
    from pliant.cli.cluster.job_context import JobEvent

DESCRIPTION = "List the events of a job and its pods, the latest last."
EPILOG = f"""\
{CLUSTER_SELECTION_HELP}
examples:
  pliant events bert
  pliant events bert -o json       machine-readable output
"""


def configure(parser: ArgumentParser) -> None:
    parser.add_argument("job", metavar="JOB", help="NAME or KIND/NAME")
    add_output_option(parser, ("table", "json", "yaml"))
    add_target_options(parser)


async def execute(args: Namespace) -> int:
    from pliant.cli.cluster.job_context import EVENT_COLUMNS, event_rows, list_job_events
    from pliant.cli.cluster.job_lookup import find_job

    async with connect_target(args) as target:
        events = await list_job_events(target.client, await find_job(target, args.job))
    if args.output != "table":
        sys.stdout.write(format_json_or_yaml(args.output, [_event_to_dict(event) for event in events]))
    elif not events:
        sys.stderr.write("no events; Kubernetes deletes events after an hour, see also `pliant why`\n")
    else:
        table = Table(EVENT_COLUMNS, TerminalStyle.for_stream(sys.stdout), terminal_width(sys.stdout))
        sys.stdout.write("\n".join(table.render(event_rows(events, SystemClock().now()))) + "\n")
    return 0


def _event_to_dict(event: JobEvent) -> dict[str, object]:
    return {
        "at": event.at.isoformat() if event.at else None,
        "type": "Warning" if event.is_warning else "Normal",
        "reason": event.reason,
        "involvedObject": event.involved_object,
        "message": event.message,
        "count": event.count,
    }
