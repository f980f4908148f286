"""`scripts/kube`: builds, starts and stops real control planes."""

from __future__ import annotations

import os
import select
import shlex
import signal
import sys
from argparse import ArgumentParser, Namespace, RawDescriptionHelpFormatter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

from pliant.cli.local.daemon import NotifyReady, start_detached
from pliant.cli.local.state_dir import ClusterStateDir, RunningCluster
from pliant.errors import PliantError
from tests.controlplane.build import KUBERNETES, build, cache_folder, components, folder_of
from tests.controlplane.cluster import API_SERVER, CONTROLLERS, ETCD, KWOK, SCHEDULER, started
from tests.controlplane.programs import ASSETS, find_programs
from tests.controlplane.progress import BuildError, print_progress

GIVEN = "PLIANT_TEST_KUBECONFIG"
"""Names a cluster that is there already; then none is started."""
PATIENCE_MS = 20_000
EPILOG = """\
examples:
  eval "$(scripts/kube up)"         start one, and let kubectl talk to it
  scripts/kube up --owner $$        the same, ending with this shell
  scripts/kube down                 stop it; nothing is left
  scripts/kube build                only build what it needs: once, about 15 minutes on two cores
  eval "$(scripts/kube env)"        KUBECONFIG of a running one, and the folder of the programs
"""


class _Stopped(Exception):
    """Somebody asked us to end."""


def main(words: list[str]) -> int:
    """Do what the command line says."""
    args = _parser().parse_args(words)
    try:
        return int(args.execute(args))
    except (BuildError, PliantError) as problem:
        print_progress(f"scripts/kube: {problem}")
        return 1


def _parser() -> ArgumentParser:
    parser = ArgumentParser(
        "scripts/kube", description=__doc__, epilog=EPILOG, formatter_class=RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(required=True, metavar="build | up | down | env | cache")
    building = commands.add_parser("build", help="build what is missing and print the folder it is in")
    building.add_argument("names", nargs="*", metavar="PROGRAM", help=f"of {', '.join(components())} (all)")
    building.add_argument("--version", default=KUBERNETES, help=f"of Kubernetes ({KUBERNETES})")
    building.set_defaults(execute=_build)
    starting = commands.add_parser("up", help="start a control plane and print how to reach it")
    starting.add_argument("--scheduler", action="store_true", help="with kube-scheduler")
    starting.add_argument("--kwok", action="store_true", help="with KWOK, which plays nodes that ask for it")
    starting.add_argument("--foreground", action="store_true", help="stay until Ctrl-C")
    starting.add_argument("--owner", type=int, metavar="PID", help="end when that process does")
    starting.set_defaults(execute=_up)
    for name, execute, purpose in (("down", _down, "stop it"), ("env", _env, "print how to reach it")):
        commands.add_parser(name, help=purpose).set_defaults(execute=execute)
    commands.add_parser("cache", help="print where programs are kept").set_defaults(execute=_cache)
    for each in ("up", "down", "env"):
        commands.choices[each].add_argument("--name", default="default", help="which control plane (default)")
    return parser


def _build(args: Namespace) -> int:
    known = components(args.version)
    if unknown := set(args.names) - known.keys():
        raise BuildError(f"unknown: {', '.join(sorted(unknown))}; there are {', '.join(known)}")
    sys.stdout.write(f"{build(args.names or known, cache_folder(os.environ), args.version)}\n")
    return 0


def _cache(args: Namespace) -> int:
    sys.stdout.write(f"{cache_folder(os.environ)}\n")
    return 0


def _up(args: Namespace) -> int:
    if given := os.environ.get(GIVEN):
        print_progress(f"{GIVEN} names a cluster: nothing is started")
        return _export(KUBECONFIG=given)
    home = _home(args.name)
    running = home.running_cluster()
    if running is not None and running.kubeconfig:
        print_progress(f"control plane `{args.name}` is up already at {running.url}")
        return _export(KUBECONFIG=running.kubeconfig)
    # Here, where its progress is seen.
    optional = {SCHEDULER: args.scheduler, KWOK: args.kwok}
    find_programs([ETCD, API_SERVER, CONTROLLERS, *(name for name, is_wanted in optional.items() if is_wanted)])
    if args.foreground:
        return _serve(args, home, lambda told: _print_started(args.name, told))
    with home.lock():
        pass
    _print_started(args.name, start_detached(lambda tell: _serve(args, home, tell), home.log_file))
    return 0


def _serve(args: Namespace, home: ClusterStateDir, tell: NotifyReady) -> int:
    """Run a control plane until a signal comes or its owner goes."""
    with home.lock() as claim, _raise_on_signal(), started(scheduler=args.scheduler) as plane:
        if args.kwok:
            plane.start_kwok()
        told = {"url": plane.url, "kubeconfig": str(plane.kubeconfig)}
        claim.publish(RunningCluster(pid=os.getpid(), url=told["url"], kubeconfig=told["kubeconfig"]))
        tell(told)
        if args.owner is None:
            signal.pause()
        else:
            select.select([os.pidfd_open(args.owner)], [], [])
    return 0


@contextmanager
def _raise_on_signal() -> Iterator[None]:
    def stop(number: int, frame: FrameType | None) -> None:
        for each in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(each, signal.SIG_IGN)
        raise _Stopped

    for each in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(each, stop)
    try:
        yield
    except _Stopped:
        return


def _down(args: Namespace) -> int:
    home = _home(args.name)
    running = home.running_cluster()
    if running is None:
        print_progress(f"control plane `{args.name}` is not running")
        return 0
    process = os.pidfd_open(running.pid)
    signal.pidfd_send_signal(process, signal.SIGTERM)
    if not select.select([process], [], [], PATIENCE_MS / 1000)[0]:
        signal.pidfd_send_signal(process, signal.SIGKILL)
    print_progress(f"control plane `{args.name}` is down")
    return 0


def _env(args: Namespace) -> int:
    found = {ASSETS: os.environ.get(ASSETS) or str(folder_of(cache_folder(os.environ)))}
    running = _home(args.name).running_cluster()
    if kubeconfig := os.environ.get(GIVEN) or (running.kubeconfig if running else ""):
        found["KUBECONFIG"] = kubeconfig
    return _export(**found)


def _print_started(name: str, told: dict[str, str]) -> None:
    print_progress(f"control plane `{name}` is up at {told['url']}")
    _export(KUBECONFIG=told["kubeconfig"])


def _export(**variables: str) -> int:
    for name, value in variables.items():
        sys.stdout.write(f"export {name}={shlex.quote(value)}\n")
    sys.stdout.flush()
    return 0


def _home(name: str) -> ClusterStateDir:
    states = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state")
    return ClusterStateDir.for_cluster(name, {"PLIANT_HOME": str(states / "pliant" / "kube")})


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
