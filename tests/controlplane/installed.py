"""What `pliant install` prints, put on a real cluster, and the operator's account there."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from tests.controlplane.programs import find_programs
from tests.quickyaml import without_definitions

KUBECTL = "kubectl"
HOME = "pliant-system"
ACCOUNT = "pliant-operator"
PATIENCE = 60.0
"""Seconds after which a command that should have ended is taken to hang."""
PULSE = 0.1
LIFE = "12h"
"""How long a token is good for: longer than any test."""
ELSEWHERE = ("CustomResourceDefinition", "Deployment", "PodDisruptionBudget")
"""What tests bring themselves: definitions and the operator's process."""

Object = dict[str, Any]


@cache
def printed(command: str, *options: str) -> str:
    """What `pliant install` or `pliant uninstall` prints."""
    program = [sys.executable, "-m", "pliant", command, *options]
    return subprocess.run(program, capture_output=True, text=True, check=True, timeout=PATIENCE).stdout


def kubectl(kubeconfig: Path, *words: str, stdin: str = "") -> str:
    """What the kubectl of the server's own release answers; its complaint fails the test."""
    program = [str(find_programs([KUBECTL])[KUBECTL]), "--kubeconfig", str(kubeconfig), *words]
    done = subprocess.run(program, input=stdin, capture_output=True, text=True, check=False, timeout=PATIENCE)
    assert done.returncode == 0, f"kubectl {' '.join(words)}: {done.stdout}{done.stderr}"
    return done.stdout


def may(kubeconfig: Path, *words: str) -> bool:
    """Whether somebody has a right, as `kubectl auth can-i` tells it."""
    try:
        return kubectl(kubeconfig, "auth", "can-i", *words).strip() == "yes"
    except AssertionError as refused:
        if "no" in str(refused).split() or "Unauthorized" in str(refused):
            return False  # who is not known any more may do nothing
        raise


def wait_served(kubeconfig: Path, resource: str) -> None:
    """Wait until the server answers for a kind; `kubectl wait` trips over definitions without any condition."""
    limit = time.monotonic() + PATIENCE
    while True:
        try:
            kubectl(kubeconfig, "get", resource)
            return
        except AssertionError:
            if time.monotonic() > limit:
                raise
            time.sleep(PULSE)


def operator_account(kubeconfig: Path, path: Path, home: str = HOME, watched: Sequence[str] = ()) -> Path:
    """Install the rights of an operator that runs elsewhere, and nothing else; lets its account in."""
    options = [f"--watch-namespace={name}" for name in watched]
    objects = without_definitions(printed("install", "--namespace", home, *options))
    rights = [each for each in objects if each["kind"] not in ELSEWHERE]
    kubectl(kubeconfig, "apply", "-f", "-", stdin=yaml.safe_dump_all(rights))
    return account_kubeconfig(kubeconfig, path, home)


def account_kubeconfig(kubeconfig: Path, path: Path, namespace: str = HOME) -> Path:
    """Lets the operator's account in, by a token of the server's own making, as its pods have one."""
    token = kubectl(kubeconfig, "create", "token", ACCOUNT, "--namespace", namespace, "--duration", LIFE)
    document = yaml.safe_load(kubeconfig.read_text())
    document["users"] = [{"name": ACCOUNT, "user": {"token": token.strip()}}]
    for context in document["contexts"]:
        context["context"] |= {"user": ACCOUNT, "namespace": namespace}
    path.touch(mode=0o600)
    path.write_text(yaml.safe_dump(document))
    return path
