"""The doctor at a real cluster."""

from __future__ import annotations

import base64
import os
import subprocess
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.controlplane.cluster import ControlPlane
from tests.kube.certificates import make_pair

pytestmark = pytest.mark.real


def doctor(kubeconfig: Path, *words: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "HOME": "/nowhere", "KUBECONFIG": str(kubeconfig)}
    program = [sys.executable, "-m", "pliant", "doctor", *words]
    return subprocess.run(program, env=environment, capture_output=True, text=True, check=False, timeout=60)


def complaint(said: subprocess.CompletedProcess[str]) -> str:
    """The one line of a doctor who was not let in."""
    assert (said.returncode, said.stdout) == (1, ""), said
    [line] = said.stderr.splitlines()
    return line


def changed(plane: ControlPlane, file: Path, **cluster: Any) -> Path:
    document = yaml.safe_load(plane.kubeconfig.read_text())
    document["clusters"][0]["cluster"].update(cluster)
    file.write_text(yaml.safe_dump(document))
    return file


@pytest.mark.usefixtures("job_kinds")
def test_a_cluster_with_everything_is_well(plane: ControlPlane) -> None:
    said = doctor(plane.kubeconfig)
    assert said.returncode == 0, said
    for fact in (plane.url, "Kubernetes v1.", "kubernetes-admin (system:masters)", "up to date", "✓ permissions"):
        assert fact in said.stdout


@pytest.mark.usefixtures("job_kinds")
def test_who_has_no_rights_learns_which(plane: ControlPlane) -> None:
    said = doctor(plane.kubeconfig_for("eve"), "--namespace", "default")
    assert said.returncode == 1
    assert "missing in namespace default:" in said.stdout
    assert "pods: create, delete, get, list, watch" in said.stdout
    assert "user           eve" in said.stdout


def test_a_certificate_that_is_over_is_one_line(plane: ControlPlane) -> None:
    late = plane.kubeconfig_for("late", "system:masters", lifetime=timedelta(hours=-1))
    assert "the client certificate expired on " in complaint(doctor(late))


def test_a_token_that_is_no_good_is_one_line(plane: ControlPlane) -> None:
    assert "rejected the request as unauthorized: the credential was rejected" in complaint(
        doctor(plane.kubeconfig_with("a.b.c"))
    )


def test_a_server_of_another_authority_is_one_line(plane: ControlPlane, tmp_path: Path) -> None:
    other = base64.b64encode(make_pair("elsewhere").certificate).decode()
    strange = changed(plane, tmp_path / "config", **{"certificate-authority-data": other})
    assert "the server certificate is not trusted" in complaint(doctor(strange))


def test_a_server_under_another_name_is_one_line(plane: ControlPlane, tmp_path: Path) -> None:
    named = changed(plane, tmp_path / "config", **{"tls-server-name": "elsewhere.example"})
    assert "not valid for 'elsewhere.example'" in complaint(doctor(named))


def test_a_server_that_is_not_there_is_one_line(plane: ControlPlane, tmp_path: Path) -> None:
    away = changed(plane, tmp_path / "config", server="https://127.0.0.1:1")
    assert "https://127.0.0.1:1/version: Connection refused" in complaint(doctor(away))
    nowhere = changed(plane, tmp_path / "config", server="https://nowhere.invalid:6443")
    assert "cannot resolve nowhere.invalid" in complaint(doctor(nowhere))
