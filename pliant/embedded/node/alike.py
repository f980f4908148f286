"""Files that many pods have alike."""

from __future__ import annotations

import os
from pathlib import Path

_MOST = 64


class Alike:
    """Writes files; those of the same content are one file with many names, which is made but once."""

    def __init__(self) -> None:
        self._places: dict[bytes, Path] = {}
        """Where each content was last put."""

    def put(self, place: Path, content: bytes) -> None:
        """Have a file hold this. Nobody may write to it from now on: others hold the same."""
        try:
            os.link(self._places[content], place)
        except (KeyError, OSError):  # the first, or the one before has gone
            place.unlink(missing_ok=True)
            place.write_bytes(content)
        if len(self._places) >= _MOST:
            self._places.clear()
        self._places[content] = place
