"""`pliant up`: starts a local cluster that keeps running."""

from __future__ import annotations

import asyncio
import errno
import gc
import logging
import os
import shlex
import sys
from argparse import ArgumentParser, Namespace
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pliant.cli.input.local_cluster_options import (
    add_local_cluster_options,
    add_log_options,
    cluster_config,
    current_dir,
    log_rotation,
    parse_existing_dir,
    parse_port,
)
from pliant.cli.input.problems import first_pliant_error
from pliant.cli.local.state_dir import ClusterStateDir, RunningCluster, lock_data_dir
from pliant.cli.shutdown import STOP_NOW_SIGNAL, handle_stop_signals, run_with_signals_deferred
from pliant.errors import UnsupportedEnvironment
from pliant.runtime.clock import SystemClock
from pliant.runtime.log_setup import configure_logging

if TYPE_CHECKING:
    from pliant.cli.local.daemon import NotifyReady
    from pliant.cli.local.state_dir import ClusterLock
    from pliant.embedded.cluster import ClusterConfig, EmbeddedCluster

DESCRIPTION = "Start a local cluster that keeps running in the background, for kubectl and other clients."
EPILOG = """\
The cluster keeps its data: after `pliant down` and `pliant up` all objects exist again. Standard output contains
only shell commands; everything else is printed on standard error.

examples:
  eval "$(pliant up)"                             start a cluster and configure kubectl for it
  kubectl apply -f examples/quickstart/job.yaml
  pliant get -w                                   `pliant get`, logs, why, scale… do not need kubectl
  pliant down                                     stop the cluster; --purge also deletes its data

  pliant up --name big --nodes 8 --node-gpu 4     a second cluster with eight GPU nodes
"""

log = logging.getLogger(__name__)


def configure(parser: ArgumentParser) -> None:
    from pliant.cli.input.autoscale_options import add_autoscale_options
    from pliant.cli.input.operator_options import add_plan_retention_options, add_timeout_options

    parser.add_argument("--name", default="default", help="Name of the cluster (default)")
    mode = parser.add_mutually_exclusive_group()
    mode.add_argument("--detach", "-d", action="store_true", help="Run in the background (default)")
    mode.add_argument("--foreground", action="store_true", help="Run in the foreground")
    data_help = "Directory for the data of the cluster (default: in ~/.local/share/pliant)"
    parser.add_argument("--data", type=Path, metavar="DIR", help=data_help)
    repair_help = "If the database is damaged, keep it under another name and recover the objects that can be read"
    parser.add_argument("--repair", action="store_true", help=repair_help)
    parser.add_argument("--no-operator", action="store_true", help="Start the cluster without the operator")
    port_help = "Port of the API server on 127.0.0.1 (default: any free port)"
    parser.add_argument("--port", type=parse_port, default=0, metavar="N", help=port_help)
    workspace_help = "Working directory of programs and root of hostPath volumes (default: the current directory)"
    parser.add_argument("--workspace", type=parse_existing_dir, metavar="DIR", help=workspace_help)
    add_local_cluster_options(parser)
    add_log_options(parser)
    add_timeout_options(parser)
    add_plan_retention_options(parser)
    add_autoscale_options(parser)


def execute(args: Namespace) -> int:
    from pliant.cli.local.daemon import start_detached

    state_dir = ClusterStateDir.for_cluster(args.name, os.environ)
    running = state_dir.running_cluster()
    if running is not None:
        return _print_already_running(state_dir, running, _has_other_options(args))
    if args.foreground:
        return _run_cluster(args, state_dir, lambda message: _print_started(state_dir, message))
    with state_dir.lock():
        pass  # creates the directory; fails here rather than in the background process
    _print_started(state_dir, start_detached(lambda notify: _run_cluster(args, state_dir, notify), state_dir.log_file))
    return 0


def _run_cluster(args: Namespace, state_dir: ClusterStateDir, notify_ready: NotifyReady) -> int:
    with state_dir.lock() as lock:
        configure_logging(path=None if args.foreground else state_dir.log_file, rotation=log_rotation(args))
        data = args.data.absolute() if args.data else state_dir.data_dir
        workspace = (args.workspace or current_dir()).absolute()
        config = cluster_config(args, data, workspace=workspace, durable=True, port=args.port)
        with lock_data_dir(data):
            if args.repair:
                notify_ready = _with_notice(notify_ready, _repair(config))
            return run_with_signals_deferred(_run_until_stopped(args, config, lock, notify_ready))


def _repair(config: ClusterConfig) -> str:
    """Repair the database of the cluster; return what was done."""
    from pliant.embedded.storage.repair import repair_if_damaged

    report = repair_if_damaged(config.database_path, SystemClock().now())
    text = f"the database {config.database_path} is not damaged" if report is None else str(report)
    log.warning("database repaired" if report else "database not damaged", extra={"report": text})
    return text


def _with_notice(notify_ready: NotifyReady, notice: str) -> NotifyReady:
    def notify(message: dict[str, Any]) -> None:
        notify_ready({**message, "notice": "\n".join(filter(None, (notice, message["notice"])))})

    return notify


async def _run_until_stopped(
    args: Namespace, config: ClusterConfig, lock: ClusterLock, notify_ready: NotifyReady
) -> int:
    """Run the cluster until a stop signal arrives, then terminate its pods."""
    from pliant.embedded.cluster import EmbeddedCluster

    with handle_stop_signals(STOP_NOW_SIGNAL) as stop:
        try:
            async with EmbeddedCluster.start(config) as cluster:
                try:
                    await _run_operator(args, cluster, lock, notify_ready)
                except asyncio.CancelledError:
                    # The operator has ended, so that it does not replace the pods.
                    if stop.received_signal not in (None, STOP_NOW_SIGNAL):
                        lock.publish(replace(_describe_running(cluster), is_stopping=True))
                        await cluster.stop_pods()
                    raise
        except asyncio.CancelledError:
            if stop.received_signal is None:
                raise
        except BaseExceptionGroup as group:
            raise first_pliant_error(group) from group
        except OSError as error:
            raise _explain_port_error(error, args.port) from error
    return 0


async def _run_operator(
    args: Namespace, cluster: EmbeddedCluster, lock: ClusterLock, notify_ready: NotifyReady
) -> None:
    """Run the operator of a cluster until cancelled, and tell others how to reach the cluster."""
    async with AsyncExitStack() as stack:
        await _start_operator(args, cluster, stack)
        lock.publish(_describe_running(cluster))
        notice = cluster.mode.fallback_notice
        notify_ready({"url": cluster.url, "kubeconfig": str(cluster.kubeconfig), "notice": notice})
        # What was loaded until now stays: the garbage collector need not stop the server to look at it again.
        gc.collect()
        gc.freeze()
        await asyncio.Event().wait()


def _describe_running(cluster: EmbeddedCluster) -> RunningCluster:
    return RunningCluster(
        pid=os.getpid(),
        url=cluster.url,
        kubeconfig=str(cluster.kubeconfig),
        since=SystemClock().now().isoformat(timespec="seconds"),
        network=cluster.mode.name,
        authorization=cluster.authorization_mode,
    )


def _explain_port_error(error: OSError, port: int) -> Exception:
    problems = {errno.EADDRINUSE: "is already in use", errno.EACCES: "requires privileges"}
    if not port or error.errno not in problems:
        return error
    return UnsupportedEnvironment(f"--port: port {port} of 127.0.0.1 {problems[error.errno]}; choose another port")


async def _start_operator(args: Namespace, cluster: EmbeddedCluster, stack: AsyncExitStack) -> None:
    from pliant.cli.cluster.apply import install_crds
    from pliant.cli.cluster.local_operator import create_operator_client, run_local_operator
    from pliant.cli.input.autoscale_options import autoscale_options
    from pliant.cli.input.operator_options import operator_config
    from pliant.kube.client import KubeClient

    if not args.no_operator:
        operator = run_local_operator(cluster, operator_config(args), autoscale_options(args))
        await stack.enter_async_context(operator)
        return
    owner = KubeClient(cluster.transport)
    await install_crds(owner)
    await create_operator_client(cluster, owner)


def _print_started(state_dir: ClusterStateDir, ready_message: dict[str, Any]) -> None:
    if ready_message["notice"]:
        sys.stderr.write(f"{ready_message['notice']}\n")
    _print_usage(
        f"cluster `{state_dir.name}` is running at {ready_message['url']}", ready_message["kubeconfig"], state_dir
    )


def _has_other_options(args: Namespace) -> bool:
    parser = ArgumentParser()
    configure(parser)
    defaults = vars(parser.parse_args(["--name", args.name]))
    return any(value != defaults[option] for option, value in vars(args).items() if option != "detach")


def _print_already_running(state_dir: ClusterStateDir, running: RunningCluster, has_ignored_options: bool) -> int:
    if running.is_stopping:
        sys.stderr.write(
            f"cluster `{state_dir.name}` is stopping and waits for its pods (pid {running.pid}); "
            "start it again when it has stopped, or do not wait: pliant down --now\n"
        )
        return 1
    if not running.url:
        sys.stderr.write(f"cluster `{state_dir.name}` is already starting (pid {running.pid})\n")
        return 1
    message = f"cluster `{state_dir.name}` is already running at {running.url} (pid {running.pid})"
    if has_ignored_options:
        message += "\nthe other options are ignored; run `pliant down` first, or choose another --name"
    _print_usage(message, running.kubeconfig, state_dir)
    return 0


def _print_usage(message: str, kubeconfig: str, state_dir: ClusterStateDir) -> None:
    down = "pliant down" if state_dir.name == "default" else f"pliant down --name {state_dir.name}"
    gap = "\n" if sys.stdout.isatty() else ""  # no empty lines if a shell evaluates the export
    sys.stderr.write(f"{message}\n{gap}")
    sys.stderr.flush()
    sys.stdout.write(f"export KUBECONFIG={shlex.quote(kubeconfig)}\n")
    sys.stdout.flush()
    sys.stderr.write(
        f"{gap}Next: pliant submit job.yaml, pliant get, pliant logs JOB -f, pliant why JOB, or kubectl.\n"
        f"Stop the cluster with `{down}`. Its log is {state_dir.log_file}.\n"
    )
