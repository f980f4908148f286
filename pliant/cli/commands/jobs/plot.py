"""`pliant plot`: draws the progress of a job over time."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import TYPE_CHECKING

from pliant.cli.cluster.target import CLUSTER_SELECTION_HELP, add_target_options, connect_target
from pliant.cli.output.formats import format_json_or_yaml
from pliant.cli.output.style import TerminalStyle
from pliant.cli.output.table import terminal_width
from pliant.errors import UserError
from pliant.runtime.clock import SystemClock

if TYPE_CHECKING:
    from pliant.cli.history.job_history import JobHistory

PLAIN_WIDTH = 100  # columns of a chart that is not written to a terminal
MAX_WIDTH = 160
OUTPUT_OPTION = "--output"
DESCRIPTION = "Draw the loss and other metrics of a job, its throughput, size and restarts over time."
EPILOG = f"""\
{CLUSTER_SELECTION_HELP}
The data are the progress lines in the logs of the job, and the reports that the operator keeps in its status.

examples:
  pliant plot bert                           draw in the terminal
  pliant plot bert -o bert.svg               write a picture; .png needs `pip install 'pliant[plots]'`
  pliant plot bert --metric accuracy         draw another metric
  pliant plot bert -o json                   machine-readable data
"""


def configure(parser: ArgumentParser) -> None:
    parser.add_argument("job", metavar="JOB", help="NAME or KIND/NAME")
    output_help = "text, json, yaml, or the path of a picture: FILE.svg or FILE.png (text)"
    parser.add_argument(OUTPUT_OPTION, "-o", default="text", metavar="FORMAT|FILE", help=output_help)
    metric_help = "Metric to draw; can be repeated (default: the loss and one other metric; in pictures all metrics)"
    parser.add_argument("--metric", "-m", action="append", default=[], metavar="NAME", help=metric_help)
    add_target_options(parser)


async def execute(args: Namespace) -> int:
    from pliant.cli.cluster.job_lookup import find_job
    from pliant.cli.history.job_history import build_job_history
    from pliant.cli.history.log_progress import read_log_progress

    _check_output(args.output)
    async with connect_target(args) as target:
        job = await find_job(target, args.job)
        from_log = await read_log_progress(target.client, job)
    history = build_job_history(job, from_log, SystemClock().now())
    if not history.samples:
        sys.stderr.write(
            f"{history.name} has not reported progress: print lines such as `pliant: step=10 loss=0.5`, "
            "or call `pliant.elastic.report(step=10, loss=0.5)` (docs/progress.md)\n"
        )
        return 1
    _check_metrics(args.metric, history)
    _write(args.output, history, args.metric)
    return 0


def _check_output(output: str) -> None:
    """Raise an error before anything is read if the output could not be written."""
    from pliant.cli.output.charts.picture_files import PICTURE_SUFFIXES, check_png_renderer

    if output in ("text", "json", "yaml"):
        return
    target = Path(output)
    if target.suffix.lower() not in PICTURE_SUFFIXES:
        raise UserError(f"{OUTPUT_OPTION}: `{output}` must be text, json, yaml, FILE.svg or FILE.png")
    if not target.parent.is_dir():
        raise UserError(f"{OUTPUT_OPTION}: directory `{target.parent}` not found; create it first")
    check_png_renderer(target, OUTPUT_OPTION)


def _check_metrics(metrics: list[str], history: JobHistory) -> None:
    from pliant.cli.history.job_history import STEP_METRIC

    known = [*history.metrics, STEP_METRIC]
    for metric in metrics:
        if metric not in known:
            names = ", ".join(dict.fromkeys(known))
            raise UserError(f"--metric: {history.name} does not report `{metric}`; it reports: {names}")


def _write(output: str, history: JobHistory, chosen: list[str]) -> None:
    from pliant.cli.output.charts.picture_files import write_picture
    from pliant.cli.output.charts.text import TextChartOptions
    from pliant.cli.output.glyphs import Glyphs
    from pliant.cli.output.job_charts import MAX_TEXT_METRICS, history_to_dict, render_history_svg, render_history_text

    if output in ("json", "yaml"):
        sys.stdout.write(format_json_or_yaml(output, history_to_dict(history, chosen or history.metrics)))
    elif output == "text":
        width = min(terminal_width(sys.stdout) or PLAIN_WIDTH, MAX_WIDTH)
        style, glyphs = TerminalStyle.for_stream(sys.stdout), Glyphs.for_stream(sys.stdout)
        options = TextChartOptions(width=width, glyphs=glyphs, style=style)
        sys.stdout.write(render_history_text(history, chosen or history.metrics[:MAX_TEXT_METRICS], options))
    else:
        try:
            write_picture(Path(output), render_history_svg(history, chosen or history.metrics), OUTPUT_OPTION)
        except OSError as error:
            raise UserError(f"{OUTPUT_OPTION}: cannot write {output}: {error.strerror}") from None
