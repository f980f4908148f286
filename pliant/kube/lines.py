"""Lines out of a stream whose pieces end anywhere, however long a line is."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator

from pliant.errors import Unreachable


async def lines(chunks: AsyncIterator[bytes], silence: float) -> AsyncGenerator[bytes, None]:
    """Whole lines as they complete; a cut-off last line is dropped, and `silence` seconds of nothing raise.

    The deadline holds only while waiting for the stream, never while the reader is busy with a line.
    """
    pieces: list[bytes] = []
    while True:
        try:
            async with asyncio.timeout(silence):
                chunk = await anext(chunks, None)
        except TimeoutError:
            raise Unreachable(f"the stream has been silent for {silence:.0f} s") from None
        if chunk is None:
            return
        first, *others = chunk.split(b"\n")
        pieces.append(first)
        for piece in others:
            line = b"".join(pieces)
            pieces = [piece]
            if line.strip():
                yield line
