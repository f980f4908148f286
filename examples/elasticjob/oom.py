"""A program that needs more memory than its first memory limit."""

from __future__ import annotations

import os
import time

from pliant import elastic

NEED = int(os.environ.get("NEED", "150"))
"""Memory in MiB."""


def main() -> None:
    """Allocate the memory for each record and hold it for half a second."""
    job = elastic.join()
    for shard in job.shards("memory", size=6, shard_size=1):
        held = bytearray(os.urandom(1024) * 1024 * NEED)
        print(f"worker {job.id} holds {len(held) // 1024**2} MiB for record {shard.start}", flush=True)
        job.beat(step=shard.start)
        time.sleep(0.5)  # long enough for the memory limit to be enforced
        del held


if __name__ == "__main__":
    main()
