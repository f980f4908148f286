"""Where the programs of a control plane are: in the folder `KUBEBUILDER_ASSETS` names, else built and cached."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path

from tests.controlplane.build import KUBERNETES, build, cache_folder
from tests.controlplane.toolchain import version_in

ASSETS = "KUBEBUILDER_ASSETS"
"""By the convention of envtest a folder with at least etcd, kube-apiserver and kubectl."""


def find_programs(names: Iterable[str], environ: Mapping[str, str] = os.environ) -> dict[str, Path]:
    """Where each of these programs is; what is nowhere is built, in the version of what is given."""
    wanted = list(names)
    assets = environ.get(ASSETS)
    given = {name: path for name in wanted if assets and (path := Path(assets) / name).exists()}
    missing = [name for name in wanted if name not in given]
    if not missing:
        return given
    folder = build(missing, cache_folder(environ), _version_of(given.get("kube-apiserver")))
    return {name: given.get(name, folder / name) for name in wanted}


def _version_of(server: Path | None) -> str:
    if server is None:
        return KUBERNETES
    told = subprocess.run([server, "--version"], capture_output=True, text=True, check=True)
    return ".".join(map(str, version_in(told.stdout)))
