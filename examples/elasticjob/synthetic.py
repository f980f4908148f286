"""Simulated work with a known scaling curve, to test which number of workers a master chooses.

The total throughput of n workers is n / (a + b·n + c·n²) times the throughput of one worker without communication.
"""

from __future__ import annotations

import os
import time

from pliant import elastic

A, B, C = (float(part) for part in os.environ.get("CURVE", "1,0.3,0").split(","))
ALONE = float(os.environ.get("SPEED", "200"))
"""Samples per second of one worker without communication."""
RECORDS, SHARD = int(os.environ.get("RECORDS", "100000")), 20


def speed(size: int) -> float:
    """Return the total throughput of this number of workers, in samples per second."""
    return ALONE * size / (A + B * size + C * size * size)


def main() -> None:
    """Process the data set: sleep for the simulated duration of each shard."""
    job = elastic.join()
    job.wait_membership(-1, timeout=60)
    for number, shard in enumerate(job.shards("synthetic", size=RECORDS, shard_size=SHARD)):
        members = job.membership().members
        size = max(sum(member.group == "worker" for member in members), 1)
        time.sleep((shard.end - shard.start) * size / speed(size))
        job.beat(step=number + 1)


if __name__ == "__main__":
    main()
