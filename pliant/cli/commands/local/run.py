"""`pliant run`: a throw-away cluster, the jobs of the files, their logs, and a verdict as exit code."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from argparse import ArgumentParser, BooleanOptionalAction, Namespace
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from pliant.cli.input.local_cluster_options import (
    add_node_options,
    cluster_config,
    current_dir,
    parse_duration_option,
    parse_existing_dir,
    parse_namespace_name,
)

if TYPE_CHECKING:
    from pliant.cli.local.run_result import SessionResult
    from pliant.cli.local.run_session import RunPlan
    from pliant.cli.output.run_view import RunView
    from pliant.cli.shutdown import StopRequest
    from pliant.embedded.cluster import ClusterConfig

EPILOG = """\
A cluster starts on this machine, without root and without containers: pods are processes of yours, each with an
address and a name of its own. The jobs run to their end, and the cluster goes away.

exit codes:
  0    every job succeeded
  1    a job failed, was deleted, or can never start
  2    the files cannot be used; nothing was started
  3    a job ran out of the time that its timeLimit or startLimit gives it (phase Timeout)
  4    a job was lost with its node (NodeFail)
  5    a job had to make room for another (Preempted)
  124  --timeout passed first
  130  interrupted by Ctrl-C (a second Ctrl-C does not wait for anything)

examples:
  pliant run job.yaml                             run it and watch
  pliant run job.yaml --timeout 10m               but no longer than ten minutes
  pliant run job.yaml --nodes 4 --node-cpu 8      on four nodes of eight CPUs each
  pliant run job.yaml > train.log                 logs to a file, progress on the screen
  pliant run job.yaml --set spec.replicaSpecs.worker.replicas=4      with another size
  helm template chart | pliant run -              whatever writes YAML

A line `pliant: step=120 total=1000 loss=0.31` that a program writes shows as its progress.
"""


def configure(parser: ArgumentParser) -> None:
    """Declare the options."""
    from pliant.cli.input.autoscale_options import add_autoscale_options

    parser.epilog = EPILOG
    parser.add_argument("files", nargs="+", metavar="FILE", help="YAML with jobs and what they need; - reads stdin")
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="PATH=VALUE",
        help="set a field of the jobs, as spec.replicaSpecs.worker.replicas=4; may be given several times",
    )
    parser.add_argument("--timeout", type=parse_duration_option, metavar="TIME", help="give up after 90s, 10m, 1h30m…")
    parser.add_argument(
        "--namespace",
        "-n",
        type=parse_namespace_name,
        default="default",
        metavar="NAME",
        help="for objects that name none",
    )
    parser.add_argument("--logs", action=BooleanOptionalAction, default=True, help="show what the jobs write (yes)")
    parser.add_argument("--quiet", "-q", action="store_true", help="only say how it ended")
    parser.add_argument(
        "--workspace",
        type=parse_existing_dir,
        metavar="DIR",
        help="where programs start and what hostPath may show (the folder of FILE)",
    )
    parser.add_argument("--data", type=Path, metavar="DIR", help="keep the cluster's data in this new or empty folder")
    parser.add_argument("--keep", action="store_true", help="do not delete the cluster's data; say where it is")
    add_node_options(parser)
    add_autoscale_options(parser)


def execute(args: Namespace) -> int:
    """Run the files; whatever is wrong with them is told before anything starts."""
    from pliant.cli.cluster.apply import catalog_for_manifests
    from pliant.cli.input.autoscale_options import autoscale_options
    from pliant.cli.input.manifest_checks import check_runnable
    from pliant.cli.input.manifests import load_manifests
    from pliant.cli.input.set_option import with_settings
    from pliant.cli.local.run_session import RunPlan
    from pliant.cli.output.style import TerminalStyle
    from pliant.cli.shutdown import run_until_stopped

    manifests = with_settings(load_manifests(args.files), args.set)
    catalog = catalog_for_manifests(manifests)
    check_runnable(manifests, catalog, args.namespace)
    plan = RunPlan(
        manifests=manifests,
        catalog=catalog,
        namespace=args.namespace,
        timeout=args.timeout,
        style=TerminalStyle.for_stream(sys.stderr),
        autoscale=autoscale_options(args),
    )
    with _data_dir(args) as folder:
        return run_until_stopped(_run_session(args, plan, folder))


@contextmanager
def _data_dir(args: Namespace) -> Iterator[Path]:
    from pliant.cli.input.problems import SourceLocation, input_error
    from pliant.cli.local.run_dir import create_run_dir
    from pliant.errors import UnsupportedEnvironment

    if args.data is None:
        with create_run_dir(keep=args.keep) as folder:
            yield folder
            if args.keep:
                sys.stderr.write(f"the cluster's data is kept in {folder}\n")
        return
    try:
        args.data.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as error:
        raise UnsupportedEnvironment(f"cannot write to {args.data}: {error.strerror}; name another folder") from None
    if any(args.data.iterdir()):
        raise input_error(
            "the folder is not empty", location=SourceLocation(source=str(args.data)), fix="name a new one"
        )
    yield args.data.absolute()


async def _run_session(args: Namespace, plan: RunPlan, data_dir: Path) -> int:
    from pliant.cli.durations import format_duration
    from pliant.cli.local.run_result import SessionResult
    from pliant.cli.shutdown import handle_stop_signals
    from pliant.runtime.log_setup import ErrorNotifier, configure_logging

    loop = asyncio.get_running_loop()
    began = loop.time()
    config = cluster_config(args, data_dir, workspace=_workspace_dir(args), durable=False)
    with handle_stop_signals() as stop:
        view = _make_view(args, stop)
        stop.on_stop = lambda: view.note("stopping…")
        configure_logging(path=data_dir / "pliant.log", extra_handler=ErrorNotifier(view.note))
        view.open()
        try:
            verdict = await _run_jobs(plan, config, view, began)
        except asyncio.CancelledError:
            if stop.received_signal is None:
                raise
            took = format_duration(timedelta(seconds=loop.time() - began))
            verdict = SessionResult(exit_code=stop.exit_code, text=f"{plan.style.red('✘')} interrupted after {took}")
        finally:
            view.close()
    _print_result(verdict.text)
    return verdict.exit_code


async def _run_jobs(plan: RunPlan, config: ClusterConfig, view: RunView, began: float) -> SessionResult:
    from pliant.cli.cluster.progress_receiver import open_embedded_receiver
    from pliant.cli.input.problems import first_pliant_error
    from pliant.cli.local.run_session import RunSession
    from pliant.embedded.cluster import EmbeddedCluster
    from pliant.kube.client import KubeClient

    try:
        async with EmbeddedCluster.start(config) as cluster:
            if cluster.mode.fallback_notice:
                view.note(cluster.mode.fallback_notice)
            client = KubeClient(cluster.transport)
            async with open_embedded_receiver(cluster, client) as desk, asyncio.TaskGroup() as tasks:
                return await RunSession(client, plan, view, tasks, desk).run(began, data_dir=config.data_dir)
    except BaseExceptionGroup as group:
        raise first_pliant_error(group) from group


def _make_view(args: Namespace, stop: StopRequest) -> RunView:
    from pliant.cli.output.run_view import OutputOptions, PlainView

    def hang_up() -> None:
        stop.request(signal.SIGPIPE)

    wishes = OutputOptions(show_logs=args.logs and not args.quiet, show_notes=not args.quiet)
    is_terminal = sys.stdout.isatty() and os.environ.get("TERM") != "dumb"
    if is_terminal and not args.quiet:
        from pliant.cli.output.live_view import LiveView

        return LiveView(sys.stdout, wishes, hang_up)
    return PlainView(sys.stdout, sys.stderr, wishes, hang_up)


def _workspace_dir(args: Namespace) -> Path:
    if args.workspace is not None:
        return Path(args.workspace).absolute()
    first = str(args.files[0])
    return current_dir() if first == "-" else Path(first).absolute().parent


def _print_result(text: str) -> None:
    """The last words; a reader that has gone away is not worth an error."""
    from pliant.cli.output.streams import redirect_to_devnull

    try:
        sys.stdout.flush()
    except OSError:
        redirect_to_devnull(sys.stdout)  # or else the interpreter complains when it flushes at exit
    try:
        sys.stderr.write(f"{text}\n")
        sys.stderr.flush()
    except OSError:
        redirect_to_devnull(sys.stderr)
