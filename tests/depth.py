"""How much of the suite a run covers: a choice of it, or everything when $PLIANT_TEST_DEPTH is `deep`.

Campaigns too large for every run are sampled, anew each day; `PLIANT_TEST_SEED` repeats an earlier sample.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Iterable
from typing import TypeVar

Item = TypeVar("Item")

IS_DEEP = os.environ.get("PLIANT_TEST_DEPTH") == "deep"
# Set for the processes of the same run too: they must agree on the day.
SEED = int(os.environ.setdefault("PLIANT_TEST_SEED", time.strftime("%Y%m%d", time.gmtime())))
ENGINE_EXAMPLES = 600 if IS_DEEP else 60
"""Examples for each property of the engine: they are cheap to try, and its bugs are expensive."""


def sample(items: Iterable[Item], size: int, key: str) -> list[Item]:
    """Choose `size` items of a campaign, in their order; a deep run takes all. The key tells campaigns apart."""
    every = list(items)
    if IS_DEEP or len(every) <= size:
        return every
    chosen = random.Random(f"{SEED} {key}").sample(range(len(every)), size)
    return [every[index] for index in sorted(chosen)]
