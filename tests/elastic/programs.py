"""Training programs in processes of their own."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).parents[2]
ELASTIC_VARIABLES = ("DLROVER_MASTER_ADDR", "PLIANT_REPORT_URL", "PLIANT_REPORT_TOKEN", "RANK", "WORLD_SIZE")


def program_environment(**variables: str) -> dict[str, str]:
    env = {name: value for name, value in os.environ.items() if name not in ELASTIC_VARIABLES}
    return {**env, "PYTHONPATH": str(ROOT), **variables}


def start_program(
    script: str, *, launcher: Sequence[str] = (), directory: str = "/nonexistent", **variables: str
) -> subprocess.Popen[str]:
    """Start a program below a launcher, which gets the command as its arguments."""
    place = f"elastic.RUN_DIRECTORY = {directory!r}"
    command = [*launcher, sys.executable, "-c", f"from pliant import elastic\n{place}\n{script}"]
    env = program_environment(**variables)
    return subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def run_program(script: str, **variables: str) -> str:
    """Return the output of a program that succeeds without writing errors."""
    process = start_program(script, launcher=(), directory="/nonexistent", **variables)
    out, err = process.communicate(timeout=30)
    assert (process.returncode, err) == (0, ""), err
    return out


def read_line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()
