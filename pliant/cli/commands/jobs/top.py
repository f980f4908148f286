"""`pliant top`: shows the CPU and memory usage of replicas."""

from __future__ import annotations

import json
import sys
from argparse import ArgumentParser, Namespace
from typing import TYPE_CHECKING, Any

from pliant.cli.cluster.target import CLUSTER_SELECTION_HELP, ClusterTarget, add_target_options, connect_target
from pliant.cli.output.style import TerminalStyle
from pliant.cli.output.table import Table
from pliant.errors import NotFound, ServerError, UnsupportedEnvironment
from pliant.schemas.quantity import parse_quantity

if TYPE_CHECKING:
    from pliant.cli.cluster.job_lookup import JobObject

DESCRIPTION = "Show the CPU and memory usage of the replicas of jobs, and their progress."
EPILOG = f"""\
{CLUSTER_SELECTION_HELP}
The cluster must serve metrics.k8s.io (metrics-server).

examples:
  pliant top                       the replicas of all jobs of the namespace
  pliant top bert                  the replicas of one job
"""
_NO_METRICS = "the cluster does not serve metrics.k8s.io; install metrics-server"


def configure(parser: ArgumentParser) -> None:
    parser.add_argument("jobs", nargs="*", metavar="JOB", help="NAME or KIND/NAME (default: all jobs)")
    add_target_options(parser, all_namespaces=True)


async def execute(args: Namespace) -> int:
    from pliant.cli.cluster.job_lookup import find_jobs, list_jobs

    async with connect_target(args) as target:
        jobs = await (find_jobs(target, args.jobs) if args.jobs else list_jobs(target))
        usage_by_pod = await _pod_usage(target)
        rows = [row for job in jobs for row in await _job_rows(target, job, usage_by_pod)]
    if not rows:
        sys.stderr.write("no replica is running\n")
        return 0
    titles = ["JOB", "REPLICA", "NODE", "CPU", "MEMORY", "PROGRESS"]
    if not any(row[-1] for row in rows):
        titles, rows = titles[:-1], [row[:-1] for row in rows]
    table = Table(titles, TerminalStyle.for_stream(sys.stdout))
    sys.stdout.write("\n".join(table.render(rows)) + "\n")
    return 0


async def _pod_usage(target: ClusterTarget) -> dict[tuple[str, str], dict[str, Any]]:
    """Return the PodMetrics by namespace and name."""

    scope = f"/namespaces/{target.namespace}" if target.namespace else ""
    try:
        listed = json.loads(await target.client.get_raw(f"/apis/metrics.k8s.io/v1beta1{scope}/pods"))
    except (NotFound, ServerError):
        raise UnsupportedEnvironment(_NO_METRICS) from None
    return {(pod["metadata"].get("namespace", ""), pod["metadata"]["name"]): pod for pod in listed["items"]}


async def _job_rows(
    target: ClusterTarget, job_object: JobObject, usage_by_pod: dict[tuple[str, str], dict[str, Any]]
) -> list[list[str]]:
    from pliant.cli.cluster.job_context import list_job_pods, replica_name
    from pliant.cli.output.job_summary import progress_reporter_name, reported_training_progress

    rows = []
    reporter, progress = progress_reporter_name(job_object), reported_training_progress(job_object)
    for pod in await list_job_pods(target.client, job_object):
        replica = replica_name(job_object.job, pod)
        usage = usage_by_pod.get((pod.metadata.namespace, pod.metadata.name))
        if pod.status.phase == "Running":
            cpu_and_memory = cpu_and_memory_text(usage) if usage else ("–", "–")
            progress_text = str(progress) if progress and replica == reporter else ""
            rows.append([job_object.key.name, replica, pod.spec.node_name, *cpu_and_memory, progress_text])
    return rows


def cpu_and_memory_text(pod_metrics: dict[str, Any]) -> tuple[str, str]:
    """Return the CPU and memory usage of all containers of a pod: `250m`, `128Mi`."""

    usages = [container.get("usage") or {} for container in pod_metrics.get("containers") or ()]
    cpu = sum(parse_quantity(usage_of_container.get("cpu", "0")) for usage_of_container in usages)
    memory = sum(parse_quantity(usage_of_container.get("memory", "0")) for usage_of_container in usages)
    kibibytes = round(memory / 1024)
    return f"{round(cpu * 1000)}m", f"{round(kibibytes / 1024)}Mi" if kibibytes >= 10 * 1024 else f"{kibibytes}Ki"
