"""`pliant why`: explains the state of a job and suggests fixes."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace
from dataclasses import replace
from typing import TYPE_CHECKING

from pliant.cli.cluster.target import CLUSTER_SELECTION_HELP, add_target_options, connect_target
from pliant.cli.output.formats import add_output_option, format_json_or_yaml
from pliant.cli.output.style import TerminalStyle
from pliant.cli.output.table import terminal_width
from pliant.errors import ApiError
from pliant.runtime.clock import SystemClock

if TYPE_CHECKING:
    from pliant.kube.client import KubeClient
    from pliant.model.observed import ObservedPod

MAX_LOG_LINES = 8
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
    from pliant.cli.cluster.retained_logs import load_context_with_logs
    from pliant.cli.explain.job_explanation import JobEvidence, earliest_failed_pods, explain_job
    from pliant.cli.explain.render import explanation_to_dict, render_explanation

    async with connect_target(args) as target:
        job = await find_job(target, args.job)
        context = await load_context_with_logs(target.client, job)
        evidence = JobEvidence(job_object=job, context=context, now=SystemClock().now())
        namespace, pods = job.key.namespace, earliest_failed_pods(evidence)
        tails = {pod.name: await _read_log_tail(target.client, namespace, pod) for pod in pods}
    explanation = explain_job(replace(evidence, log_tails=tails))
    if args.output == "text":
        style, width = TerminalStyle.for_stream(sys.stdout), terminal_width(sys.stdout)
        sys.stdout.write(render_explanation(explanation, style, width) + "\n")
    else:
        sys.stdout.write(format_json_or_yaml(args.output, explanation_to_dict(explanation)))
    return 0


async def _read_log_tail(client: KubeClient, namespace: str, pod: ObservedPod) -> tuple[str, ...]:
    """Return the last lines of the failed container; empty if its logs are deleted."""
    from pliant.cli.output.log_lines import LineSplitter

    container = pod.exit.container if pod.exit and pod.exit.container else None
    splitter, lines = LineSplitter(), list[str]()
    try:
        async for chunk in client.stream_logs(namespace, pod.name, container=container, tail_lines=MAX_LOG_LINES):
            lines += splitter.feed(chunk)
    except ApiError:
        return ()  # the node is gone, or its logs are deleted
    return tuple([*lines, *splitter.flush()][-MAX_LOG_LINES:])
