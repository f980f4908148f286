from __future__ import annotations

import os

import pytest

from tests.golden.files import REWRITES, ROOT, check_golden
from tests.golden.folders import rendered

CONFIG = ROOT / "config"
FILES = rendered()


@pytest.mark.parametrize("path", FILES)
def test_the_folders_checked_in_are_those_that_the_code_makes(path: str) -> None:
    check_golden(CONFIG / path, FILES[path])


def test_no_file_is_left_behind() -> None:
    made = {CONFIG / path for path in FILES}
    strays = {path for path in CONFIG.rglob("*.yaml") if CONFIG / "samples" not in path.parents} - made
    if os.environ.get(REWRITES):
        for stray in strays:
            stray.unlink()
        return
    assert strays == set(), "run `make manifests`"
