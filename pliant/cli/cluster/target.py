"""Selects the cluster of a command: the one of the options, else a local cluster, else that of kubectl."""

from __future__ import annotations

import os
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from pliant.cli.local.state_dir import ClusterStateDir, RunningCluster
from pliant.cli.output.style import TerminalStyle
from pliant.errors import Unreachable, UserError
from pliant.runtime.clock import SystemClock

if TYPE_CHECKING:
    from pliant.kube.client import KubeClient
    from pliant.kube.transport.http import ApiServerEndpoint

CLUSTER_SELECTION_HELP = """\
The cluster is that of --kubeconfig, --context, --cluster or $KUBECONFIG; else a running cluster of `pliant up` or
`pliant run`; else that of the service account of this pod, or of ~/.kube/config. If no option chooses the cluster,
its name is printed on standard error.
"""


@dataclass(frozen=True, slots=True)
class ClusterTarget:
    """A connected cluster, and the namespace of the command."""

    client: KubeClient
    namespace: str | None  # None: all namespaces
    default_namespace: str  # for objects that do not name one
    endpoint: ApiServerEndpoint | None = None


@dataclass(frozen=True, slots=True)
class KubeconfigChoice:
    """A kubeconfig, and the description of the cluster if the user did not choose it."""

    kubeconfig: Path | None
    description: str = ""


class LocalCluster(NamedTuple):
    """A cluster on this machine, and the command that runs it."""

    name: str
    kubeconfig: Path
    command: str


def add_target_options(parser: ArgumentParser, *, all_namespaces: bool = False) -> None:
    group = parser.add_argument_group("cluster")
    group.add_argument("--kubeconfig", type=Path, metavar="FILE", help="Path of the kubeconfig file")
    group.add_argument("--context", metavar="NAME", help="Context of the kubeconfig")
    group.add_argument("--cluster", metavar="NAME", help="Name of a local cluster")
    group.add_argument("--namespace", "-n", metavar="NAME", help="Namespace of the jobs (default: that of the context)")
    if all_namespaces:
        group.add_argument("--all-namespaces", "-A", action="store_true", help="Use all namespaces")


@asynccontextmanager
async def connect_target(args: Namespace) -> AsyncIterator[ClusterTarget]:
    """Connect to the cluster of the options."""
    from pliant.kube.client import KubeClient
    from pliant.kube.client_config import find_api_server
    from pliant.kube.transport.http import HttpTransport

    choice = choose_kubeconfig(args, os.environ)
    endpoint = find_api_server(choice.kubeconfig, args.context, os.environ, SystemClock().now)
    description = choice.description or _describe_default_endpoint(endpoint, args, os.environ)
    if description:
        sys.stderr.write(TerminalStyle.for_stream(sys.stderr).dim(f"cluster: {description}, {endpoint.url}") + "\n")
        sys.stderr.flush()
    namespace = args.namespace or endpoint.default_namespace or "default"
    transport = HttpTransport(endpoint)
    try:
        is_everywhere = getattr(args, "all_namespaces", False)
        yield ClusterTarget(KubeClient(transport), None if is_everywhere else namespace, namespace, endpoint)
    except Unreachable as error:
        raise UserError(f"{error}; check the cluster with `pliant status` or `pliant doctor`") from error
    finally:
        await transport.aclose()


def choose_kubeconfig(args: Namespace, environment: Mapping[str, str]) -> KubeconfigChoice:
    """Return the kubeconfig of the options; None means the default order of kubectl."""

    if args.cluster:
        if args.kubeconfig or args.context:
            raise UserError("--cluster and --kubeconfig or --context are mutually exclusive")
        for cluster in list_local_clusters(environment):
            if cluster.name == args.cluster:
                return KubeconfigChoice(cluster.kubeconfig)
        raise UserError(f"cluster `{args.cluster}` is not running; start it with `pliant up --name {args.cluster}`")
    if args.kubeconfig or args.context or environment.get("KUBECONFIG"):
        return KubeconfigChoice(args.kubeconfig)
    clusters = list_local_clusters(environment)
    if not clusters:
        return KubeconfigChoice(None)
    first, *others = clusters
    more = f"; others: {', '.join(f'--cluster {other.name}' for other in others)}" if others else ""
    return KubeconfigChoice(first.kubeconfig, f"`{first.name}` of `{first.command}`{more}")


async def is_owned_local_cluster(target: ClusterTarget) -> bool:
    """Return whether the target is a local cluster of this user, reached with the credentials of its owner."""
    from pliant.kube.client_config import find_api_server

    endpoint = target.endpoint
    if endpoint is None or endpoint.credentials is None or endpoint.headers:  # headers impersonate another user
        return False
    for cluster in list_local_clusters(os.environ):
        own = find_api_server(cluster.kubeconfig, None, {}, SystemClock().now)
        if own.url == endpoint.url and own.credentials is not None:
            return await own.credentials.credential() == await endpoint.credentials.credential()
    return False


def list_local_clusters(environment: Mapping[str, str]) -> list[LocalCluster]:
    """List the local clusters of this user: `default`, then others of `pliant up`, then those of `pliant run`."""
    from pliant.cli.local.run_dir import list_active_run_dirs

    persistent = [
        LocalCluster(state_dir.name, Path(running.kubeconfig), "pliant up")
        for state_dir, running in list_running_persistent_clusters(environment)
    ]
    persistent.sort(key=lambda cluster: cluster.name != "default")
    runs = [LocalCluster(path.name, path / "kubeconfig", "pliant run") for path in list_active_run_dirs()]
    return persistent + [run for run in runs if run.kubeconfig.is_file()]


def list_running_persistent_clusters(environment: Mapping[str, str]) -> list[tuple[ClusterStateDir, RunningCluster]]:
    found = [(state_dir, state_dir.running_cluster()) for state_dir in ClusterStateDir.list_all(environment)]
    return [(state_dir, running) for state_dir, running in found if running is not None and running.kubeconfig]


def _describe_default_endpoint(endpoint: ApiServerEndpoint, args: Namespace, environment: Mapping[str, str]) -> str:
    """Return a description of a cluster that the user did not choose; else an empty string."""
    if args.cluster or args.kubeconfig or args.context or environment.get("KUBECONFIG"):
        return ""
    return f"context {endpoint.context_name} of {endpoint.source}" if endpoint.context_name else "cluster of this pod"
