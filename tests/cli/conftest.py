"""An ordinary user for every test that starts `pliant` as a process."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.ordinary_user import NOBODY, OrdinaryUser


@pytest.fixture
def user() -> Iterator[OrdinaryUser]:
    """Somebody with a fresh home folder, outside of pytest's private ones."""
    home = Path(tempfile.mkdtemp(prefix="pliant-home-"))
    if os.getuid() == 0:
        os.chown(home, NOBODY, NOBODY)
    yield OrdinaryUser(home)
    shutil.rmtree(home)
