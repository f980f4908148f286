"""`pliant down`: stop the cluster that `pliant up` started."""

from __future__ import annotations

import os
import select
import shutil
import signal
import sys
from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pliant.cli.local.state_dir import ClusterStateDir, RunningCluster

STOP_TIMEOUT_MS = 20_000
"""How long a cluster may take to stop its pods in good order."""

EPILOG = """\
examples:
  pliant down                 stop it; its data waits for the next `pliant up`
  pliant down --purge         stop it and delete its data
"""


def configure(parser: ArgumentParser) -> None:
    """Declare the options."""
    parser.epilog = EPILOG
    parser.add_argument("--name", default="default", help="which cluster (default)")
    parser.add_argument("--purge", action="store_true", help="delete its data too, unless --data put it elsewhere")


def execute(args: Namespace) -> int:
    """Stop the cluster and wait until it is gone."""
    from pliant.cli.local.state_dir import ClusterStateDir

    home = ClusterStateDir.for_cluster(args.name, os.environ)
    running = home.running_cluster()
    if running is not None:
        _stop_process(home, running)
        sys.stderr.write(f"cluster `{home.name}` is down\n")
    else:
        sys.stderr.write(f"cluster `{home.name}` is not running\n")
    if args.purge and home.path.exists():
        with home.lock():
            shutil.rmtree(home.path)
        sys.stderr.write(f"deleted {home.path}\n")
        elsewhere = Path(running.kubeconfig).parent if running is not None and running.kubeconfig else home.data_dir
        if elsewhere != home.data_dir:
            # Named by --data, it may hold what is not ours.
            sys.stderr.write(f"its data is in {elsewhere}, a folder of yours, and stays; delete it when you like\n")
    return 0


def _stop_process(state_dir: ClusterStateDir, running: RunningCluster) -> None:
    """Ask the process to end, and insist if it does not; a process that merely has its number is left alone."""
    try:
        process = os.pidfd_open(running.pid)
    except ProcessLookupError:
        return
    try:
        # Read again now that the process is held: the number cannot have passed to another one in between.
        now = state_dir.running_cluster()
        if now is None or now.pid != running.pid:
            return
        for number in (signal.SIGTERM, signal.SIGKILL):
            signal.pidfd_send_signal(process, number)
            if _has_ended(process):
                return
    except ProcessLookupError:
        return
    finally:
        os.close(process)


def _has_ended(pidfd: int) -> bool:
    waiting = select.poll()
    waiting.register(pidfd, select.POLLIN)
    return bool(waiting.poll(STOP_TIMEOUT_MS))
