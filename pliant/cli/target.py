"""Which cluster a command about jobs speaks to: the one named, else the one of `pliant up`, else kubectl's."""

from __future__ import annotations

import os
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from pliant.cli.home import Home, Running
    from pliant.kube.client import KubeClient
    from pliant.kube.http import Endpoint

WHICH_CLUSTER = """\
The cluster is that of --kubeconfig, --context, --cluster or $KUBECONFIG; else the one that `pliant up`, or else
`pliant run`, runs for you; else that of the pod this runs in, or of ~/.kube/config. One that nobody named is told
on standard error.
"""


@dataclass(frozen=True, slots=True)
class Target:
    """A cluster, and the part of it that is meant."""

    client: KubeClient
    namespace: str | None
    """None means all of them."""
    home: str
    """The namespace of things that name none."""


@dataclass(frozen=True, slots=True)
class Choice:
    """A kubeconfig to go by, and what to say about it if nobody named it."""

    kubeconfig: Path | None
    guess: str = ""


class Here(NamedTuple):
    """A cluster on this machine, and the command that runs it."""

    name: str
    kubeconfig: Path
    command: str


def add_target_options(parser: ArgumentParser, *, everywhere: bool = False) -> None:
    """Let people say which cluster and which namespace they mean."""
    group = parser.add_argument_group("which cluster")
    group.add_argument("--kubeconfig", type=Path, metavar="FILE", help="how to reach it")
    group.add_argument("--context", metavar="NAME", help="which context of the kubeconfig")
    group.add_argument("--cluster", metavar="NAME", help="the one of this name on this machine")
    group.add_argument("--namespace", "-n", metavar="NAME", help="which namespace (that of the context)")
    if everywhere:
        group.add_argument("--all-namespaces", "-A", action="store_true", help="all of them")


@asynccontextmanager
async def connected(args: Namespace) -> AsyncIterator[Target]:
    """The cluster that the options mean, for as long as the context lasts."""
    from pliant.errors import Unreachable, UserError
    from pliant.kube.client import KubeClient
    from pliant.kube.config import find_endpoint
    from pliant.kube.http import HttpTransport
    from pliant.runtime.clock import SystemClock

    choice = chosen(args, os.environ)
    endpoint = find_endpoint(choice.kubeconfig, args.context, os.environ, SystemClock().now)
    if guess := f"{choice.guess}, {endpoint.url}" if choice.guess else _guess(endpoint, args, os.environ):
        from pliant.cli.style import Style

        sys.stderr.write(Style.of(sys.stderr).dim(f"cluster: {guess}") + "\n")
        sys.stderr.flush()
    home = args.namespace or endpoint.namespace or "default"
    transport = HttpTransport(endpoint)
    try:
        is_everywhere = getattr(args, "all_namespaces", False)
        yield Target(KubeClient(transport), None if is_everywhere else home, home)
    except Unreachable as error:
        raise UserError(f"{error}; is the cluster up? `pliant status` and `pliant doctor` tell more") from error
    finally:
        await transport.aclose()


def chosen(args: Namespace, environment: Mapping[str, str]) -> Choice:
    """The kubeconfig that the options mean; None leaves it to the order that kubectl has."""
    from pliant.errors import UserError

    if args.cluster:
        if args.kubeconfig or args.context:
            raise UserError("--cluster and --kubeconfig or --context exclude each other; leave one of them out")
        for up in clusters_here(environment):
            if up.name == args.cluster:
                return Choice(up.kubeconfig)
        raise UserError(f"cluster `{args.cluster}` is not up; start it with `pliant up --name {args.cluster}`")
    if args.kubeconfig or args.context or environment.get("KUBECONFIG"):
        return Choice(args.kubeconfig)
    here = clusters_here(environment)
    if not here:
        return Choice(None)
    first, *others = here
    more = f"; others: {', '.join(f'--cluster {other.name}' for other in others)}" if others else ""
    return Choice(first.kubeconfig, f"`{first.name}` of `{first.command}`{more}")


def clusters_here(environment: Mapping[str, str]) -> list[Here]:
    """The clusters of this user on this machine: `default` first, then those that stay up, then runs."""
    from pliant.cli.scratch import folders_in_use

    stay = [
        Here(home.name, Path(running.kubeconfig), "pliant up") for home, running in ready_clusters(environment)
    ]
    stay.sort(key=lambda here: here.name != "default")
    runs = [Here(folder.name, folder / "kubeconfig", "pliant run") for folder in folders_in_use()]
    return stay + [here for here in runs if here.kubeconfig.is_file()]


def ready_clusters(environment: Mapping[str, str]) -> list[tuple[Home, Running]]:
    """The clusters of this user that stay up, by name."""
    from pliant.cli.home import Home

    root = Home.of("default", environment).folder.parent
    names = sorted(lock.parent.name for lock in root.glob("*/lock")) if root.is_dir() else []
    found = [(home, home.running()) for home in (Home(name, root / name) for name in names)]
    return [(home, running) for home, running in found if running is not None and running.kubeconfig]


def _guess(endpoint: Endpoint, args: Namespace, environment: Mapping[str, str]) -> str:
    """How to call a cluster that was found where kubectl finds it, without anybody naming it."""
    if args.cluster or args.kubeconfig or args.context or environment.get("KUBECONFIG"):
        return ""
    place = f"context {endpoint.context} of {endpoint.found_in}" if endpoint.context else "that of this pod"
    return f"{place}, {endpoint.url}"
