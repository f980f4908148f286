"""The policies there are."""

from __future__ import annotations

from collections.abc import Mapping

from pliant.autoscale.model import Policy
from pliant.autoscale.published import PublishedEdl

POLICIES: Mapping[str, Policy] = {}
"""Those that users may choose, by name."""

ALL_POLICIES: Mapping[str, Policy] = {**POLICIES, **{each.name: each for each in (PublishedEdl(),)}}
"""Those, and what they are compared with."""
