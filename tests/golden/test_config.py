from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.golden.files import REWRITES, ROOT, check_golden
from tests.golden.folders import manifest_links, render_config, render_manifests

CONFIG = ROOT / "config"
MANIFESTS = ROOT / "manifests"
FILES = {CONFIG / path: text for path, text in render_config().items()} | {
    MANIFESTS / name: text for name, text in render_manifests().items()
}
LINKS = {MANIFESTS / name: target for name, target in manifest_links().items()}


@pytest.mark.parametrize("path", FILES, ids=[str(path.relative_to(ROOT)) for path in FILES])
def test_a_file_checked_in_is_the_one_that_the_code_makes(path: Path) -> None:

    check_golden(path, FILES[path])


def test_the_definitions_of_the_manifests_are_links() -> None:
    if os.environ.get(REWRITES):
        for link, target in LINKS.items():
            link.unlink(missing_ok=True)
            link.symlink_to(target)
    assert {link: str(link.readlink()) for link in LINKS if link.is_symlink()} == LINKS, "run `make manifests`"


def test_no_file_is_left_behind() -> None:
    present = {path for path in CONFIG.rglob("*.yaml") if CONFIG / "samples" not in path.parents}
    strays = (present | set(MANIFESTS.iterdir())) - set(FILES) - set(LINKS)
    if os.environ.get(REWRITES):
        for stray in strays:
            stray.unlink()
        return
    assert strays == set(), "run `make manifests`"
