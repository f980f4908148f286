"""Lines out of a stream whose pieces end anywhere, however long a line is."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from pliant.errors import Unreachable


class LineBuffer:
    """Keeps the beginning of a line until its end arrives; copies each byte once."""

    def __init__(self) -> None:
        self._pieces: list[bytes] = []

    def feed(self, chunk: bytes) -> list[bytes]:
        """The lines that a piece completes, without empty ones."""
        first, *others = chunk.split(b"\n")
        self._pieces.append(first)
        if not others:
            return []
        lines = [b"".join(self._pieces), *others[:-1]]
        self._pieces = [others[-1]]
        return [line for line in lines if line.strip()]


async def next_chunk(chunks: AsyncIterator[bytes], silence: float) -> bytes | None:
    """The next piece, None at the end; `silence` seconds without one mean that nobody is there any more."""
    try:
        async with asyncio.timeout(silence):
            return await anext(chunks, None)
    except TimeoutError:
        raise Unreachable(f"the stream has been silent for {silence:.0f} s") from None
