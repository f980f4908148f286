"""Finds stock kubectl for the tests that are marked `kubectl`; without Go or kubectl only these cannot run."""

from __future__ import annotations

import os
import shutil

import pytest

_marked = False


def note_test(item: pytest.Item) -> None:
    """Remember whether the test that starts may use kubectl: one that is not marked must not, wherever it runs."""
    global _marked
    _marked = any(item.get_closest_marker(name) for name in ("kubectl", "real", "clients", "frameworks", "dlrover"))


def find_kubectl() -> str:
    """The path of kubectl: $KUBECTL, or the one on the PATH."""
    assert _marked, "mark this test with `@pytest.mark.kubectl`: it needs a program that not every machine has"
    program = os.environ.get("KUBECTL") or shutil.which("kubectl")
    if program is None:
        pytest.fail("kubectl is not on the PATH: `scripts/get-kubectl FOLDER` builds one", pytrace=False)
    return program
