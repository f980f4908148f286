"""A master in a process of its own, with a file for a shelf."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from pliant.master.server.service import MasterService, ServiceTiming
from tests.master.people import KEYS

WAITS = ServiceTiming(
    lease_duration=1.0,
    heartbeat_interval=0.1,
    save_interval=0.1,
    pending_wait=0.3,
    join_wait=2.0,
    settle_time=0.2,
    throughput_window=0.3,
)


class FileShelf:
    """Keeps the value in a file that is whole at every moment."""

    def __init__(self, path: Path) -> None:
        self._path = path

    async def load(self) -> bytes | None:
        return self._path.read_bytes() if self._path.exists() else None

    async def save(self, value: bytes) -> None:
        new = self._path.with_suffix(".new")
        new.write_bytes(value)
        new.replace(self._path)


async def main(port: int, shelf: Path) -> None:
    service = MasterService("uid-1", store=FileShelf(shelf), timing=WAITS)
    await service.load_saved_state()
    await service.serve_until_cancelled(KEYS, "127.0.0.1", port, lambda port: print(port, flush=True))


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]), Path(sys.argv[2])))
