"""`pliant run`: runs a script, or the jobs of manifest files, on a temporary local cluster."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from argparse import SUPPRESS, ArgumentParser, ArgumentTypeError, BooleanOptionalAction, Namespace
from collections.abc import Coroutine, Iterator
from contextlib import AsyncExitStack, contextmanager
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from pliant.cli.durations import format_duration
from pliant.cli.input.local_cluster_options import (
    add_local_cluster_options,
    add_workspace_option,
    cluster_config,
    current_dir,
    parse_duration_option,
    workspace_of,
)
from pliant.cli.input.problems import SourceLocation, first_pliant_error, input_error
from pliant.cli.linux_only import require_linux
from pliant.cli.output.formats import print_manifests
from pliant.cli.output.streams import redirect_to_devnull
from pliant.cli.output.style import TerminalStyle
from pliant.cli.shutdown import StopSignalHandler, handle_stop_signals, run_with_signals_deferred
from pliant.errors import UnsupportedEnvironment
from pliant.runtime.garbage_collection import collect_no_garbage
from pliant.runtime.log_setup import ErrorNotifier, configure_logging

if TYPE_CHECKING:
    from pliant.cli.local.run_result import RunResult
    from pliant.cli.local.run_session import RunPlan
    from pliant.cli.output.run_view import RunView
    from pliant.embedded.cluster import ClusterConfig

TAKES_PROGRAM_ARGUMENTS = True
DESCRIPTION = "Run a Python script, or the jobs of YAML files, until they finish. The exit code reports how they ended."
EPILOG = """\
The command starts a local cluster without root and without containers: pods are processes of the user, each with its
own IP address and host name. The cluster is deleted when the jobs have finished.

A script (FILE.py) becomes a job: Pliant recognizes its framework by its imports and starts the workers with the
environment of this framework and the `python3` on your PATH. --dry-run prints the job. With --context, --kubeconfig
or --cluster, the job runs on that cluster; the script and the local modules that it imports are sent along.

exit codes:
  0    every job succeeded
  1    a job failed, was deleted, or cannot start
  2    the input is invalid; nothing was started
  3    a job exceeded its timeLimit or startLimit (phase Timeout)
  4    a job ended because its node failed (phase NodeFail)
  5    a job was preempted (phase Preempted)
  124  --timeout expired
  130  interrupted by Ctrl-C (a second Ctrl-C exits immediately)

examples:
  pliant run train.py                             run a script
  pliant run train.py --workers 4 -- --lr 0.1     with four workers; arguments of the script follow `--`
  pliant run train.py --elastic 2..8              with two workers, which may be scaled to eight
  pliant run train.py --workers 4 --dry-run > job.yaml      print the job, to edit and keep it
  pliant run train.py --workers 4 --gpus 1 --context prod --image pytorch/pytorch     run it on a cluster
  pliant run job.yaml                             run a job and show its logs
  pliant run job.yaml --timeout 10m               for at most ten minutes
  pliant run job.yaml --nodes 4 --node-cpu 8      on four nodes with eight CPUs each
  pliant run job.yaml > train.log                 write logs to a file, progress to the terminal
  pliant run job.yaml -q --logs-dir logs          write the log of each replica to a file in logs/
  pliant run job.yaml --set spec.replicaSpecs.worker.replicas=4      with four workers
  helm template chart | pliant run -              read manifests from another program

A program reports its progress by printing lines such as `pliant: step=120 total=1000 loss=0.31`.
"""


def configure(parser: ArgumentParser) -> None:
    from pliant.cli.cluster.target import add_target_options
    from pliant.cli.input.autoscale_options import add_autoscale_options
    from pliant.cli.output.formats import add_dry_run_options
    from pliant.cli.script.options import add_script_options

    files_help = "Python script, or YAML files with jobs and the objects they need; - reads YAML from standard input"
    parser.add_argument("files", nargs="+", metavar="FILE", help=files_help)
    # Without it, argparse takes `-m` for a part of the option `-max_load_desired`.
    parser.add_argument("-m", type=_reject_module, help=SUPPRESS)
    set_help = "Set a field of the jobs, such as spec.replicaSpecs.worker.replicas=4; can be repeated"
    parser.add_argument("--set", action="append", default=[], metavar="PATH=VALUE", help=set_help)
    timeout_help = "Stop the run after this time, such as 90s or 10m"
    parser.add_argument("--timeout", type=parse_duration_option, metavar="TIME", help=timeout_help)
    parser.add_argument("--logs", action=BooleanOptionalAction, default=True, help="Show the logs of the jobs (yes)")
    parser.add_argument("--quiet", "-q", action="store_true", help="Print only the result")
    logs_dir_help = "Directory for the complete log of each replica: worker-0.log, worker-0.1.log after a restart"
    parser.add_argument("--logs-dir", type=Path, metavar="DIR", help=logs_dir_help)
    add_workspace_option(parser)
    parser.add_argument("--data", type=Path, metavar="DIR", help="New or empty directory for the data of the cluster")
    parser.add_argument("--keep", action="store_true", help="Keep the data of the cluster and print its location")
    add_dry_run_options(parser)
    add_script_options(parser)
    ship_help = "Send the script and the local modules that it imports to the cluster (yes)"
    target = add_target_options(parser)
    target.add_argument("--ship", action=BooleanOptionalAction, default=True, help=ship_help)
    target.add_argument("--replace", action="store_true", help="Delete a job of the same name on the cluster first")
    add_local_cluster_options(parser)
    add_autoscale_options(parser)


def _reject_module(name: str) -> NoReturn:
    fix = f"write the path of its file, and arguments of the script after `--`: pliant run FILE.py -- -m {name}"
    raise ArgumentTypeError(f"modules cannot be run by name; {fix}")


def execute(args: Namespace) -> int | Coroutine[Any, Any, int]:
    if args.kubeconfig or args.context or args.cluster or args.dry_run == "server":
        from pliant.cli.script.submission import run_on_cluster

        return run_on_cluster(args)
    with collect_no_garbage():
        plan = _read_plan(args)
    if args.dry_run:
        print_manifests(args.output, [manifest.raw for manifest in plan.manifests])
        return 0
    require_linux("run")
    with _data_dir(args) as data_dir:
        return run_with_signals_deferred(_run_session(args, plan, data_dir))


def _read_plan(args: Namespace) -> RunPlan:
    """Read and check the files; raise `InvalidInput` for what a cluster would reject."""
    from pliant.cli.cluster.apply import kind_registry_for_manifests
    from pliant.cli.input.autoscale_options import autoscale_options
    from pliant.cli.input.manifest_checks import check_runnable_locally
    from pliant.cli.local.replica_log_files import ReplicaLogFiles
    from pliant.cli.local.run_session import RunPlan
    from pliant.cli.script.options import load_job_input

    namespace = args.namespace or "default"
    job_input = load_job_input(args)
    catalog = kind_registry_for_manifests(job_input.manifests)
    check_runnable_locally(job_input.manifests, catalog, namespace)
    return RunPlan(
        manifests=job_input.manifests,
        kind_registry=catalog,
        namespace=namespace,
        timeout=args.timeout,
        style=TerminalStyle.for_stream(sys.stderr),
        autoscale=autoscale_options(args),
        notes=job_input.notes,
        log_files=ReplicaLogFiles(args.logs_dir.absolute()) if args.logs_dir else None,
    )


@contextmanager
def _data_dir(args: Namespace) -> Iterator[Path]:
    from pliant.cli.local.run_dir import create_run_dir

    if args.data is None:
        with create_run_dir(keep=args.keep) as directory:
            yield directory
            if args.keep:
                sys.stderr.write(f"the data of the cluster is kept in {directory}\n")
        return
    try:
        args.data.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as error:
        raise UnsupportedEnvironment(f"--data: cannot write to {args.data}: {error.strerror}") from None
    if any(args.data.iterdir()):
        location = SourceLocation(source=str(args.data))
        raise input_error("the directory is not empty", location=location, fix="choose a new one")
    yield args.data.absolute()


async def _run_session(args: Namespace, plan: RunPlan, data_dir: Path) -> int:
    from pliant.cli.local.run_result import RunResult

    loop = asyncio.get_running_loop()
    started_at = loop.time()
    config = cluster_config(args, data_dir, workspace=workspace_of(args) or current_dir(), durable=False)
    with handle_stop_signals() as stop:
        view = _make_view(args, stop)
        stop.on_stop = lambda: view.show_note("stopping…")
        configure_logging(path=data_dir / "pliant.log", extra_handler=ErrorNotifier(view.show_note))
        view.open()
        for note in plan.notes:
            view.show_note(note)
        try:
            result = await _run_jobs(plan, config, view, started_at)
        except asyncio.CancelledError:
            if stop.received_signal is None:
                raise
            elapsed = format_duration(timedelta(seconds=loop.time() - started_at))
            result = RunResult(exit_code=stop.exit_code, text=f"{plan.style.red('✘')} interrupted after {elapsed}")
        finally:
            view.close()
    problem = plan.log_files.problem if plan.log_files else ""
    _print_result("\n".join(filter(None, (result.text, problem))))
    return result.exit_code


async def _run_jobs(plan: RunPlan, config: ClusterConfig, view: RunView, started_at: float) -> RunResult:
    from pliant.cli.cluster.apply import frontends_in
    from pliant.cli.cluster.local_operator import create_operator_client
    from pliant.cli.cluster.progress_receiver import open_embedded_receiver, read_embedded_secret
    from pliant.cli.local.run_session import OperatorSetup, RunSession
    from pliant.embedded.cluster import EmbeddedCluster
    from pliant.kube.client import KubeClient

    try:
        async with AsyncExitStack() as stack:
            with collect_no_garbage():
                cluster = await stack.enter_async_context(EmbeddedCluster.start(config))
            if cluster.mode.fallback_notice:
                view.show_note(cluster.mode.fallback_notice)
            client = KubeClient(cluster.transport)
            secret = await read_embedded_secret(client)
            operator_client = await create_operator_client(cluster, client, frontends_in(plan.manifests))
            async with (
                open_embedded_receiver(cluster, operator_client, secret) as receiver,
                asyncio.TaskGroup() as tasks,
            ):
                session = RunSession(client, OperatorSetup(operator_client, secret, receiver), plan, view, tasks)
                return await session.run_jobs(started_at, data_dir=config.data_dir)
    except BaseExceptionGroup as group:
        raise first_pliant_error(group) from group


def _make_view(args: Namespace, stop: StopSignalHandler) -> RunView:
    from pliant.cli.output.run_view import PlainRunView, RunOutputOptions

    def hang_up() -> None:
        stop.handle_signal(signal.SIGPIPE)

    options = RunOutputOptions(show_logs=args.logs and not args.quiet, show_notes=not args.quiet)
    is_terminal = sys.stdout.isatty() and os.environ.get("TERM") != "dumb"
    if is_terminal and not args.quiet:
        from pliant.cli.output.live_view import LiveRunView

        return LiveRunView(sys.stdout, options, hang_up)
    return PlainRunView(sys.stdout, sys.stderr, options, hang_up)


def _print_result(text: str) -> None:
    """Print the last lines; ignore a reader that has gone away."""

    for stream, output in ((sys.stdout, ""), (sys.stderr, f"{text}\n")):
        try:
            stream.write(output)
            stream.flush()
        except OSError:
            redirect_to_devnull(stream)  # otherwise the interpreter fails when it flushes at exit
