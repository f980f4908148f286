"""`pliant why`: what happened to a job and why, in plain sentences, and what to try next."""

from __future__ import annotations

import asyncio
import sys
from argparse import ArgumentParser, Namespace
from typing import TYPE_CHECKING

from pliant.cli.cluster.target import TARGET_HELP, add_target_options
from pliant.cli.output.formats import add_output_option

if TYPE_CHECKING:
    from pliant.kube.client import KubeClient
    from pliant.model.observed import ObservedPod

MAX_LOG_LINES = 8
EPILOG = f"""\
{TARGET_HELP}
examples:
  pliant why bert
  pliant why bert -o json          for programs
"""


def configure(parser: ArgumentParser) -> None:
    """Declare the options."""
    parser.epilog = EPILOG
    parser.add_argument("job", metavar="JOB", help="NAME or KIND/NAME")
    add_output_option(parser, ("text", "json", "yaml"))
    add_target_options(parser)


def execute(args: Namespace) -> int:
    """Tell the story."""
    return asyncio.run(_explain(args))


async def _explain(args: Namespace) -> int:
    from pliant.cli.cluster.job_context import load_cluster_context
    from pliant.cli.cluster.job_lookup import find_job
    from pliant.cli.cluster.target import connect_target
    from pliant.cli.explain.job_explanation import Evidence, explain_job, failed_pods
    from pliant.cli.explain.render import explanation_to_dict, render_explanation
    from pliant.cli.output.formats import format_data
    from pliant.cli.output.style import TerminalStyle
    from pliant.cli.output.table import terminal_width
    from pliant.runtime.clock import SystemClock

    async with connect_target(args) as target:
        one = await find_job(target, args.job)
        around = await load_cluster_context(target.client, one)
        evidence = Evidence(job_object=one, context=around, now=SystemClock().now())
        tails = {pod.name: await _read_log_tail(target.client, one.key.namespace, pod) for pod in failed_pods(evidence)}
    told = explain_job(evidence.with_log_tails(tails))
    if args.output == "text":
        sys.stdout.write(
            render_explanation(told, TerminalStyle.for_stream(sys.stdout), terminal_width(sys.stdout)) + "\n"
        )
    else:
        sys.stdout.write(format_data(args.output, explanation_to_dict(told)))
    return 0


async def _read_log_tail(client: KubeClient, namespace: str, pod: ObservedPod) -> tuple[str, ...]:
    """The last lines of the container that ended badly; none if nobody kept them."""
    from pliant.cli.output.log_lines import LineSplitter
    from pliant.errors import ApiError

    container = pod.exit.container if pod.exit and pod.exit.container else None
    splitter, lines = LineSplitter(), list[str]()
    try:
        async for chunk in client.stream_logs(namespace, pod.name, container=container, tail_lines=MAX_LOG_LINES):
            lines += splitter.feed(chunk)
    except ApiError:
        return ()  # the node is gone, or it has thrown its logs away
    return tuple([*lines, *splitter.close()][-MAX_LOG_LINES:])
