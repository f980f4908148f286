"""A program that needs more memory than it is given at first."""

from __future__ import annotations

import os
import time

from pliant import training

NEED = int(os.environ.get("NEED", "150"))
"""MiB."""


def main() -> None:
    """Take the memory, hold it for a while, and be done."""
    job = training.join()
    for shard in job.shards("memory", size=6, shard_size=1):
        held = bytearray(os.urandom(1024) * 1024 * NEED)
        print(f"worker {job.id} holds {len(held) // 1024**2} MiB for record {shard.start}", flush=True)
        job.beat(step=shard.start)
        time.sleep(0.5)  # long enough for the limit to be looked at
        del held


if __name__ == "__main__":
    main()
