"""Programs with the Kubernetes clients of Python: tests/clients/programs."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

from tests.clients.environments import PYTHON_CLIENTS
from tests.clients.results import ClientResults
from tests.real_frameworks.environments import missing
from tests.scenarios.cluster import Site

pytestmark = pytest.mark.clients

PROGRAMS = Path(__file__).with_name("programs")
LIMIT_SECONDS = 100


@pytest.fixture(scope="module", autouse=True)
def _libraries() -> None:
    if problem := missing(PYTHON_CLIENTS):
        pytest.skip(f"python-clients: {problem}")


@pytest.mark.parametrize(
    ("client", "command"),
    [
        ("kubernetes 37.0.2", ["kubernetes_sync.py"]),
        ("kubernetes.aio 37.0.2", ["kubernetes_aio.py"]),
        ("kubernetes_asyncio 36.1.0", ["kubernetes_aio.py", "kubernetes_asyncio"]),
        ("kr8s 0.20.15", ["kr8s_sync.py"]),
        ("lightkube 1.0.1", ["lightkube_sync.py"]),
        ("kopf 1.45.2", ["kopf_operator.py"]),
    ],
)
def test_a_program_in_python_works(site: Site, client_results: ClientResults, client: str, command: list[str]) -> None:
    """Run a program to its end; it prints a line for each check that has passed."""
    python = PYTHON_CLIENTS.folder / "bin" / "python3"
    environ = {**os.environ, "KUBECONFIG": str(site.kubeconfig), "PATH": PYTHON_CLIENTS.path}
    program = [str(python), str(PROGRAMS / command[0]), *command[1:]]
    ran = subprocess.run(program, env=environ, capture_output=True, text=True, timeout=LIMIT_SECONDS, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "Traceback" not in ran.stderr, ran.stderr
    for check in re.findall(r"^ok (.*)$", ran.stdout, re.MULTILINE):
        client_results.record(client, check)
