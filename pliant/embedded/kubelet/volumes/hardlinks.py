"""Share files of the same content between pods by hard links."""

from __future__ import annotations

import os
from pathlib import Path

_MAX_CACHED_FILES = 64


class HardlinkCache:
    """Writes files; files of the same content are hard links to one file, which must not be modified."""

    def __init__(self) -> None:
        self._paths_by_content: dict[bytes, Path] = {}

    def write_file(self, path: Path, content: bytes) -> None:
        try:
            os.link(self._paths_by_content[content], path)
        except (KeyError, OSError):  # It is the first file of this content, or the last one was deleted.
            path.unlink(missing_ok=True)
            path.write_bytes(content)
        if len(self._paths_by_content) >= _MAX_CACHED_FILES:
            self._paths_by_content.clear()
        self._paths_by_content[content] = path
