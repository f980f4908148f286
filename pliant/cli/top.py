"""`pliant top`: what members use of CPU and memory."""

from __future__ import annotations

import asyncio
import json
import sys
from argparse import ArgumentParser, Namespace
from typing import TYPE_CHECKING, Any

from pliant.cli.target import WHICH_CLUSTER, add_target_options

if TYPE_CHECKING:
    from pliant.cli.jobs import Found
    from pliant.cli.target import Target

EPILOG = f"""\
{WHICH_CLUSTER}
Needs a cluster that serves metrics.k8s.io.

examples:
  pliant top                       the members of all jobs of this namespace
  pliant top bert                  of one job
"""
_NO_METRICS = "this cluster serves no metrics (metrics.k8s.io): on a real one install metrics-server"


def configure(parser: ArgumentParser) -> None:
    """Declare the options."""
    parser.epilog = EPILOG
    parser.add_argument("jobs", nargs="*", metavar="JOB", help="NAME or KIND/NAME (all)")
    add_target_options(parser, everywhere=True)


def execute(args: Namespace) -> int:
    """Tell it."""
    return asyncio.run(_top(args))


async def _top(args: Namespace) -> int:
    from pliant.cli.jobs import all_jobs, named_jobs
    from pliant.cli.style import Style
    from pliant.cli.table import Table
    from pliant.cli.target import connected

    async with connected(args) as target:
        jobs = await (named_jobs(target, args.jobs) if args.jobs else all_jobs(target))
        used = await _usage(target)
        rows = [row for one in jobs for row in await _rows(target, one, used)]
    if not rows:
        sys.stderr.write("no member is running\n")
        return 0
    titles = ["JOB", "MEMBER", "NODE", "CPU", "MEMORY", "PROGRESS"]
    if not any(row[-1] for row in rows):
        titles, rows = titles[:-1], [row[:-1] for row in rows]
    table = Table(titles, Style.of(sys.stdout))
    sys.stdout.write("\n".join(table.lines(rows)) + "\n")
    return 0


async def _usage(target: Target) -> dict[tuple[str, str], dict[str, Any]]:
    """What each pod uses, by namespace and name."""
    from pliant.errors import NotFound, NotPossibleHere, ServerError

    where = f"/namespaces/{target.namespace}" if target.namespace else ""
    try:
        listed = json.loads(await target.client.raw(f"/apis/metrics.k8s.io/v1beta1{where}/pods"))
    except (NotFound, ServerError):
        raise NotPossibleHere(_NO_METRICS) from None
    return {(pod["metadata"].get("namespace", ""), pod["metadata"]["name"]): pod for pod in listed["items"]}


async def _rows(target: Target, one: Found, used: dict[tuple[str, str], dict[str, Any]]) -> list[list[str]]:
    from pliant.cli.members import title_of
    from pliant.cli.results import progress_of, reporter_of
    from pliant.cli.surroundings import pods_of

    rows = []
    reporter, progress = reporter_of(one), progress_of(one)
    for pod in await pods_of(target.client, one):
        title = title_of(one.job, pod)
        usage = used.get((pod.metadata.namespace, pod.metadata.name))
        if pod.status.phase == "Running":
            used_by = amounts(usage) if usage else ("–", "–")
            told = str(progress) if progress and title == reporter else ""
            rows.append([one.key.name, title, pod.spec.node_name, *used_by, told])
    return rows


def amounts(usage: dict[str, Any]) -> tuple[str, str]:
    """The CPU and the memory of all containers of a pod: `250m`, `128Mi`."""
    from pliant.kube.amounts import amount

    parts = [container.get("usage") or {} for container in usage.get("containers") or ()]
    cpu = sum(amount(part.get("cpu", "0")) for part in parts)
    memory = sum(amount(part.get("memory", "0")) for part in parts)
    kibi = round(memory / 1024)
    return f"{round(cpu * 1000)}m", f"{round(kibi / 1024)}Mi" if kibi >= 10 * 1024 else f"{kibi}Ki"
