from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.controlplane.build import KUBERNETES, build, cache_folder, components, own_manifest
from tests.controlplane.programs import ASSETS, find_programs, missing_programs
from tests.controlplane.progress import BuildError, run_with_progress
from tests.controlplane.toolchain import find_go, version_in

PUBLISHED = """\
module k8s.io/kubernetes

go 1.26.0

godebug default=go1.26

require (
	k8s.io/api v0.0.0
	k8s.io/klog/v2 v2.130.1
)

replace (
	k8s.io/api => ./staging/src/k8s.io/api
	k8s.io/client-go => ./staging/src/k8s.io/client-go
)
"""


def program(path: Path, script: str = "exit 1") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return path


@pytest.mark.parametrize(
    ("text", "version"),
    [("go version go1.26.8 linux/amd64", (1, 26, 8)), ("Kubernetes v1.36.3", (1, 36, 3)), ("go version devel", ())],
)
def test_a_version_is_read_from_what_a_program_says(text: str, version: tuple[int, ...]) -> None:
    assert version_in(text) == version


def test_staged_modules_come_in_the_version_that_belongs_to_the_release() -> None:
    manifest = own_manifest(components("1.36.3")["kubectl"], PUBLISHED)
    assert manifest.splitlines() == [
        "module pliant.local/controlplane",
        "go 1.26.0",
        "godebug default=go1.26",
        "require k8s.io/kubernetes v1.36.3",
        "replace k8s.io/api => k8s.io/api v0.36.3",
        "replace k8s.io/client-go => k8s.io/client-go v0.36.3",
        "tool k8s.io/kubernetes/cmd/kubectl",
    ]


def test_the_cache_is_where_the_user_says_or_where_caches_are(monkeypatch: pytest.MonkeyPatch) -> None:
    everything = {"PLIANT_CACHE": "/a", "XDG_CACHE_HOME": "/b", "HOME": "/c"}
    assert cache_folder(everything) == Path("/a")
    assert cache_folder({**everything, "PLIANT_CACHE": ""}) == Path("/b/pliant")
    monkeypatch.setattr(os, "getuid", lambda: 1000)
    assert cache_folder({"HOME": "/c"}) == Path("/c/.cache/pliant")
    monkeypatch.setattr(os, "getuid", lambda: 0)
    assert cache_folder({"HOME": "/root"}) == Path("/var/cache/pliant")


def test_what_is_built_is_not_built_again(tmp_path: Path) -> None:
    folder = tmp_path / "kube" / KUBERNETES
    for component in components().values():
        program(folder / component.file)
        (folder / component.name).symlink_to(component.file)
    before = sorted(folder.iterdir())
    assert build(components(), tmp_path) == folder
    assert sorted(folder.iterdir()) == before
    assert missing_programs(components(), {"PLIANT_CACHE": str(tmp_path)}) == []


def test_a_program_of_another_version_counts_as_missing(tmp_path: Path) -> None:
    folder = tmp_path / "kube" / KUBERNETES
    (folder / "etcd").parent.mkdir(parents=True)
    program(folder / "etcd-1.0.0")
    (folder / "etcd").symlink_to("etcd-1.0.0")
    assert missing_programs(["etcd"], {"PLIANT_CACHE": str(tmp_path)}) == ["etcd"]


def test_programs_that_are_given_are_used(tmp_path: Path) -> None:
    given = {name: program(tmp_path / name) for name in ("etcd", "kube-apiserver", "kubectl")}
    assert find_programs(given, {ASSETS: str(tmp_path)}) == given


def test_a_go_that_is_too_old_is_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old = program(tmp_path / "path" / "go", "echo go version go1.19.8 linux/amd64")
    kept = program(tmp_path / "cache" / "go" / "bin" / "go", "echo go version go1.27.3 linux/amd64")
    monkeypatch.setenv("PATH", f"{old.parent}:{os.environ['PATH']}")
    assert find_go((1, 18), tmp_path / "cache") == old
    assert find_go((1, 26, 0), tmp_path / "cache") == kept


def test_a_build_that_fails_shows_its_last_words(tmp_path: Path) -> None:
    with pytest.raises(BuildError, match=r"kubectl: `sh -c .*` failed:\nno such module"):
        run_with_progress("kubectl", ["sh", "-c", "echo no such module; exit 1"], tmp_path, dict(os.environ))


def test_a_long_build_gives_signs_of_life(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.controlplane.progress.PULSE_SECONDS", 0.05)
    told: list[str] = []
    assert run_with_progress("etcd", ["sleep", "0.3"], tmp_path, dict(os.environ), told.append) >= 0.3
    assert told[0].startswith("  etcd: 0 s so far")
