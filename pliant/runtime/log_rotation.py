"""A log file of limited size, with a few older files beside it."""

from __future__ import annotations

import logging
import os
import shutil
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class LogRotation:
    max_bytes: int = 10 * 1024 * 1024
    """The size of a file beyond which a new one begins."""
    max_files: int = 3
    """The number of files that are kept, the current one included."""


class RotatedFileHandler(logging.FileHandler):
    """Appends to a log file; a full one becomes `FILE.1`, which becomes `FILE.2`, and so on.

    The full file is copied and truncated, not renamed: child processes have it open as their standard error.
    """

    def __init__(self, path: Path, rotation: LogRotation) -> None:
        super().__init__(path, encoding="utf-8")
        self._path = path
        self._rotation = rotation

    def emit(self, record: logging.LogRecord) -> None:
        super().emit(record)
        with suppress(OSError):
            if self._path.stat().st_size >= self._rotation.max_bytes:
                self._rotate()

    def _rotate(self) -> None:
        for number in reversed(range(1, self._rotation.max_files - 1)):
            with suppress(FileNotFoundError):
                self._older_path(number).replace(self._older_path(number + 1))
        if self._rotation.max_files > 1:
            copy = self._older_path(1)
            try:
                shutil.copy(self._path, copy)  # with the mode of the file
            except OSError:  # The disk is full: the current file is lost, but the log goes on.
                copy.unlink(missing_ok=True)
        os.truncate(self._path, 0)

    def _older_path(self, number: int) -> Path:
        return self._path.with_name(f"{self._path.name}.{number}")
