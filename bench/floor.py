"""The least anybody can do: knows beforehand what to write, is told whom for, watches and keeps nothing.

    python -m bench.floor KUBECONFIG RECIPE

Reads a name and a uid per line.
"""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

from bench.door import Door, Write, opened, read_recipe


async def bring_up(door: Door, recipe: list[Write], name: str, uid: str) -> None:
    """Everything at once, except that the last word on a job comes last."""
    *others, last = recipe
    await asyncio.gather(*(door.send(write, name, uid) for write in others))
    await door.send(last, name, uid)


async def main(kubeconfig: Path, recipe: list[Write]) -> None:
    """Write whatever each line asks for, until there are no more."""
    lines = asyncio.StreamReader()
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), os.fdopen(0, "rb"))
    async with opened(kubeconfig) as door, asyncio.TaskGroup() as tasks:
        while line := await lines.readline():
            name, uid = line.decode().split()
            tasks.create_task(bring_up(door, recipe, name, uid))


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), read_recipe(Path(sys.argv[2]))))
