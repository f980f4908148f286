"""`pliant version`: prints the version."""

from __future__ import annotations

import os
import sys
from argparse import ArgumentParser, Namespace

from pliant import __version__

DESCRIPTION = "Print the version of Pliant, of Python and of the operating system."
EPILOG = ""


def configure(parser: ArgumentParser) -> None:
    parser.add_argument("--short", action="store_true", help="Print only the version number")


def execute(args: Namespace) -> int:
    host = os.uname()
    python = ".".join(str(part) for part in sys.version_info[:3])
    platform = "" if args.short else f" (Python {python}, {host.sysname} {host.release} {host.machine})"
    sys.stdout.write(f"{'' if args.short else 'pliant '}{__version__}{platform}\n")
    return 0
