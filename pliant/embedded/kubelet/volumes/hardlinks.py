"""Files that many pods have alike."""

from __future__ import annotations

import os
from pathlib import Path

_MAX_CACHED_FILES = 64


class HardlinkCache:
    """Writes files; those of the same content are one file with many names, which is made but once."""

    def __init__(self) -> None:
        self._paths_by_content: dict[bytes, Path] = {}
        """Where each content was last put."""

    def write_file(self, path: Path, content: bytes) -> None:
        """Have a file hold this. Nobody may write to it from now on: others hold the same."""
        try:
            os.link(self._paths_by_content[content], path)
        except (KeyError, OSError):  # the first, or the one before has gone
            path.unlink(missing_ok=True)
            path.write_bytes(content)
        if len(self._paths_by_content) >= _MAX_CACHED_FILES:
            self._paths_by_content.clear()
        self._paths_by_content[content] = path
