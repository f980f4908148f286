"""A machine with GPUs, as far as a program called nvidia-smi can tell."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

_SCRIPT = """#!/bin/sh
cat {listing}
exit "$(cat {code})"
"""


class FakeSmi:
    """Says what it is told to, once `folder` is on the PATH."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._listing, self._code = folder / "listing", folder / "code"
        program = folder / "nvidia-smi"
        program.write_text(_SCRIPT.format(listing=self._listing, code=self._code))
        program.chmod(0o755)
        self.lists(0)

    @property
    def path(self) -> str:
        """The PATH on which it is found first."""
        return f"{self.folder}:{os.environ['PATH']}"

    def lists(self, *gpus: int, errors: Sequence[int] = ()) -> None:
        """List these GPUs; those of `errors` have lost some memory."""
        lines = [
            f"{number}, GPU-{number}-uuid, 00000000:{number + 1:02X}:00.0, {7 if number in errors else '[N/A]'}"
            for number in gpus
        ]
        self._write_output("\n".join(lines), 0)

    def fails(self) -> None:
        """Say what it says without a driver."""
        self._write_output("NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.", 9)

    def _write_output(self, text: str, code: int) -> None:
        self._listing.write_text(text + "\n")
        self._code.write_text(f"{code}\n")
