"""`pliant submit`: give the objects of files to a cluster that is up."""

from __future__ import annotations

import asyncio
import sys
from argparse import ArgumentParser, Namespace
from typing import TYPE_CHECKING

from pliant.cli.target import WHICH_CLUSTER, add_target_options
from pliant.cli.waiting import FOREVER, add_wait_options

if TYPE_CHECKING:
    from pliant.cli.jobs import Found
    from pliant.cli.target import Target

EPILOG = f"""\
{WHICH_CLUSTER}
Objects that jobs need, such as ConfigMaps, are created or brought up to date first. With --wait and --follow the
exit codes are those of `pliant run`.

examples:
  pliant submit job.yaml                     create it and return
  pliant submit job.yaml --follow            show its logs until it ends
  pliant submit job.yaml --replace --wait    in place of the job of that name
  pliant submit job.yaml --set spec.replicaSpecs.worker.replicas=4
"""


def configure(parser: ArgumentParser) -> None:
    """Declare the options."""
    parser.epilog = EPILOG
    parser.add_argument(
        "files", nargs="+", metavar="FILE", help="YAML with jobs and what they need; - reads stdin"
    )
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="PATH=VALUE",
        help="set a field of the jobs (as for `pliant run`)",
    )
    parser.add_argument("--replace", action="store_true", help="delete jobs of the same names first")
    parser.add_argument("--follow", "-f", action="store_true", help="show what the jobs write until they end")
    add_wait_options(parser, "the jobs have ended", FOREVER)
    add_target_options(parser)


def execute(args: Namespace) -> int:
    """Create everything, and wait if asked to."""
    return asyncio.run(_submit(args))


async def _submit(args: Namespace) -> int:
    from pliant.cli.apply import served_catalog
    from pliant.cli.checks import check_jobs
    from pliant.cli.manifests import load
    from pliant.cli.setting import with_settings
    from pliant.cli.submission import Submission
    from pliant.cli.target import connected

    manifests = with_settings(load(args.files), args.set)
    async with connected(args) as target:
        check_jobs(manifests, served_catalog(manifests), target.home)
        jobs = await Submission(target, args).create(manifests)
        ends = [await _end(target, one, args) for one in jobs] if args.wait or args.follow else []
    return 1 if 1 in ends else next((code for code in ends if code), 0)


async def _end(target: Target, one: Found, args: Namespace) -> int:
    """Wait for a job's end, and say how it ended."""
    from pliant.cli.logreader import LogReader
    from pliant.cli.style import Style
    from pliant.cli.verdict import ENDS
    from pliant.cli.waiting import wait_until
    from pliant.model.state import Phase

    if args.follow:
        everybody = {"group": None, "rank": None, "container": None, "tail": None, "since": None}
        reading = Namespace(**everybody, prefix=True, previous=False, follow=True)
        async with asyncio.TaskGroup() as tasks:
            await LogReader(target.client, one, reading, sys.stdout).follow(tasks)

    def has_ended(latest: Found | None) -> bool:
        return latest is None or (latest.state is not None and latest.state.phase.is_final)

    latest = await wait_until(target, one, has_ended, args.timeout, "ended")
    style = Style.of(sys.stderr)
    if latest is None or latest.state is None:
        sys.stderr.write(f"{style.red('✘')} {one.key.name} was deleted before it had ended\n")
        return 1
    if latest.state.phase is Phase.SUCCEED:
        sys.stderr.write(f"{style.green('✔')} {one.key.name} succeeded\n")
        return 0
    code, words = ENDS[latest.state.phase]
    sys.stderr.write(f"{style.red('✘')} {one.key.name} {words}: {latest.message} (pliant why {one.key.name})\n")
    return code
