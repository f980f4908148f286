"""Work that takes as long as a known curve says: for trying out how many workers a master settles for.

With n workers, all together do n / (a + b·n + c·n²) times what one would that had nobody to talk to.
"""

from __future__ import annotations

import os
import time

from pliant import training

A, B, C = (float(part) for part in os.environ.get("CURVE", "1,0.3,0").split(","))
ALONE = float(os.environ.get("SPEED", "200"))
"""Samples a second."""
RECORDS, SHARD = int(os.environ.get("RECORDS", "100000")), 20


def speed(size: int) -> float:
    """Samples a second of all workers together."""
    return ALONE * size / (A + B * size + C * size * size)


def main() -> None:
    """Sleep through the data set."""
    job = training.join()
    for number, shard in enumerate(job.shards("synthetic", size=RECORDS, shard_size=SHARD)):
        size = max(sum(member.type == "worker" for member in job.members()), 1)
        time.sleep((shard.end - shard.start) * size / speed(size))
        job.beat(step=number + 1)


if __name__ == "__main__":
    main()
