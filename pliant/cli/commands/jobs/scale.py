"""`pliant scale`: changes the number of replicas of a job."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace

from pliant.cli.cluster.target import CLUSTER_SELECTION_HELP, add_target_options, connect_target
from pliant.cli.cluster.waiting import add_wait_options
from pliant.cli.input.local_cluster_options import parse_non_negative_int

DESCRIPTION = "Change the number of replicas of a group of a job."
EPILOG = f"""\
{CLUSTER_SELECTION_HELP}
The size of an elastic group stays between its minReplicas and maxReplicas. A resize never counts as a failure. It
restarts the replicas only if they cannot learn the new size otherwise.

examples:
  pliant scale bert 4                        resize the elastic group
  pliant scale bert 3 --group ps --wait      resize the group ps and wait until it runs
"""


def configure(parser: ArgumentParser) -> None:
    parser.add_argument("job", metavar="JOB", help="NAME or KIND/NAME")
    parser.add_argument("size", type=parse_non_negative_int, metavar="N", help="Number of replicas")
    parser.add_argument("--group", "-g", metavar="NAME", help="Name of the group (default: the elastic or only group)")
    add_wait_options(parser, "the replicas are running")
    add_target_options(parser)


async def execute(args: Namespace) -> int:
    from pliant.cli.cluster.job_lookup import find_job
    from pliant.cli.cluster.scaling import resize_group, wait_resized
    from pliant.model.english import pluralize

    async with connect_target(args) as target:
        job = await find_job(target, args.job)
        change = await resize_group(target, job, args.group, args.size)
        sys.stdout.write(f"{job.key.name}: {change}\n")
        sys.stdout.flush()
        if args.wait:
            await wait_resized(target, job, change, args.timeout)
            sys.stdout.write(f"{job.key.name}: {change.group.name} has {pluralize(change.size, 'replica')} running\n")
    return 0
