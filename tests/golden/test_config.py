from __future__ import annotations

import os
from functools import cache
from pathlib import Path

from tests.golden.files import REWRITES, ROOT, check_golden
from tests.golden.folders import manifest_links, render_config, render_manifests

CONFIG = ROOT / "config"
MANIFESTS = ROOT / "manifests"
LINKS = {MANIFESTS / name: target for name, target in manifest_links().items()}


@cache
def files() -> dict[Path, str]:
    """The files that the code makes: not made when tests are collected, because each worker collects all of them."""
    return {CONFIG / path: text for path, text in render_config().items()} | {
        MANIFESTS / name: text for name, text in render_manifests().items()
    }


def test_the_files_checked_in_are_those_that_the_code_makes() -> None:
    for path, text in files().items():
        check_golden(path, text)


def test_the_definitions_of_the_manifests_are_links() -> None:
    if os.environ.get(REWRITES):
        for link, target in LINKS.items():
            link.unlink(missing_ok=True)
            link.symlink_to(target)
    assert {link: str(link.readlink()) for link in LINKS if link.is_symlink()} == LINKS, "run `make manifests`"


def test_no_file_is_left_behind() -> None:
    present = {path for path in CONFIG.rglob("*.yaml") if CONFIG / "samples" not in path.parents}
    strays = (present | set(MANIFESTS.iterdir())) - set(files()) - set(LINKS)
    if os.environ.get(REWRITES):
        for stray in strays:
            stray.unlink()
        return
    assert strays == set(), "run `make manifests`"
