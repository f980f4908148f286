"""`pliant up`: a cluster on this machine that stays up."""

from __future__ import annotations

import asyncio
import errno
import os
import shlex
import sys
from argparse import ArgumentParser, Namespace
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pliant.cli.input.local_cluster_options import (
    add_node_options,
    cluster_config,
    current_dir,
    parse_existing_dir,
    parse_port,
)
from pliant.cli.local.state_dir import ClusterStateDir, RunningCluster, lock_data_dir
from pliant.errors import UnsupportedEnvironment

if TYPE_CHECKING:
    from pliant.cli.local.daemon import NotifyReady
    from pliant.cli.local.state_dir import ClusterLock
    from pliant.embedded.cluster import ClusterConfig, EmbeddedCluster

EPILOG = """\
The cluster runs in the background and keeps its data: `pliant down`, then `pliant up`, and all is there again.
What it prints on the standard output is meant for a shell, the rest is on the standard error.

examples:
  eval "$(pliant up)"                             start it, and let kubectl talk to it
  kubectl apply -f examples/quickstart/job.yaml
  pliant get -w                                   pliant status, logs, why, scale, … need no kubectl
  pliant down                                     stop it; --purge deletes its data too

  pliant up --name big --nodes 8 --node-gpu 4     a second one, with eight nodes that offer GPUs
"""


def configure(parser: ArgumentParser) -> None:
    """Declare the options."""
    from pliant.cli.input.autoscale_options import add_autoscale_options
    from pliant.cli.input.operator_options import add_plan_retention_options, add_timeout_options

    parser.epilog = EPILOG
    parser.add_argument("--name", default="default", help="which cluster (default)")
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--detach", "-d", action="store_true", help="go into the background (it does so anyway)")
    where.add_argument("--foreground", action="store_true", help="do not go into the background")
    parser.add_argument(
        "--data", type=Path, metavar="DIR", help="where it keeps its data (below ~/.local/share/pliant)"
    )
    parser.add_argument("--no-operator", action="store_true", help="only the cluster: nobody runs the jobs")
    parser.add_argument(
        "--port", type=parse_port, default=0, metavar="N", help="of the API on 127.0.0.1 (any free one)"
    )
    parser.add_argument(
        "--workspace",
        type=parse_existing_dir,
        metavar="DIR",
        help="where programs start and what hostPath may show (this folder)",
    )
    add_node_options(parser)
    add_timeout_options(parser)
    add_plan_retention_options(parser)
    add_autoscale_options(parser)


def execute(args: Namespace) -> int:
    """Start the cluster, unless it is up already; then say how to use it."""
    from pliant.cli.local.daemon import start_detached

    home = ClusterStateDir.for_cluster(args.name, os.environ)
    running = home.running_cluster()
    if running is not None:
        return _print_already_running(home, running, _has_other_options(args))
    if args.foreground:
        return _run_cluster(args, home, lambda told: _print_started(home, told))
    with home.lock():
        pass  # makes the folder, and says so early if it cannot be written
    _print_started(home, start_detached(lambda tell: _run_cluster(args, home, tell), home.log_file))
    return 0


def _run_cluster(args: Namespace, state_dir: ClusterStateDir, notify_ready: NotifyReady) -> int:
    from pliant.cli.shutdown import run_until_stopped
    from pliant.runtime.log_setup import configure_logging

    with state_dir.lock() as claim:
        configure_logging(path=None if args.foreground else state_dir.log_file)
        data = args.data.absolute() if args.data else state_dir.data_dir
        config = cluster_config(
            args, data, workspace=(args.workspace or current_dir()).absolute(), durable=True, port=args.port
        )
        with lock_data_dir(data):
            return run_until_stopped(_run_until_stopped(args, config, claim, notify_ready))


async def _run_until_stopped(
    args: Namespace, config: ClusterConfig, lock: ClusterLock, notify_ready: NotifyReady
) -> int:
    """Run the cluster until a signal comes."""
    from pliant.cli.input.problems import first_pliant_error
    from pliant.cli.shutdown import handle_stop_signals
    from pliant.embedded.cluster import EmbeddedCluster
    from pliant.runtime.clock import SystemClock

    with handle_stop_signals() as stop:
        try:
            async with AsyncExitStack() as stack:
                cluster = await stack.enter_async_context(EmbeddedCluster.start(config))
                await _start_operator(args, cluster, stack)
                since = SystemClock().now().isoformat(timespec="seconds")
                mode, kubeconfig = cluster.mode, str(cluster.kubeconfig)
                running = RunningCluster(pid=os.getpid(), url=cluster.url, kubeconfig=kubeconfig, since=since)
                lock.publish(replace(running, network=mode.name))
                notify_ready({"url": cluster.url, "kubeconfig": kubeconfig, "notice": mode.fallback_notice})
                await asyncio.Event().wait()
        except asyncio.CancelledError:
            if stop.received_signal is None:
                raise
        except BaseExceptionGroup as group:
            raise first_pliant_error(group) from group
        except OSError as error:
            raise _explain_port_error(error, args.port) from error
    return 0


def _explain_port_error(error: OSError, port: int) -> Exception:
    """What is wrong with the port that was asked for, if it is that."""
    what = {errno.EADDRINUSE: "is in use by another program", errno.EACCES: "is not for ordinary users"}
    if not port or error.errno not in what:
        return error
    return UnsupportedEnvironment(f"port {port} of 127.0.0.1 {what[error.errno]}; name another, or leave --port out")


async def _start_operator(args: Namespace, cluster: EmbeddedCluster, stack: AsyncExitStack) -> None:
    """Teach the cluster our kinds, and set the operator to work on them."""
    from pliant.cli.cluster.apply import install_crds
    from pliant.cli.cluster.progress_receiver import open_embedded_receiver
    from pliant.cli.input.autoscale_options import autoscale_options
    from pliant.cli.input.operator_options import operator_config
    from pliant.controllers.operator import Operator
    from pliant.kube.client import KubeClient
    from pliant.runtime.clock import SystemClock

    client = KubeClient(cluster.transport)
    await install_crds(client)
    if not args.no_operator:
        desk = await stack.enter_async_context(open_embedded_receiver(cluster, client))
        scaling = autoscale_options(args)
        operator = Operator(
            client, SystemClock(), config=operator_config(args), progress_receiver=desk, autoscale_options=scaling
        )
        tasks = await stack.enter_async_context(asyncio.TaskGroup())
        tasks.create_task(operator.run())
        await operator.wait_ready()


def _print_started(state_dir: ClusterStateDir, ready_message: dict[str, Any]) -> None:
    if ready_message["notice"]:
        sys.stderr.write(f"{ready_message['notice']}\n")
    _print_usage(f"cluster `{state_dir.name}` is up at {ready_message['url']}", ready_message["kubeconfig"], state_dir)


def _has_other_options(args: Namespace) -> bool:
    """Whether anything but the name was asked for."""
    usual = ArgumentParser()
    configure(usual)
    plain = vars(usual.parse_args(["--name", args.name]))
    return any(value != plain[option] for option, value in vars(args).items() if option not in ("detach",))


def _print_already_running(state_dir: ClusterStateDir, running: RunningCluster, has_ignored_options: bool) -> int:
    if not running.url:
        sys.stderr.write(f"cluster `{state_dir.name}` is coming up already (process {running.pid})\n")
        return 1
    what = f"cluster `{state_dir.name}` is up already at {running.url} (process {running.pid})"
    if has_ignored_options:
        what += "\nwhat you ask for now counts when it is started anew: `pliant down` first, or choose another --name"
    _print_usage(what, running.kubeconfig, state_dir)
    return 0


def _print_usage(message: str, kubeconfig: str, state_dir: ClusterStateDir) -> None:
    down = "pliant down" if state_dir.name == "default" else f"pliant down --name {state_dir.name}"
    gap = "\n" if sys.stdout.isatty() else ""  # nothing stands between the lines when a shell takes the export
    sys.stderr.write(f"{message}\n{gap}")
    sys.stderr.flush()
    sys.stdout.write(f"export KUBECONFIG={shlex.quote(kubeconfig)}\n")
    sys.stdout.flush()
    sys.stderr.write(
        f"{gap}Then: pliant submit job.yaml, pliant get, pliant logs JOB -f, pliant why JOB; or kubectl.\n"
        f"Stop it with `{down}`; its log is {state_dir.log_file}.\n"
    )
