"""Where the programs of a control plane are: in the folder `KUBEBUILDER_ASSETS` names, else built and cached."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path

from tests.controlplane.build import KUBERNETES, build, cache_folder, missing
from tests.controlplane.toolchain import version_in

ASSETS = "KUBEBUILDER_ASSETS"
"""By the convention of envtest a folder with at least etcd, kube-apiserver and kubectl."""


def missing_programs(names: Iterable[str], environ: Mapping[str, str] = os.environ) -> list[str]:
    """Which of these programs would have to be built."""
    given, version = _given(list(names), environ)
    lacking = [name for name in names if name not in given]
    return [component.name for component in missing(lacking, cache_folder(environ), version)]


def find_programs(names: Iterable[str], environ: Mapping[str, str] = os.environ) -> dict[str, Path]:
    """Where each of these programs is; what is nowhere is built, in the version of what is given."""
    wanted = list(names)
    given, version = _given(wanted, environ)
    lacking = [name for name in wanted if name not in given]
    folder = build(lacking, cache_folder(environ), version)
    return {name: given.get(name, folder / name) for name in wanted}


def _given(wanted: list[str], environ: Mapping[str, str]) -> tuple[dict[str, Path], str]:
    """The programs among these that somebody provides, and the release that the others must be of."""
    if not (folder := environ.get(ASSETS)):
        return {}, KUBERNETES
    given = {name: path for name in wanted if (path := Path(folder) / name).exists()}
    server = Path(folder) / "kube-apiserver"
    if len(given) == len(wanted) or not server.exists():
        return given, KUBERNETES
    told = subprocess.run([server, "--version"], capture_output=True, text=True, check=True)
    return given, ".".join(map(str, version_in(told.stdout)))
