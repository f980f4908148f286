"""How people tell a cluster that a node is to fail: annotations of the node, which the cluster obeys."""

from __future__ import annotations

from typing import Final

NODE_OUTAGE_ANNOTATION: Final = "chaos.pliant/outage"
"""Present while a node is out, as one of the following."""
OUTAGE_KILLED: Final = "killed"
"""Its processes have died, and nobody is there to tell."""
OUTAGE_PAUSED: Final = "paused"
"""Its processes stand still, and nobody is there to tell."""
GPU_FAULT_ANNOTATION: Final = "chaos.pliant/gpu-fault"
"""What is wrong with the first GPU of a node."""
