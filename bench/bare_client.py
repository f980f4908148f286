"""The baseline of `bench.bringup`: sends recorded writes for each job, without watches and without a cache.

    python -m bench.bare_client KUBECONFIG WRITES

Reads the name and the uid of one job per line from standard input.
"""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

from bench.recorded_writes import RecordedWrite, WriteSender, open_sender, read_writes


async def send_job_writes(sender: WriteSender, writes: list[RecordedWrite], name: str, uid: str) -> None:
    """Send all writes for a job concurrently, except the last status, which is sent after the others."""
    *others, last = writes
    await asyncio.gather(*(sender.send(write, name, uid) for write in others))
    await sender.send(last, name, uid)


async def main(kubeconfig: Path, writes: list[RecordedWrite]) -> None:
    """Send the writes for the job of each input line until the input ends."""
    lines = asyncio.StreamReader()
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), os.fdopen(0, "rb"))
    async with open_sender(kubeconfig) as sender, asyncio.TaskGroup() as tasks:
        while line := await lines.readline():
            name, uid = line.decode().split()
            tasks.create_task(send_job_writes(sender, writes, name, uid))


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), read_writes(Path(sys.argv[2]))))
