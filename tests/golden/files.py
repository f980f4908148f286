"""Files that must be what the code would write today; `scripts/golden` writes them anew."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[2]
REWRITES = "PLIANT_REWRITE_GOLDEN"


class _Dumper(yaml.SafeDumper):
    """Writes everything where it stands, also what several places share."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def yaml_text(document: Any) -> str:
    """YAML in the one layout that golden files have."""
    return yaml.dump(document, Dumper=_Dumper, sort_keys=False, width=115, allow_unicode=True)


def check_golden(path: Path, text: str) -> None:
    """Fail if the file says something else, or make it say this when asked to rewrite."""
    if os.environ.get(REWRITES):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    told = f"{path.relative_to(ROOT)} is stale: look at what changed, then run scripts/golden"
    assert path.exists(), told
    assert path.read_text() == text, told
