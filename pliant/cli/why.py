"""`pliant why`: what happened to a job and why, in plain sentences, and what to try next."""

from __future__ import annotations

import asyncio
import sys
from argparse import ArgumentParser, Namespace
from typing import TYPE_CHECKING

from pliant.cli.output import add_output_option
from pliant.cli.target import WHICH_CLUSTER, add_target_options

if TYPE_CHECKING:
    from pliant.kube.client import KubeClient
    from pliant.model.observed import ObservedPod

LAST_LINES = 8
EPILOG = f"""\
{WHICH_CLUSTER}
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
    return asyncio.run(_why(args))


async def _why(args: Namespace) -> int:
    from pliant.cli.jobs import named_job
    from pliant.cli.output import data_text
    from pliant.cli.story import Evidence, culprits, story
    from pliant.cli.storytext import story_data, story_text
    from pliant.cli.style import Style
    from pliant.cli.surroundings import surroundings_of
    from pliant.cli.table import width_of
    from pliant.cli.target import connected
    from pliant.runtime.clock import SystemClock

    async with connected(args) as target:
        one = await named_job(target, args.job)
        around = await surroundings_of(target.client, one)
        evidence = Evidence(one=one, around=around, now=SystemClock().now())
        tails = {pod.name: await _tail(target.client, one.key.namespace, pod) for pod in culprits(evidence)}
    told = story(evidence.with_tails(tails))
    if args.output == "text":
        sys.stdout.write(story_text(told, Style.of(sys.stdout), width_of(sys.stdout)) + "\n")
    else:
        sys.stdout.write(data_text(args.output, story_data(told)))
    return 0


async def _tail(client: KubeClient, namespace: str, pod: ObservedPod) -> tuple[str, ...]:
    """The last lines of the container that ended badly; none if nobody kept them."""
    from pliant.cli.lines import LineSplitter
    from pliant.errors import ApiError

    container = pod.exit.container if pod.exit and pod.exit.container else None
    splitter, lines = LineSplitter(), list[str]()
    try:
        async for chunk in client.logs(namespace, pod.name, container=container, tail=LAST_LINES):
            lines += splitter.feed(chunk)
    except ApiError:
        return ()  # the node is gone, or it has thrown its logs away
    return tuple([*lines, *splitter.close()][-LAST_LINES:])
