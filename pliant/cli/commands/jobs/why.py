"""`pliant why`: explains the state of a job and suggests fixes."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace

from pliant.cli.cluster.target import CLUSTER_SELECTION_HELP, add_target_options, connect_target
from pliant.cli.output.formats import add_output_option, format_json_or_yaml
from pliant.cli.output.style import TerminalStyle
from pliant.cli.output.table import terminal_width

DESCRIPTION = "Explain what happened to a job and why, and suggest what to try."
EPILOG = f"""\
{CLUSTER_SELECTION_HELP}
examples:
  pliant why bert
  pliant why bert -o json          machine-readable output
"""


def configure(parser: ArgumentParser) -> None:
    parser.add_argument("job", metavar="JOB", help="NAME or KIND/NAME")
    add_output_option(parser, ("text", "json", "yaml"))
    add_target_options(parser)


async def execute(args: Namespace) -> int:
    from pliant.cli.cluster.job_lookup import find_job
    from pliant.cli.explain.job_evidence import read_explanation
    from pliant.cli.explain.render import explanation_to_dict, render_explanation

    async with connect_target(args) as target:
        explanation = await read_explanation(target.client, await find_job(target, args.job))
    if args.output == "text":
        style, width = TerminalStyle.for_stream(sys.stdout), terminal_width(sys.stdout)
        sys.stdout.write(render_explanation(explanation, style, width) + "\n")
    else:
        sys.stdout.write(format_json_or_yaml(args.output, explanation_to_dict(explanation)))
    return 0
