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

from pliant.cli.cluster_options import add_node_options, cluster_config, folder, here, port
from pliant.cli.home import Home, Running, owned
from pliant.errors import NotPossibleHere

if TYPE_CHECKING:
    from pliant.cli.daemon import Tell
    from pliant.cli.home import Claim
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
    from pliant.cli.autoscale_options import add_autoscale_options
    from pliant.cli.operator_options import add_patience_options, add_plan_options

    parser.epilog = EPILOG
    parser.add_argument("--name", default="default", help="which cluster (default)")
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--detach", "-d", action="store_true", help="go into the background (it does so anyway)")
    where.add_argument("--foreground", action="store_true", help="do not go into the background")
    parser.add_argument(
        "--data", type=Path, metavar="DIR", help="where it keeps its data (below ~/.local/share/pliant)"
    )
    parser.add_argument("--no-operator", action="store_true", help="only the cluster: nobody runs the jobs")
    parser.add_argument("--port", type=port, default=0, metavar="N", help="of the API on 127.0.0.1 (any free one)")
    parser.add_argument(
        "--workspace",
        type=folder,
        metavar="DIR",
        help="where programs start and what hostPath may show (this folder)",
    )
    add_node_options(parser)
    add_patience_options(parser)
    add_plan_options(parser)
    add_autoscale_options(parser)


def execute(args: Namespace) -> int:
    """Start the cluster, unless it is up already; then say how to use it."""
    from pliant.cli.daemon import start_detached

    home = Home.of(args.name, os.environ)
    running = home.running()
    if running is not None:
        return _say_already(home, running, _changes(args))
    if args.foreground:
        return _serve(args, home, lambda told: _say_up(home, told))
    with home.held():
        pass  # makes the folder, and says so early if it cannot be written
    _say_up(home, start_detached(lambda tell: _serve(args, home, tell), home.log))
    return 0


def _serve(args: Namespace, home: Home, tell: Tell) -> int:
    from pliant.cli.stopping import run_till_stopped
    from pliant.runtime.logformat import write_log

    with home.held() as claim:
        write_log(to=None if args.foreground else home.log)
        data = args.data.absolute() if args.data else home.data
        config = cluster_config(
            args, data, workspace=(args.workspace or here()).absolute(), durable=True, port=args.port
        )
        with owned(data):
            return run_till_stopped(_stay_up(args, config, claim, tell))


async def _stay_up(args: Namespace, config: ClusterConfig, claim: Claim, tell: Tell) -> int:
    """Run the cluster until a signal comes."""
    from pliant.cli.problems import first_error
    from pliant.cli.stopping import stopping
    from pliant.embedded.cluster import EmbeddedCluster
    from pliant.runtime.clock import SystemClock

    with stopping() as stop:
        try:
            async with AsyncExitStack() as stack:
                cluster = await stack.enter_async_context(EmbeddedCluster.started(config))
                await _prepare(args, cluster, stack)
                since = SystemClock().now().isoformat(timespec="seconds")
                mode, kubeconfig = cluster.mode, str(cluster.kubeconfig)
                running = Running(pid=os.getpid(), url=cluster.url, kubeconfig=kubeconfig, since=since)
                claim.tell(replace(running, network=mode.name))
                tell({"url": cluster.url, "kubeconfig": kubeconfig, "notice": mode.notice})
                await asyncio.Event().wait()
        except asyncio.CancelledError:
            if stop.asked_by is None:
                raise
        except BaseExceptionGroup as group:
            raise first_error(group) from group
        except OSError as error:
            raise _explained(error, args.port) from error
    return 0


def _explained(error: OSError, port: int) -> Exception:
    """What is wrong with the port that was asked for, if it is that."""
    what = {errno.EADDRINUSE: "is in use by another program", errno.EACCES: "is not for ordinary users"}
    if not port or error.errno not in what:
        return error
    return NotPossibleHere(f"port {port} of 127.0.0.1 {what[error.errno]}; name another, or leave --port out")


async def _prepare(args: Namespace, cluster: EmbeddedCluster, stack: AsyncExitStack) -> None:
    """Teach the cluster our kinds, and set the operator to work on them."""
    from pliant.cli.apply import install_crds
    from pliant.cli.autoscale_options import autoscale_of
    from pliant.cli.operator_options import rules_of
    from pliant.cli.reporting import desk_for_pods
    from pliant.controllers.operator import Operator
    from pliant.kube.client import KubeClient
    from pliant.runtime.clock import SystemClock

    client = KubeClient(cluster.transport)
    await install_crds(client)
    if not args.no_operator:
        desk = await stack.enter_async_context(desk_for_pods(cluster, client))
        scaling = autoscale_of(args)
        operator = Operator(client, SystemClock(), rules=rules_of(args), reports=desk, autoscale=scaling)
        tasks = await stack.enter_async_context(asyncio.TaskGroup())
        tasks.create_task(operator.run())
        await operator.wait_ready()


def _say_up(home: Home, told: dict[str, Any]) -> None:
    if told["notice"]:
        sys.stderr.write(f"{told['notice']}\n")
    _say(f"cluster `{home.name}` is up at {told['url']}", told["kubeconfig"], home)


def _changes(args: Namespace) -> bool:
    """Whether anything but the name was asked for."""
    usual = ArgumentParser()
    configure(usual)
    plain = vars(usual.parse_args(["--name", args.name]))
    return any(value != plain[option] for option, value in vars(args).items() if option not in ("detach",))


def _say_already(home: Home, running: Running, is_ignored: bool) -> int:
    if not running.url:
        sys.stderr.write(f"cluster `{home.name}` is coming up already (process {running.pid})\n")
        return 1
    what = f"cluster `{home.name}` is up already at {running.url} (process {running.pid})"
    if is_ignored:
        what += (
            "\nwhat you ask for now counts when it is started anew: `pliant down` first, or choose another --name"
        )
    _say(what, running.kubeconfig, home)
    return 0


def _say(what: str, kubeconfig: str, home: Home) -> None:
    down = "pliant down" if home.name == "default" else f"pliant down --name {home.name}"
    gap = "\n" if sys.stdout.isatty() else ""  # nothing stands between the lines when a shell takes the export
    sys.stderr.write(f"{what}\n{gap}")
    sys.stderr.flush()
    sys.stdout.write(f"export KUBECONFIG={shlex.quote(kubeconfig)}\n")
    sys.stdout.flush()
    sys.stderr.write(
        f"{gap}Then: pliant submit job.yaml, pliant get, pliant logs JOB -f, pliant why JOB; or kubectl.\n"
        f"Stop it with `{down}`; its log is {home.log}.\n"
    )
