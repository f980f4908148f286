"""What installed packages offer: entry points, each to be loaded only when somebody wants to know."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points

FRAMEWORKS, KINDS = "pliant.frameworks", "pliant.kinds"
"""The groups of entry points that are looked at, in this order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """One entry point of one package."""

    group: str
    name: str
    package: str
    """`hello-kind 0.1`."""
    load: Callable[[], object]

    def __str__(self) -> str:
        return f"{self.name} of {self.package}"


def installed_offers() -> Iterator[Offer]:
    """Every offer in this Python, in an order that does not depend on how it was installed."""
    for group in (FRAMEWORKS, KINDS):
        yield from sorted((_offer(each) for each in entry_points(group=group)), key=str)


def _offer(point: EntryPoint) -> Offer:
    package = f"{point.dist.name} {point.dist.version}" if point.dist is not None else point.value
    return Offer(group=point.group, name=point.name, package=package, load=point.load)
