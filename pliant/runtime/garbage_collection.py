"""Garbage collection while a process starts: almost everything that is loaded then stays."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def collect_no_garbage() -> Iterator[None]:
    """Run no garbage collection in the block, and exempt what it has loaded from later ones."""
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()
