"""`pliant down`: stops the local cluster."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import sys
from argparse import ArgumentParser, Namespace
from pathlib import Path

from pliant.cli.local.state_dir import ClusterStateDir, RunningCluster
from pliant.cli.shutdown import STOP_NOW_SIGNAL
from pliant.errors import UserError

STOP_TIMEOUT_SECONDS = 20.0  # time that a cluster has to stop, in addition to the grace periods of its pods

DESCRIPTION = "Stop a local cluster. Its data stays for the next `pliant up`, unless --purge is given."
EPILOG = """\
Programs get SIGTERM, and SIGKILL after the terminationGracePeriodSeconds of their pod (30 by default). The next
`pliant up` replaces the pods of jobs; this does not count as a restart.

examples:
  pliant down                 stop the cluster and keep its data
  pliant down --now           kill all programs at once
  pliant down --purge         stop the cluster and delete its data
"""


def configure(parser: ArgumentParser) -> None:
    parser.add_argument("--name", help="Name of the cluster (default)")
    parser.add_argument("--now", action="store_true", help="Do not wait until programs have terminated: kill them")
    parser.add_argument("--purge", action="store_true", help="Also delete its data, except a directory of --data")


def execute(args: Namespace) -> int:
    state_dir = ClusterStateDir.for_cluster(args.name or "default", os.environ)
    if args.name and not state_dir.path.exists():
        raise UserError(_unknown_name_text(args.name))
    running = state_dir.running_cluster()
    if running is not None:
        _stop_process(state_dir, running, is_graceful=not args.now)
        sys.stderr.write(f"cluster `{state_dir.name}` stopped\n")
    else:
        sys.stderr.write(f"cluster `{state_dir.name}` is not running\n")
    if args.purge and state_dir.path.exists():
        with state_dir.lock():
            shutil.rmtree(state_dir.path)
        sys.stderr.write(f"deleted {state_dir.path}\n")
        data_dir = Path(running.kubeconfig).parent if running is not None and running.kubeconfig else state_dir.data_dir
        if data_dir != state_dir.data_dir:
            # A directory given with --data may hold other files of the user.
            sys.stderr.write(f"the data in {data_dir} is not deleted, because --data names that directory\n")
    return 0


def _unknown_name_text(name: str) -> str:
    known = [state_dir.name for state_dir in ClusterStateDir.list_all(os.environ)]
    clusters = f"the clusters of `pliant up` are: {', '.join(known)}" if known else "`pliant up` has not started any"
    return f"--name: there is no cluster `{name}`; {clusters}"


def _stop_process(state_dir: ClusterStateDir, running: RunningCluster, *, is_graceful: bool) -> None:
    """Stop the process of a cluster; never signal another process that has reused the PID."""
    from pliant.cli.local.cluster_stop import wait_for_exit, wait_for_pods_and_exit

    try:
        pidfd = os.pidfd_open(running.pid)
    except ProcessLookupError:
        return
    try:
        # Read the PID again: from here on the pidfd guarantees that it is not reused.
        current = state_dir.running_cluster()
        if current is None or current.pid != running.pid:
            return
        if is_graceful:
            if not current.is_stopping:  # a second signal would end the programs at once
                signal.pidfd_send_signal(pidfd, signal.SIGTERM)
            has_ended = asyncio.run(wait_for_pods_and_exit(pidfd, running, STOP_TIMEOUT_SECONDS))
        else:
            signal.pidfd_send_signal(pidfd, STOP_NOW_SIGNAL)
            has_ended = asyncio.run(wait_for_exit(pidfd, STOP_TIMEOUT_SECONDS))
        if not has_ended:
            signal.pidfd_send_signal(pidfd, signal.SIGKILL)
            asyncio.run(wait_for_exit(pidfd, STOP_TIMEOUT_SECONDS))
    except ProcessLookupError:
        return
    finally:
        os.close(pidfd)
