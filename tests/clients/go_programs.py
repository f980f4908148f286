"""The programs in Go: those of this folder and Helm, built once and readable by every user."""

from __future__ import annotations

import os
import shutil
import tempfile
from hashlib import blake2b
from pathlib import Path

import pytest

from tests.controlplane.build import Component, build_components, cache_folder, locked
from tests.controlplane.progress import print_progress, run_with_progress
from tests.controlplane.toolchain import environment, find_go

SOURCES = Path(__file__).with_name("go")
PROGRAMS = ("clientset", "manager", "roundtrip")
GO_VERSION = (1, 26, 0)
_HELM_MODULE = "helm.sh/helm/v4"
HELM = Component(
    name="helm",
    module=_HELM_MODULE,
    package=f"{_HELM_MODULE}/cmd/helm",
    version="4.3.1",
    stamps={f"{_HELM_MODULE}/internal/version.version": "v4.3.1"},
)


def programs_folder() -> Path:
    """Return the folder of the programs; its name follows from their sources."""
    content = b"".join(path.read_bytes() for path in sorted(SOURCES.rglob("*")) if path.is_file())
    return _folder() / f"go-{blake2b(content, digest_size=6).hexdigest()}"


def build_programs() -> None:
    """Build what is missing; raise `BuildError` with the last output of Go."""
    cache = cache_folder(os.environ)
    build_components([HELM], _folder(), cache)
    target = programs_folder()
    if target.exists():
        return
    with locked(_folder()), tempfile.TemporaryDirectory(dir=_folder(), prefix=".building-") as scratch:
        go = find_go(GO_VERSION, cache)
        print_progress("building the programs of tests/clients/go (once)…")
        work = shutil.copytree(SOURCES, Path(scratch) / "sources")
        built = Path(scratch) / "built"
        environ = {**environment(go), "GOFLAGS": "-mod=readonly -buildvcs=false"}
        command: list[str | Path] = [
            "nice",
            "-n",
            "19",
            go,
            "build",
            "-trimpath",
            "-ldflags",
            "-s -w",
            "-o",
            f"{built}/",
        ]
        run_with_progress("tests/clients/go", [*command, *(f"./{name}" for name in PROGRAMS)], work, environ)
        for outdated in _folder().glob("go-*"):
            shutil.rmtree(outdated)
        built.chmod(0o755)
        built.rename(target)


def require_program(name: str) -> Path:
    """Return the path of a program; skip the test if it is not built."""
    path = _folder() / name if name == HELM.name else programs_folder() / name
    if not path.exists():
        pytest.skip(f"{name} is not built: run `python -m tests.clients`")
    return path


def _folder() -> Path:
    return cache_folder(os.environ) / "clients"
