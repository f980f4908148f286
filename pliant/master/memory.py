"""Where a master keeps what the next one must know: one small JSON value on a shelf."""

from __future__ import annotations

from typing import Protocol

LARGEST = 900_000
"""Bytes: a ConfigMap holds a little more than that."""


class Superseded(Exception):
    """Another master has written since: it works on, and we must not."""


class TooLarge(Exception):
    """What is to be remembered does not fit."""


class Shelf(Protocol):
    """Keeps one value."""

    async def load(self) -> bytes | None:
        """What was saved last; None if nothing ever was."""

    async def save(self, value: bytes) -> None:
        """Keep a value in place of the last; raises Superseded if that is not ours any more."""


class HandyShelf:
    """Keeps the value in this process, for tests and for masters that nobody replaces."""

    def __init__(self, value: bytes | None = None) -> None:
        self.value = value
        self.saves = 0

    async def load(self) -> bytes | None:
        """What was saved last."""
        return self.value

    async def save(self, value: bytes) -> None:
        """Keep a value."""
        self.value = value
        self.saves += 1
