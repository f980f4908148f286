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

from pliant.cli.cluster_options import add_node_options, cluster_config, duration, folder, here, namespace_name

if TYPE_CHECKING:
    from pliant.cli.session import Plan
    from pliant.cli.stopping import Stop
    from pliant.cli.verdict import Verdict
    from pliant.cli.view import View
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
    from pliant.cli.autoscale_options import add_autoscale_options

    parser.epilog = EPILOG
    parser.add_argument(
        "files", nargs="+", metavar="FILE", help="YAML with jobs and what they need; - reads stdin"
    )
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="PATH=VALUE",
        help="set a field of the jobs, as spec.replicaSpecs.worker.replicas=4; may be given several times",
    )
    parser.add_argument("--timeout", type=duration, metavar="TIME", help="give up after 90s, 10m, 1h30m…")
    parser.add_argument(
        "--namespace",
        "-n",
        type=namespace_name,
        default="default",
        metavar="NAME",
        help="for objects that name none",
    )
    parser.add_argument(
        "--logs", action=BooleanOptionalAction, default=True, help="show what the jobs write (yes)"
    )
    parser.add_argument("--quiet", "-q", action="store_true", help="only say how it ended")
    parser.add_argument(
        "--workspace",
        type=folder,
        metavar="DIR",
        help="where programs start and what hostPath may show (the folder of FILE)",
    )
    parser.add_argument(
        "--data", type=Path, metavar="DIR", help="keep the cluster's data in this new or empty folder"
    )
    parser.add_argument("--keep", action="store_true", help="do not delete the cluster's data; say where it is")
    add_node_options(parser)
    add_autoscale_options(parser)


def execute(args: Namespace) -> int:
    """Run the files; whatever is wrong with them is told before anything starts."""
    from pliant.cli.apply import served_catalog
    from pliant.cli.autoscale_options import autoscale_of
    from pliant.cli.checks import check
    from pliant.cli.manifests import load
    from pliant.cli.session import Plan
    from pliant.cli.setting import with_settings
    from pliant.cli.stopping import run_till_stopped
    from pliant.cli.style import Style

    manifests = with_settings(load(args.files), args.set)
    catalog = served_catalog(manifests)
    check(manifests, catalog, args.namespace)
    plan = Plan(
        manifests=manifests,
        catalog=catalog,
        namespace=args.namespace,
        timeout=args.timeout,
        style=Style.of(sys.stderr),
        autoscale=autoscale_of(args),
    )
    with _data_folder(args) as folder:
        return run_till_stopped(_run(args, plan, folder))


@contextmanager
def _data_folder(args: Namespace) -> Iterator[Path]:
    from pliant.cli.problems import Place, refuse
    from pliant.cli.scratch import scratch_folder
    from pliant.errors import NotPossibleHere

    if args.data is None:
        with scratch_folder(keep=args.keep) as folder:
            yield folder
            if args.keep:
                sys.stderr.write(f"the cluster's data is kept in {folder}\n")
        return
    try:
        args.data.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as error:
        raise NotPossibleHere(f"cannot write to {args.data}: {error.strerror}; name another folder") from None
    if any(args.data.iterdir()):
        raise refuse("the folder is not empty", place=Place(source=str(args.data)), fix="name a new one")
    yield args.data.absolute()


async def _run(args: Namespace, plan: Plan, folder: Path) -> int:
    from pliant.cli.durations import duration_text
    from pliant.cli.stopping import stopping
    from pliant.cli.verdict import Verdict
    from pliant.runtime.logformat import ErrorNotes, write_log

    loop = asyncio.get_running_loop()
    began = loop.time()
    config = cluster_config(args, folder, workspace=_workspace(args), durable=False)
    with stopping() as stop:
        view = _view(args, stop)
        stop.on_stop = lambda: view.note("stopping…")
        write_log(to=folder / "pliant.log", also=ErrorNotes(view.note))
        view.open()
        try:
            verdict = await _verdict(plan, config, view, began)
        except asyncio.CancelledError:
            if stop.asked_by is None:
                raise
            took = duration_text(timedelta(seconds=loop.time() - began))
            verdict = Verdict(code=stop.exit_code, text=f"{plan.style.red('✘')} interrupted after {took}")
        finally:
            view.close()
    _say(verdict.text)
    return verdict.code


async def _verdict(plan: Plan, config: ClusterConfig, view: View, began: float) -> Verdict:
    from pliant.cli.problems import first_error
    from pliant.cli.reporting import desk_for_pods
    from pliant.cli.session import Session
    from pliant.embedded.cluster import EmbeddedCluster
    from pliant.kube.client import KubeClient

    try:
        async with EmbeddedCluster.started(config) as cluster:
            if cluster.mode.notice:
                view.note(cluster.mode.notice)
            client = KubeClient(cluster.transport)
            async with desk_for_pods(cluster, client) as desk, asyncio.TaskGroup() as tasks:
                return await Session(client, plan, view, tasks, desk).verdict(began, data=config.data)
    except BaseExceptionGroup as group:
        raise first_error(group) from group


def _view(args: Namespace, stop: Stop) -> View:
    from pliant.cli.view import PlainView, Wishes

    def hang_up() -> None:
        stop.request(signal.SIGPIPE)

    wishes = Wishes(logs=args.logs and not args.quiet, notes=not args.quiet)
    is_terminal = sys.stdout.isatty() and os.environ.get("TERM") != "dumb"
    if is_terminal and not args.quiet:
        from pliant.cli.live import LiveView

        return LiveView(sys.stdout, wishes, hang_up)
    return PlainView(sys.stdout, sys.stderr, wishes, hang_up)


def _workspace(args: Namespace) -> Path:
    if args.workspace is not None:
        return Path(args.workspace).absolute()
    first = str(args.files[0])
    return here() if first == "-" else Path(first).absolute().parent


def _say(text: str) -> None:
    """The last words; a reader that has gone away is not worth an error."""
    from pliant.cli.streams import silence

    try:
        sys.stdout.flush()
    except OSError:
        silence(sys.stdout)  # or else the interpreter complains when it flushes at exit
    try:
        sys.stderr.write(f"{text}\n")
        sys.stderr.flush()
    except OSError:
        silence(sys.stderr)
