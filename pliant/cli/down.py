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
    from pliant.cli.home import Home, Running

PATIENCE_MS = 20_000
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
    from pliant.cli.home import Home

    home = Home.of(args.name, os.environ)
    running = home.running()
    if running is not None:
        _stop(home, running)
        sys.stderr.write(f"cluster `{home.name}` is down\n")
    else:
        sys.stderr.write(f"cluster `{home.name}` is not running\n")
    if args.purge and home.folder.exists():
        with home.held():
            shutil.rmtree(home.folder)
        sys.stderr.write(f"deleted {home.folder}\n")
        elsewhere = Path(running.kubeconfig).parent if running is not None and running.kubeconfig else home.data
        if elsewhere != home.data:
            # Named by --data, it may hold what is not ours.
            sys.stderr.write(
                f"its data is in {elsewhere}, a folder of yours, and stays; delete it when you like\n"
            )
    return 0


def _stop(home: Home, running: Running) -> None:
    """Ask the process to end, and insist if it does not; a process that merely has its number is left alone."""
    try:
        process = os.pidfd_open(running.pid)
    except ProcessLookupError:
        return
    try:
        # Read again now that the process is held: the number cannot have passed to another one in between.
        now = home.running()
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


def _has_ended(process: int) -> bool:
    waiting = select.poll()
    waiting.register(process, select.POLLIN)
    return bool(waiting.poll(PATIENCE_MS))
