"""The policies there are."""

from __future__ import annotations

from collections.abc import Mapping

from pliant.autoscale.mixing import MANNERS, planned
from pliant.autoscale.model import Cluster, Plan, Policy
from pliant.autoscale.published import PublishedEdl


class Single:
    """One policy for all groups."""

    def __init__(self, name: str) -> None:
        self._name = name

    @property
    def name(self) -> str:
        """The word users write to choose it."""
        return self._name

    def plan(self, cluster: Cluster) -> Plan:
        """The size of every group."""
        return planned(cluster, {}, self._name)


POLICIES: Mapping[str, Policy] = {name: Single(name) for name in MANNERS}
"""Those that users may choose, by name."""

ALL_POLICIES: Mapping[str, Policy] = {**POLICIES, PublishedEdl().name: PublishedEdl()}
"""Those, and what they are compared with."""
