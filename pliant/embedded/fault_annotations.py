"""Annotations of a node by which users make the embedded cluster simulate a node failure or a GPU fault."""

from __future__ import annotations

from typing import Final

NODE_OUTAGE_ANNOTATION: Final = "chaos.pliant/outage"
"""Set while an outage is simulated; the value is one of the following."""
OUTAGE_VALUE_KILLED: Final = "killed"
"""The processes of the node are killed, and its kubelet does not report."""
OUTAGE_VALUE_PAUSED: Final = "paused"
"""The processes of the node are paused, and its kubelet does not report."""
GPU_FAULT_ANNOTATION: Final = "chaos.pliant/gpu-fault"
"""The fault to report for the first GPU of the node."""
