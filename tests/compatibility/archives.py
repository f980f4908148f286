"""Where the samples come from: published archives, downloaded once; nothing of them is kept in this repository."""

from __future__ import annotations

import os
import re
import tempfile
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from zipfile import BadZipFile, ZipFile

from tests.controlplane.build import cache_folder

PATIENCE = 120.0
"""Seconds for one download."""


class NotDownloaded(Exception):
    """An archive is missing, and this says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Archive:
    """One release of a project."""

    project: str
    version: str
    folders: tuple[str, ...]
    """Those with samples."""
    commit: str = ""
    """Downloaded from GitHub; without it, from the proxy of Go modules, which has some projects."""

    @property
    def file(self) -> Path:
        """Where it is kept."""
        return cache_folder(os.environ) / "samples" / f"{self.project.replace('/', '+')}-{self.version}.zip"

    @property
    def address(self) -> str:
        """Where it is published."""
        if self.commit:
            return f"https://codeload.github.com/{self.project}/zip/{self.commit}"
        proxies = re.split(r"[,|]", os.environ.get("GOPROXY") or "")
        proxy = next((each for each in proxies if each.startswith("http")), "https://proxy.golang.org")
        return f"{proxy.rstrip('/')}/github.com/{self.project}/@v/{self.version}.zip"

    def texts(self) -> Iterator[tuple[str, str]]:
        """Every YAML file of its samples: the path in the project, and the text."""
        try:
            opened = ZipFile(self.file)
        except (OSError, BadZipFile) as problem:
            raise NotDownloaded(f"{self.file}: {problem}") from problem
        with opened:
            for name in sorted(opened.namelist()):
                # The proxy puts the path of the module in front, GitHub a folder.
                path = name.partition(f"@{self.version}/")[2] or name.partition("/")[2]
                if path.startswith(self.folders) and path.endswith((".yaml", ".yml")):
                    yield path, opened.read(name).decode()


def _kubeflow(project: str, folder: str, *versions: str) -> tuple[Archive, ...]:
    return tuple(Archive(project=f"kubeflow/{project}", version=each, folders=(folder,)) for each in versions)


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """The operators whose samples are tried together, and a table of the page."""

    title: str
    archives: tuple[Archive, ...]
    """The newest of a project first: a manifest is tried as the newest release has it."""


ORIGINS = (
    Origin(
        title="Kubeflow",
        archives=(
            *_kubeflow("training-operator", "examples/", "v1.9.3", "v1.8.1", "v1.7.0", "v1.6.0", "v1.5.0", "v1.4.0"),
            *_kubeflow("mpi-operator", "examples/", "v0.6.0", "v0.3.0"),
            *_kubeflow("katib", "examples/v1beta1/kubeflow-training-operator/", "v0.19.0"),
        ),
    ),
    Origin(
        title="Paddle",
        archives=(
            Archive(
                project="PaddleFlow/paddle-operator",
                version="v0.3.5",
                commit="68230bfd69b3e36f81904866829f73c9f1e15798",
                folders=("deploy/", "config/samples/"),
            ),
            Archive(
                project="a6802739/paddle-k8s-operator",
                version="14561e1",
                commit="14561e13ce48369414e2c0ef2ab0ac854dc41460",
                folders=("example/",),
            ),
        ),
    ),
    Origin(
        title="DLRover",
        archives=(
            Archive(
                project="intelligent-machine-learning/dlrover",
                version="v0.6.1",
                commit="75644f4629bd9ab86ac1b5711b4d21117551dce4",
                folders=("examples/", "go/elasticjob/config/samples/"),
            ),
        ),
    ),
)


def download_all() -> Iterator[str]:
    """Download what is missing; what could not be, and why."""
    for archive in (each for origin in ORIGINS for each in origin.archives):
        if not archive.file.exists():
            try:
                _download(archive)
            except (urllib.error.URLError, TimeoutError, NotDownloaded) as problem:
                yield f"{archive.project} {archive.version}: {archive.address}: {problem}; or put it at {archive.file}"


def _download(archive: Archive) -> None:
    archive.file.parent.mkdir(parents=True, exist_ok=True)
    with urllib.request.urlopen(archive.address, timeout=PATIENCE) as reply:
        content = reply.read()
    with tempfile.NamedTemporaryFile(dir=archive.file.parent, delete=False) as scratch:
        scratch.write(content)
    Path(scratch.name).chmod(0o644)
    Path(scratch.name).rename(archive.file)
