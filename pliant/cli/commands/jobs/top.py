"""`pliant top`: what members use of CPU and memory."""

from __future__ import annotations

import asyncio
import json
import sys
from argparse import ArgumentParser, Namespace
from typing import TYPE_CHECKING, Any

from pliant.cli.cluster.target import TARGET_HELP, add_target_options

if TYPE_CHECKING:
    from pliant.cli.cluster.job_lookup import JobObject
    from pliant.cli.cluster.target import ClusterTarget

EPILOG = f"""\
{TARGET_HELP}
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
    add_target_options(parser, all_namespaces=True)


def execute(args: Namespace) -> int:
    """Tell it."""
    return asyncio.run(_show_usage(args))


async def _show_usage(args: Namespace) -> int:
    from pliant.cli.cluster.job_lookup import find_jobs, list_jobs
    from pliant.cli.cluster.target import connect_target
    from pliant.cli.output.style import TerminalStyle
    from pliant.cli.output.table import Table

    async with connect_target(args) as target:
        jobs = await (find_jobs(target, args.jobs) if args.jobs else list_jobs(target))
        used = await _pod_usage(target)
        rows = [row for one in jobs for row in await _job_rows(target, one, used)]
    if not rows:
        sys.stderr.write("no member is running\n")
        return 0
    titles = ["JOB", "MEMBER", "NODE", "CPU", "MEMORY", "PROGRESS"]
    if not any(row[-1] for row in rows):
        titles, rows = titles[:-1], [row[:-1] for row in rows]
    table = Table(titles, TerminalStyle.for_stream(sys.stdout))
    sys.stdout.write("\n".join(table.render(rows)) + "\n")
    return 0


async def _pod_usage(target: ClusterTarget) -> dict[tuple[str, str], dict[str, Any]]:
    """What each pod uses, by namespace and name."""
    from pliant.errors import NotFound, ServerError, UnsupportedEnvironment

    where = f"/namespaces/{target.namespace}" if target.namespace else ""
    try:
        listed = json.loads(await target.client.get_raw(f"/apis/metrics.k8s.io/v1beta1{where}/pods"))
    except (NotFound, ServerError):
        raise UnsupportedEnvironment(_NO_METRICS) from None
    return {(pod["metadata"].get("namespace", ""), pod["metadata"]["name"]): pod for pod in listed["items"]}


async def _job_rows(
    target: ClusterTarget, job_object: JobObject, usage_by_pod: dict[tuple[str, str], dict[str, Any]]
) -> list[list[str]]:
    from pliant.cli.cluster.job_context import list_job_pods, replica_name
    from pliant.cli.output.job_summary import job_progress, progress_reporter

    rows = []
    reporter, progress = progress_reporter(job_object), job_progress(job_object)
    for pod in await list_job_pods(target.client, job_object):
        title = replica_name(job_object.job, pod)
        usage = usage_by_pod.get((pod.metadata.namespace, pod.metadata.name))
        if pod.status.phase == "Running":
            used_by = cpu_and_memory_text(usage) if usage else ("–", "–")
            told = str(progress) if progress and title == reporter else ""
            rows.append([job_object.key.name, title, pod.spec.node_name, *used_by, told])
    return rows


def cpu_and_memory_text(usage: dict[str, Any]) -> tuple[str, str]:
    """The CPU and the memory of all containers of a pod: `250m`, `128Mi`."""
    from pliant.kube.quantity import parse_quantity

    parts = [container.get("usage") or {} for container in usage.get("containers") or ()]
    cpu = sum(parse_quantity(part.get("cpu", "0")) for part in parts)
    memory = sum(parse_quantity(part.get("memory", "0")) for part in parts)
    kibi = round(memory / 1024)
    return f"{round(cpu * 1000)}m", f"{round(kibi / 1024)}Mi" if kibi >= 10 * 1024 else f"{kibi}Ki"
