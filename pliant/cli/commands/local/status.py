"""`pliant status`: shows whether local clusters are running and what runs on them."""

from __future__ import annotations

import asyncio
import os
import sys
from argparse import ArgumentParser, Namespace
from collections import Counter
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pliant.cli.cluster.target import ClusterTarget, list_running_persistent_clusters
from pliant.cli.durations import format_age
from pliant.cli.explain.os_errors import is_disk_full
from pliant.cli.local.state_dir import ClusterStateDir, RunningCluster
from pliant.cli.output.formats import add_output_option, format_json_or_yaml
from pliant.cli.output.style import TerminalStyle
from pliant.errors import ApiError, UserError
from pliant.kube.resources import NODES
from pliant.runtime.clock import SystemClock
from pliant.schemas.quantity import parse_quantity

if TYPE_CHECKING:
    from pliant.kube.client import KubeClient

EXIT_NOT_RUNNING = 3  # the exit code of service managers for a stopped service

_NETWORK_TEXT = {"private": "private: each pod has its own IP", "host": "host: pods share the network of this machine"}
_AUTHORIZATION_TEXT = {
    "RBAC": "RBAC: a pod may do what its service account may",
    "AlwaysAllow": "AlwaysAllow: every pod may do everything",
}

DESCRIPTION = "Show whether the local clusters are running, and their nodes and jobs."
EPILOG = """\
exit codes:
  0    every cluster is running and responds
  1    a cluster does not respond
  3    no cluster is running

examples:
  pliant status                    all running clusters of the current user
  pliant status --name big         one cluster
  pliant status -o json            machine-readable output
"""


def configure(parser: ArgumentParser) -> None:
    parser.add_argument("--name", metavar="NAME", help="Name of the cluster (default: all running clusters)")
    add_output_option(parser, ("text", "json", "yaml"))


def execute(args: Namespace) -> int:
    if args.name:
        state_dir = ClusterStateDir.for_cluster(args.name, os.environ)
        running = state_dir.running_cluster()
        clusters = [(state_dir, running)] if running is not None else []
    else:
        clusters = list_running_persistent_clusters(os.environ)
    if not clusters:
        return _report_none_running(args)
    results = [asyncio.run(_examine_cluster(state_dir, running)) for state_dir, running in clusters]
    if args.output == "text":
        sys.stdout.write("\n".join(_status_text(result) for result in results))
    else:
        sys.stdout.write(format_json_or_yaml(args.output, results))
    return 0 if all(result["responds"] for result in results) else 1


def _report_none_running(args: Namespace) -> int:
    if args.output != "text":
        sys.stdout.write("[]\n")
    name = f" --name {args.name}" if args.name and args.name != "default" else ""
    state = f"cluster `{args.name}` is not running" if args.name else "no cluster is running"
    sys.stderr.write(f"{state}; start one with `pliant up{name}`\n")
    return EXIT_NOT_RUNNING


async def _examine_cluster(state_dir: ClusterStateDir, running: RunningCluster) -> dict[str, Any]:
    from pliant.kube.client import KubeClient
    from pliant.kube.client_config import create_transport

    facts: dict[str, Any] = {
        "name": state_dir.name,
        "url": running.url,
        "pid": running.pid,
        "startedAt": running.since,
        "network": running.network,
        "authorization": running.authorization,
        "kubeconfig": running.kubeconfig,
        "log": str(state_dir.log_file),
        "data": str(Path(running.kubeconfig).parent),
        "diskFull": is_disk_full(Path(running.kubeconfig).parent),
        "responds": False,
        "nodes": [],
        "jobs": {},
    }
    try:
        transport = create_transport(Path(running.kubeconfig), None, SystemClock().now)
        try:
            async with asyncio.timeout(5):
                return {**facts, **await _cluster_contents(KubeClient(transport)), "responds": True}
        finally:
            await transport.aclose()
    except (ApiError, UserError, TimeoutError) as error:
        return {**facts, "error": str(error) or "no response within 5 seconds"}


async def _cluster_contents(client: KubeClient) -> dict[str, Any]:
    from pliant.cli.cluster.job_lookup import list_jobs
    from pliant.kube.objects import Node

    nodes = (await client.list(NODES, decode_as=Node)).items
    jobs = await list_jobs(ClusterTarget(client, None, "default"))
    found = []
    for node in nodes:
        ready = any(condition.type == "Ready" and condition.status == "True" for condition in node.status.conditions)
        found.append({"name": node.metadata.name, "ready": ready, "allocatable": dict(node.status.allocatable)})
    return {"nodes": found, "jobs": dict(Counter(job.phase for job in jobs))}


def _status_text(cluster: dict[str, Any]) -> str:
    style = TerminalStyle.for_stream(sys.stdout)
    responds = cluster["responds"]
    state = style.green("running") if responds else style.red(f"does not respond: {cluster.get('error', '')}")
    age = SystemClock().now() - datetime.fromisoformat(cluster["startedAt"]) if cluster["startedAt"] else None
    uptime = f" for {format_age(age)}" if age is not None else ""
    facts = [
        (f"cluster `{cluster['name']}`", f"{state}{uptime} (pid {cluster['pid']})"),
        ("  address", cluster["url"]),
        ("  nodes", _nodes_text(cluster["nodes"])),
        ("  network", _NETWORK_TEXT.get(cluster["network"], "unknown")),
        ("  authorization", _AUTHORIZATION_TEXT.get(cluster["authorization"], "unknown")),
        ("  jobs", ", ".join(f"{number} {phase}" for phase, number in sorted(cluster["jobs"].items())) or "none"),
        ("  kubeconfig", cluster["kubeconfig"]),
        ("  log", cluster["log"]),
    ]
    if cluster["diskFull"]:
        full = f"{style.red('full')}: no space left in {cluster['data']} for objects and logs; free some"
        facts.insert(1, ("  disk", full))
    hidden = () if responds else ("  nodes", "  jobs")
    shown = [fact for fact in facts if fact[0] not in hidden]
    return "".join(f"{title:<18} {text}\n" for title, text in shown)


def _nodes_text(nodes: list[dict[str, Any]]) -> str:
    from pliant.cli.explain.capacity import format_quantity

    ready = sum(node["ready"] for node in nodes)
    allocatable = nodes[0]["allocatable"] if nodes else {}
    amounts = {name: parse_quantity(amount) for name, amount in allocatable.items() if name != "pods"}
    capacity = ", ".join(f"{format_quantity(name, amount)} {name}" for name, amount in amounts.items())
    return f"{ready} of {len(nodes)} ready; each has {capacity}" if nodes else "none"
