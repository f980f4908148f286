"""Kubernetes' own programs, built once from their published Go modules and kept in a cache."""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import tempfile
import urllib.error
import urllib.request
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.controlplane.progress import BuildError, print_progress, run_with_progress
from tests.controlplane.toolchain import environment, find_go, version_in

KUBERNETES = "1.36.3"
ETCD = "3.6.8"
KWOK = "0.8.0"

_SCRATCH = ".building-"
_KUBERNETES_MODULE = "k8s.io/kubernetes"
_KUBERNETES_STAMP = "k8s.io/component-base/version"


@dataclass(frozen=True, slots=True, kw_only=True)
class Component:
    """One program: the module it is published in, and where in there."""

    name: str
    module: str
    package: str
    version: str
    stamps: Mapping[str, str]
    """Variables of the program that tell its version."""

    @property
    def file(self) -> str:
        """The name under which it is kept."""
        return f"{self.name}-{self.version}"


def components(kubernetes: str = KUBERNETES) -> dict[str, Component]:
    """Every program of a control plane, in the order in which they are built best."""
    major, minor, *_ = kubernetes.split(".")
    told = {"gitVersion": f"v{kubernetes}", "gitMajor": major, "gitMinor": minor, "gitTreeState": "clean"}
    stamps = {f"{_KUBERNETES_STAMP}.{name}": value for name, value in told.items()}
    listed = [
        Component(
            name=name,
            module=_KUBERNETES_MODULE,
            package=f"{_KUBERNETES_MODULE}/cmd/{name}",
            version=kubernetes,
            stamps=stamps,
        )
        for name in ("kubectl", "kube-apiserver", "kube-controller-manager", "kube-scheduler")
    ]
    etcd = "go.etcd.io/etcd/server/v3"
    listed.insert(1, Component(name="etcd", module=etcd, package=etcd, version=ETCD, stamps={}))
    kwok = "sigs.k8s.io/kwok"
    told = {f"{kwok}/pkg/consts.Version": f"v{KWOK}"}
    listed.append(Component(name="kwok", module=kwok, package=f"{kwok}/cmd/kwok", version=KWOK, stamps=told))
    return {component.name: component for component in listed}


def cache_folder(environ: Mapping[str, str]) -> Path:
    """Where built programs are kept: `$PLIANT_CACHE`, else root's for every user to read, or the user's own."""
    if chosen := environ.get("PLIANT_CACHE"):
        return Path(chosen)
    if chosen := environ.get("XDG_CACHE_HOME"):
        return Path(chosen) / "pliant"
    if os.getuid() == 0:
        return Path("/var/cache/pliant")
    return Path(environ.get("HOME", "/")) / ".cache" / "pliant"


def folder_of(cache: Path, kubernetes: str = KUBERNETES) -> Path:
    """Where the programs of one release are."""
    return cache / "kube" / kubernetes


def missing(names: Iterable[str], cache: Path, kubernetes: str = KUBERNETES) -> list[Component]:
    """Which of these programs are not built yet."""
    wanted, folder = set(names), folder_of(cache, kubernetes)
    return [
        component
        for component in components(kubernetes).values()
        if component.name in wanted and is_missing(component, folder)
    ]


def build(names: Iterable[str], cache: Path, kubernetes: str = KUBERNETES) -> Path:
    """The folder with these programs; those that are missing are built first."""
    wanted, folder = set(names), folder_of(cache, kubernetes)
    build_components([each for each in components(kubernetes).values() if each.name in wanted], folder, cache)
    return folder


def build_components(wanted: Sequence[Component], folder: Path, cache: Path) -> None:
    """Build the programs that are missing in a folder."""
    if not any(is_missing(each, folder) for each in wanted):
        return
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with locked(folder):
            _build_all([each for each in wanted if is_missing(each, folder)], folder, cache)
    except PermissionError as problem:
        raise BuildError(f"cannot write {problem.filename}: build as its owner, or set PLIANT_CACHE") from problem


def is_missing(component: Component, folder: Path) -> bool:
    """Whether a folder does not have this version of a program."""
    return (folder / component.name).resolve().name != component.file


def _build_all(wanted: list[Component], folder: Path, cache: Path) -> None:
    for abandoned in folder.glob(f"{_SCRATCH}*"):
        shutil.rmtree(abandoned, ignore_errors=True)
    for number, component in enumerate(wanted, 1):
        print_progress(f"building {component.name} {component.version} ({number} of {len(wanted)}, once)…")
        manifest = _published_manifest(component)
        go = find_go(version_in(_directive(manifest, "go")), cache)
        with tempfile.TemporaryDirectory(dir=folder, prefix=_SCRATCH) as scratch:
            work = Path(scratch)
            (work / "go.mod").write_text(own_manifest(component, manifest))
            niced: list[str | Path] = ["nice", "-n", "19", go]
            seconds = run_with_progress(f"{component.name}: modules", [*niced, "mod", "tidy"], work, environment(go))
            settings = " ".join(["-s -w", *(f"-X {name}={value}" for name, value in component.stamps.items())])
            command = [*niced, "build", "-trimpath", "-ldflags", settings, "-o", "built", component.package]
            seconds += run_with_progress(component.name, command, work, environment(go))
            _install(work / "built", folder, component)
        print_progress(f"  {component.name} {component.version}: done in {seconds:.0f} s")


def _install(built: Path, folder: Path, component: Component) -> None:
    """Nobody ever sees half a program, nor one under the name of another version."""
    built.chmod(0o755)
    built.rename(folder / component.file)
    link = built.with_name("link")
    link.symlink_to(component.file)
    link.rename(folder / component.name)


def own_manifest(component: Component, published: str) -> str:
    """A module of ours that needs the program; what its own module takes from its source comes as published."""
    staged = re.findall(r"^\s*(?:replace )?(\S+) => \./staging/", published, re.MULTILINE)
    version = f"v0.{component.version.partition('.')[2]}"
    lines = [
        "module pliant.local/controlplane",
        f"go {_directive(published, 'go')}",
        # What a program prefers of Go's changing defaults counts only where it is the main module.
        *(f"godebug {value}" for value in re.findall(r"^godebug (\S+)$", published, re.MULTILINE)),
        f"require {component.module} v{component.version}",
        *(f"replace {module} => {module} {version}" for module in staged),
        f"tool {component.package}",
    ]
    return "\n".join(lines) + "\n"


def _directive(manifest: str, word: str) -> str:
    found = re.search(rf"^{word} (\S+)$", manifest, re.MULTILINE)
    assert found, f"no {word} line"
    return found.group(1)


def _published_manifest(component: Component) -> str:
    """The go.mod of a module as published; read without Go, for it says which Go is needed."""
    proxies = re.split(r"[,|]", os.environ.get("GOPROXY") or "https://proxy.golang.org")
    base = next((proxy for proxy in proxies if proxy.startswith("http")), "https://proxy.golang.org")
    address = f"{base.rstrip('/')}/{component.module}/@v/v{component.version}.mod"
    try:
        with urllib.request.urlopen(address, timeout=60) as reply:
            return bytes(reply.read()).decode()
    except (urllib.error.URLError, TimeoutError) as problem:
        raise BuildError(f"{component.name} {component.version}: {address}: {problem}") from problem


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """One builder at a time: the second finds the work done."""
    with (folder / ".lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print_progress(f"waiting for another build in {folder}…")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield
