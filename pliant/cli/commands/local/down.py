"""`pliant down`: stops the local cluster."""

from __future__ import annotations

import os
import select
import shutil
import signal
import sys
from argparse import ArgumentParser, Namespace
from pathlib import Path

from pliant.cli.local.state_dir import ClusterStateDir, RunningCluster

STOP_TIMEOUT_MS = 20_000  # time that a cluster has to stop its pods gracefully

DESCRIPTION = "Stop a local cluster. Its data stays for the next `pliant up`, unless --purge is given."
EPILOG = """\
examples:
  pliant down                 stop the cluster and keep its data
  pliant down --purge         stop the cluster and delete its data
"""


def configure(parser: ArgumentParser) -> None:
    parser.add_argument("--name", default="default", help="Name of the cluster (default)")
    parser.add_argument("--purge", action="store_true", help="Also delete its data, except a directory of --data")


def execute(args: Namespace) -> int:
    state_dir = ClusterStateDir.for_cluster(args.name, os.environ)
    running = state_dir.running_cluster()
    if running is not None:
        _stop_process(state_dir, running)
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


def _stop_process(state_dir: ClusterStateDir, running: RunningCluster) -> None:
    """Send SIGTERM, then SIGKILL; never signal another pidfd that has reused the PID."""
    try:
        pidfd = os.pidfd_open(running.pid)
    except ProcessLookupError:
        return
    try:
        # Read the PID again: from here on the pidfd guarantees that it is not reused.
        current = state_dir.running_cluster()
        if current is None or current.pid != running.pid:
            return
        for signal_number in (signal.SIGTERM, signal.SIGKILL):
            signal.pidfd_send_signal(pidfd, signal_number)
            poll = select.poll()
            poll.register(pidfd, select.POLLIN)
            if poll.poll(STOP_TIMEOUT_MS):
                return
    except ProcessLookupError:
        return
    finally:
        os.close(pidfd)
