"""`pliant status`: whether the clusters of this machine are up, and how they are."""

from __future__ import annotations

import asyncio
import os
import sys
from argparse import ArgumentParser, Namespace
from typing import TYPE_CHECKING, Any

from pliant.cli.output.formats import add_output_option

if TYPE_CHECKING:
    from pliant.cli.local.state_dir import ClusterStateDir, RunningCluster

EXIT_NOT_RUNNING = 3
"""The exit code of service managers for what does not run."""

_NETWORK_TEXT = {"private": "private: each pod has its own", "host": "host: pods share this machine's"}

EPILOG = """\
exit codes:
  0    it is up and answers
  1    it does not answer
  3    it is not up

examples:
  pliant status                    every cluster that `pliant up` runs for you
  pliant status --name big
  pliant status -o json            for programs
"""


def configure(parser: ArgumentParser) -> None:
    """Declare the options."""
    parser.epilog = EPILOG
    parser.add_argument("--name", metavar="NAME", help="which cluster (all that are up)")
    add_output_option(parser, ("text", "json", "yaml"))


def execute(args: Namespace) -> int:
    """Tell how they are."""
    from pliant.cli.cluster.target import list_running_clusters
    from pliant.cli.local.state_dir import ClusterStateDir
    from pliant.cli.output.formats import format_data

    if args.name:
        home = ClusterStateDir.for_cluster(args.name, os.environ)
        running = home.running_cluster()
        up = [(home, running)] if running is not None else []
    else:
        up = [(home, running) for home, running in list_running_clusters(os.environ)]
    if not up:
        return _report_none_running(args)
    found = [asyncio.run(_examine_cluster(home, running)) for home, running in up]
    if args.output == "text":
        sys.stdout.write("\n".join(_status_text(one) for one in found))
    else:
        sys.stdout.write(format_data(args.output, found))
    return 0 if all(one["answers"] for one in found) else 1


def _report_none_running(args: Namespace) -> int:
    if args.output != "text":
        sys.stdout.write("[]\n")
    name = f" --name {args.name}" if args.name and args.name != "default" else ""
    which = f"cluster `{args.name}`" if args.name else "no cluster"
    sys.stderr.write(f"{which} is {'not ' if args.name else ''}up; start one with `pliant up{name}`\n")
    return EXIT_NOT_RUNNING


async def _examine_cluster(state_dir: ClusterStateDir, running: RunningCluster) -> dict[str, Any]:
    from pathlib import Path

    from pliant.cli.explain.os_errors import is_disk_full
    from pliant.errors import ApiError, UserError
    from pliant.kube.client import KubeClient
    from pliant.kube.client_config import create_transport
    from pliant.runtime.clock import SystemClock

    facts: dict[str, Any] = {
        "name": state_dir.name,
        "url": running.url,
        "pid": running.pid,
        "since": running.since,
        "network": running.network,
        "kubeconfig": running.kubeconfig,
        "log": str(state_dir.log_file),
        "data": str(Path(running.kubeconfig).parent),
        "diskFull": is_disk_full(Path(running.kubeconfig).parent),
        "answers": False,
        "nodes": [],
        "jobs": {},
    }
    try:
        transport = create_transport(Path(running.kubeconfig), None, SystemClock().now)
        try:
            async with asyncio.timeout(5):
                return {**facts, **await _cluster_contents(KubeClient(transport)), "answers": True}
        finally:
            await transport.aclose()
    except (ApiError, UserError, TimeoutError) as error:
        return {**facts, "problem": str(error) or "no answer within 5 seconds"}


async def _cluster_contents(client: Any) -> dict[str, Any]:
    from collections import Counter

    from pliant.cli.cluster.job_lookup import list_jobs
    from pliant.cli.cluster.target import ClusterTarget
    from pliant.kube.objects import Node
    from pliant.kube.resources import NODES

    nodes = (await client.list(NODES, decode_as=Node)).items
    jobs = await list_jobs(ClusterTarget(client, None, "default"))
    return {
        "nodes": [
            {
                "name": node.metadata.name,
                "ready": any(each.type == "Ready" and each.status == "True" for each in node.status.conditions),
                "allocatable": dict(node.status.allocatable),
            }
            for node in nodes
        ],
        "jobs": dict(Counter(one.phase for one in jobs)),
    }


def _status_text(cluster: dict[str, Any]) -> str:
    from pliant.cli.output.style import TerminalStyle

    style = TerminalStyle.for_stream(sys.stdout)
    is_well = cluster["answers"]
    state = style.green("up") if is_well else style.red(f"up, but does not answer: {cluster.get('problem', '')}")
    facts = [
        (f"cluster `{cluster['name']}`", f"{state}{_uptime_text(cluster['since'])} (process {cluster['pid']})"),
        ("  address", cluster["url"]),
        ("  nodes", _nodes_text(cluster["nodes"])),
        ("  network", _NETWORK_TEXT.get(cluster["network"], "unknown")),
        ("  jobs", ", ".join(f"{number} {phase}" for phase, number in sorted(cluster["jobs"].items())) or "none"),
        ("  kubeconfig", cluster["kubeconfig"]),
        ("  log", cluster["log"]),
    ]
    if cluster["diskFull"]:
        what = f"{style.red('full')}: {cluster['data']} has no room left for objects and logs; make some"
        facts.insert(1, ("  disk", what))
    hidden = () if is_well else ("  nodes", "  jobs")
    shown = [fact for fact in facts if fact[0] not in hidden]
    return "".join(f"{title:<18} {text}\n" for title, text in shown)


def _uptime_text(started_at: str) -> str:
    from datetime import datetime

    from pliant.cli.durations import format_age
    from pliant.runtime.clock import SystemClock

    return f" for {format_age(SystemClock().now() - datetime.fromisoformat(started_at))}" if started_at else ""


def _nodes_text(nodes: list[dict[str, Any]]) -> str:
    """How many there are, how many are ready, and what the first one offers."""
    from pliant.cli.explain.capacity import format_quantity
    from pliant.kube.quantity import parse_quantity

    ready = sum(node["ready"] for node in nodes)
    offers = nodes[0]["allocatable"] if nodes else {}
    told = ", ".join(
        f"{format_quantity(name, parse_quantity(each))} {name}" for name, each in offers.items() if name != "pods"
    )
    return f"{ready} of {len(nodes)} ready; {told} each" if nodes else "none"
