"""`pliant version`: which Pliant this is, and on what it runs."""

from __future__ import annotations

import os
import sys
from argparse import ArgumentParser, Namespace

from pliant import __version__


def configure(parser: ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("--short", action="store_true", help="print the number alone")


def execute(args: Namespace) -> int:
    """Print the version."""
    host = os.uname()
    python = ".".join(str(part) for part in sys.version_info[:3])
    about = "" if args.short else f" (Python {python}, {host.sysname} {host.release} {host.machine})"
    sys.stdout.write(f"{'' if args.short else 'pliant '}{__version__}{about}\n")
    return 0
