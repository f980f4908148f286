"""`pliant status`: whether the clusters of this machine are up, and how they are."""

from __future__ import annotations

import asyncio
import os
import sys
from argparse import ArgumentParser, Namespace
from typing import TYPE_CHECKING, Any

from pliant.cli.output import add_output_option

if TYPE_CHECKING:
    from pliant.cli.home import Home, Running

DOWN = 3
"""The exit code of service managers for what does not run."""

_NETWORKS = {"private": "private: each pod has its own", "host": "host: pods share this machine's"}

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
    from pliant.cli.home import Home
    from pliant.cli.output import data_text
    from pliant.cli.target import ready_clusters

    if args.name:
        home = Home.of(args.name, os.environ)
        running = home.running()
        up = [(home, running)] if running is not None else []
    else:
        up = [(home, running) for home, running in ready_clusters(os.environ)]
    if not up:
        return _none(args)
    found = [asyncio.run(_examined(home, running)) for home, running in up]
    if args.output == "text":
        sys.stdout.write("\n".join(_text(one) for one in found))
    else:
        sys.stdout.write(data_text(args.output, found))
    return 0 if all(one["answers"] for one in found) else 1


def _none(args: Namespace) -> int:
    if args.output != "text":
        sys.stdout.write("[]\n")
    name = f" --name {args.name}" if args.name and args.name != "default" else ""
    which = f"cluster `{args.name}`" if args.name else "no cluster"
    sys.stderr.write(f"{which} is {'not ' if args.name else ''}up; start one with `pliant up{name}`\n")
    return DOWN


async def _examined(home: Home, running: Running) -> dict[str, Any]:
    from pathlib import Path

    from pliant.cli.shortfalls import is_full
    from pliant.errors import ApiError, UserError
    from pliant.kube.client import KubeClient
    from pliant.kube.config import transport_for
    from pliant.runtime.clock import SystemClock

    facts: dict[str, Any] = {
        "name": home.name,
        "url": running.url,
        "pid": running.pid,
        "since": running.since,
        "network": running.network,
        "kubeconfig": running.kubeconfig,
        "log": str(home.log),
        "data": str(Path(running.kubeconfig).parent),
        "diskFull": is_full(Path(running.kubeconfig).parent),
        "answers": False,
        "nodes": [],
        "jobs": {},
    }
    try:
        transport = transport_for(Path(running.kubeconfig), None, SystemClock().now)
        try:
            async with asyncio.timeout(5):
                return {**facts, **await _contents(KubeClient(transport)), "answers": True}
        finally:
            await transport.aclose()
    except (ApiError, UserError, TimeoutError) as error:
        return {**facts, "problem": str(error) or "no answer within 5 seconds"}


async def _contents(client: Any) -> dict[str, Any]:
    from collections import Counter

    from pliant.cli.jobs import all_jobs
    from pliant.cli.target import Target
    from pliant.kube.objects import Node
    from pliant.kube.resources import NODES

    nodes = (await client.list(NODES, into=Node)).items
    jobs = await all_jobs(Target(client, None, "default"))
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


def _text(one: dict[str, Any]) -> str:
    from pliant.cli.style import Style

    style = Style.of(sys.stdout)
    is_well = one["answers"]
    state = style.green("up") if is_well else style.red(f"up, but does not answer: {one.get('problem', '')}")
    facts = [
        (f"cluster `{one['name']}`", f"{state}{_age(one['since'])} (process {one['pid']})"),
        ("  address", one["url"]),
        ("  nodes", _nodes(one["nodes"])),
        ("  network", _NETWORKS.get(one["network"], "unknown")),
        ("  jobs", ", ".join(f"{number} {phase}" for phase, number in sorted(one["jobs"].items())) or "none"),
        ("  kubeconfig", one["kubeconfig"]),
        ("  log", one["log"]),
    ]
    if one["diskFull"]:
        what = f"{style.red('full')}: {one['data']} has no room left for objects and logs; make some"
        facts.insert(1, ("  disk", what))
    hidden = () if is_well else ("  nodes", "  jobs")
    shown = [fact for fact in facts if fact[0] not in hidden]
    return "".join(f"{title:<18} {text}\n" for title, text in shown)


def _age(since: str) -> str:
    from datetime import datetime

    from pliant.cli.durations import age_text
    from pliant.runtime.clock import SystemClock

    return f" for {age_text(SystemClock().now() - datetime.fromisoformat(since))}" if since else ""


def _nodes(nodes: list[dict[str, Any]]) -> str:
    """How many there are, how many are ready, and what the first one offers."""
    from pliant.cli.room import amount_text
    from pliant.kube.amounts import amount

    ready = sum(node["ready"] for node in nodes)
    offers = nodes[0]["allocatable"] if nodes else {}
    told = ", ".join(
        f"{amount_text(name, amount(each))} {name}" for name, each in offers.items() if name != "pods"
    )
    return f"{ready} of {len(nodes)} ready; {told} each" if nodes else "none"
