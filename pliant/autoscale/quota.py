"""What the elastic groups of a namespace may take up together, where somebody set a limit."""

from __future__ import annotations

from pliant.autoscale.model import Cluster
from pliant.autoscale.packing import Footprint
from pliant.autoscale.vectors import Lanes


class Purse:
    """What is left of a namespace's quota."""

    __slots__ = ("_mask", "_signs", "left")

    def __init__(self, left: int, signs: int, mask: int) -> None:
        self.left = left
        self._signs = signs
        self._mask = mask

    def may_take(self, foot: Footprint, returned: int = 0) -> bool:
        """Whether there is enough left for one of these, if this much came back first."""
        signs = self._signs & foot.signs
        return self.left + (returned & self._mask) - (foot.need & self._mask) & signs == signs

    def take(self, foot: Footprint) -> None:
        """Let one have its part."""
        self.left -= foot.need & self._mask

    def give(self, foot: Footprint) -> None:
        """Have the part of one back."""
        self.left += foot.need & self._mask


def purses(cluster: Cluster, lanes: Lanes) -> dict[str, Purse]:
    """The purses of namespaces that have a quota, full."""
    return {
        namespace: Purse(lanes.nothing + lanes.packed(limits.items()), lanes.signs(limits), lanes.mask(limits))
        for namespace, limits in cluster.quotas.items()
    }
