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
    from pliant.cli.local.state_dir import ClusterStateDir, RunningCluster
    from pliant.kube.client import KubeClient
    from pliant.kube.transport.http import ApiServerEndpoint

TARGET_HELP = """\
The cluster is that of --kubeconfig, --context, --cluster or $KUBECONFIG; else the one that `pliant up`, or else
`pliant run`, runs for you; else that of the pod this runs in, or of ~/.kube/config. One that nobody named is told
on standard error.
"""


@dataclass(frozen=True, slots=True)
class ClusterTarget:
    """A cluster, and the part of it that is meant."""

    client: KubeClient
    namespace: str | None
    """None means all of them."""
    default_namespace: str
    """The namespace of things that name none."""


@dataclass(frozen=True, slots=True)
class KubeconfigChoice:
    """A kubeconfig to go by, and what to say about it if nobody named it."""

    kubeconfig: Path | None
    description: str = ""


class LocalCluster(NamedTuple):
    """A cluster on this machine, and the command that runs it."""

    name: str
    kubeconfig: Path
    command: str


def add_target_options(parser: ArgumentParser, *, all_namespaces: bool = False) -> None:
    """Let people say which cluster and which namespace they mean."""
    group = parser.add_argument_group("which cluster")
    group.add_argument("--kubeconfig", type=Path, metavar="FILE", help="how to reach it")
    group.add_argument("--context", metavar="NAME", help="which context of the kubeconfig")
    group.add_argument("--cluster", metavar="NAME", help="the one of this name on this machine")
    group.add_argument("--namespace", "-n", metavar="NAME", help="which namespace (that of the context)")
    if all_namespaces:
        group.add_argument("--all-namespaces", "-A", action="store_true", help="all of them")


@asynccontextmanager
async def connect_target(args: Namespace) -> AsyncIterator[ClusterTarget]:
    """The cluster that the options mean, for as long as the context lasts."""
    from pliant.errors import Unreachable, UserError
    from pliant.kube.client import KubeClient
    from pliant.kube.client_config import find_api_server
    from pliant.kube.transport.http import HttpTransport
    from pliant.runtime.clock import SystemClock

    choice = choose_kubeconfig(args, os.environ)
    endpoint = find_api_server(choice.kubeconfig, args.context, os.environ, SystemClock().now)
    if (
        guess := f"{choice.description}, {endpoint.url}"
        if choice.description
        else _describe_default_endpoint(endpoint, args, os.environ)
    ):
        from pliant.cli.output.style import TerminalStyle

        sys.stderr.write(TerminalStyle.for_stream(sys.stderr).dim(f"cluster: {guess}") + "\n")
        sys.stderr.flush()
    home = args.namespace or endpoint.default_namespace or "default"
    transport = HttpTransport(endpoint)
    try:
        is_everywhere = getattr(args, "all_namespaces", False)
        yield ClusterTarget(KubeClient(transport), None if is_everywhere else home, home)
    except Unreachable as error:
        raise UserError(f"{error}; is the cluster up? `pliant status` and `pliant doctor` tell more") from error
    finally:
        await transport.aclose()


def choose_kubeconfig(args: Namespace, environment: Mapping[str, str]) -> KubeconfigChoice:
    """The kubeconfig that the options mean; None leaves it to the order that kubectl has."""
    from pliant.errors import UserError

    if args.cluster:
        if args.kubeconfig or args.context:
            raise UserError("--cluster and --kubeconfig or --context exclude each other; leave one of them out")
        for up in list_local_clusters(environment):
            if up.name == args.cluster:
                return KubeconfigChoice(up.kubeconfig)
        raise UserError(f"cluster `{args.cluster}` is not up; start it with `pliant up --name {args.cluster}`")
    if args.kubeconfig or args.context or environment.get("KUBECONFIG"):
        return KubeconfigChoice(args.kubeconfig)
    here = list_local_clusters(environment)
    if not here:
        return KubeconfigChoice(None)
    first, *others = here
    more = f"; others: {', '.join(f'--cluster {other.name}' for other in others)}" if others else ""
    return KubeconfigChoice(first.kubeconfig, f"`{first.name}` of `{first.command}`{more}")


def list_local_clusters(environment: Mapping[str, str]) -> list[LocalCluster]:
    """The clusters of this user on this machine: `default` first, then those that stay up, then runs."""
    from pliant.cli.local.run_dir import list_active_run_dirs

    stay = [
        LocalCluster(home.name, Path(running.kubeconfig), "pliant up")
        for home, running in list_running_clusters(environment)
    ]
    stay.sort(key=lambda here: here.name != "default")
    runs = [LocalCluster(folder.name, folder / "kubeconfig", "pliant run") for folder in list_active_run_dirs()]
    return stay + [here for here in runs if here.kubeconfig.is_file()]


def list_running_clusters(environment: Mapping[str, str]) -> list[tuple[ClusterStateDir, RunningCluster]]:
    """The clusters of this user that stay up, by name."""
    from pliant.cli.local.state_dir import ClusterStateDir

    root = ClusterStateDir.for_cluster("default", environment).path.parent
    names = sorted(lock.parent.name for lock in root.glob("*/lock")) if root.is_dir() else []
    found = [(home, home.running_cluster()) for home in (ClusterStateDir(name, root / name) for name in names)]
    return [(home, running) for home, running in found if running is not None and running.kubeconfig]


def _describe_default_endpoint(endpoint: ApiServerEndpoint, args: Namespace, environment: Mapping[str, str]) -> str:
    """How to call a cluster that was found where kubectl finds it, without anybody naming it."""
    if args.cluster or args.kubeconfig or args.context or environment.get("KUBECONFIG"):
        return ""
    place = f"context {endpoint.context_name} of {endpoint.source}" if endpoint.context_name else "that of this pod"
    return f"{place}, {endpoint.url}"
