"""A cluster as policies see it: nodes, groups that may change their size, and everybody who waits for room.

Plain values and no clock. The controller makes them from what the API server tells, the simulator from what it
makes up; policies do not know which.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple, Protocol

Amounts = Mapping[str, int]
"""Resources by name: `cpu` in thousandths of a core, everything else in its own unit (bytes, devices, `pods`)."""


class GroupKey(NamedTuple):
    """Which group of which job; the order of keys breaks ties."""

    namespace: str
    kind: str
    """With its API group, as several groups have a kind of the same name: `PaddleJob.paddlepaddle.org`."""
    job: str
    group: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.job}/{self.group}"


@dataclass(frozen=True, slots=True)
class Shape:
    """What one pod takes up, and where it may go; many pods share one."""

    needs: tuple[tuple[str, int], ...]
    """Resources and amounts, sorted by name, none of them 0."""
    allowed: frozenset[str] | None = None
    """The nodes that would take it if they had room; None for all that are open."""

    @classmethod
    def of(cls, needs: Amounts, allowed: frozenset[str] | None = None) -> Shape:
        """The shape of a pod with these needs."""
        return cls(tuple(sorted((name, amount) for name, amount in needs.items() if amount)), allowed)


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A machine."""

    name: str
    room: Amounts
    """All there is for pods (allocatable)."""
    taken: Amounts = field(default_factory=dict)
    """What is used by pods that are no members of any `Elastic` below: of other jobs, services, daemons."""
    is_open: bool = True
    """Whether it takes newcomers: not cordoned, and ready. Members that sit on a closed one stay there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Elastic:
    """A group whose size may be set."""

    key: GroupKey
    least: int
    most: int
    size: int
    """How many members it is to have at present."""
    shape: Shape
    places: tuple[str, ...] = ()
    """The node of each member by index, empty for one that waits; missing at the end where there is no pod yet.
    Whoever leaves first has the highest index."""
    priority: int = 0
    since: float = 0.0
    """When its job was made, in seconds; the older one comes first among equals."""
    may_grow: bool = True
    may_shrink: bool = True
    """Whether it may be made smaller for a better share; to let others in it always may, unless fixed."""
    is_fixed: bool = False
    """Whether its size must stay what it is: just edited by hand, about to end, not able to change."""
    note: str = ""
    """Why it may not do what it may not."""
    speeds: tuple[tuple[int, float], ...] = ()
    """Its throughput as measured at sizes it has had, in units of its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """Like pods that wait for room and are no members of any `Elastic`: of a service, of a job of fixed size."""

    key: str
    shape: Shape
    number: int
    priority: int = 0
    since: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """Everything a policy may look at."""

    nodes: tuple[Node, ...]
    elastics: tuple[Elastic, ...]
    claims: tuple[Claim, ...] = ()
    quotas: Mapping[str, Amounts] = field(default_factory=dict)
    """What the members of all elastic groups of a namespace may take up together, where somebody set a limit."""
    load: float = 0.97
    """How much of all CPU and memory may be given away, as a part of 1; devices may be to the last."""


class Code(StrEnum):
    """Kinds of reasons for a size."""

    GROWS = "Grows"
    """There is room."""
    GIVES_WAY = "GivesWay"
    """Somebody waits who comes first."""
    SHARES = "Shares"
    """Others have less."""
    SLOWS = "NotWorthIt"
    """More members would not make it fast enough to be worth their room."""
    FULL = "NoRoom"
    """More would not fit."""
    QUOTA = "Quota"
    MOST = "AtMost"
    LEAST = "AtLeast"
    FIXED = "Fixed"
    SETTLING = "Settling"
    """It has been resized a moment ago, or its members are still coming up."""


class Verdict(NamedTuple):
    """The size a group should have, and why."""

    size: int
    code: Code
    why: str
    """A clause that ends a sentence: `4 more fit`, `default/nginx waits for 400 pods of 3 CPU`."""


Plan = Mapping[GroupKey, Verdict]
"""A verdict on every elastic group of a cluster."""


class Policy(Protocol):
    """A way to share a cluster. The same picture always gives the same plan, whatever order it is drawn in."""

    @property
    def name(self) -> str:
        """The word users write to choose it, in lower case."""

    def plan(self, cluster: Cluster) -> Plan:
        """The size of every group: within its bounds as far as it is in our hands, and within what fits.

        A plan that was carried out is its own answer: nothing changes the next time, if nothing else has. Now and
        then a group gives a place up first and has another one the next time; then there is an end to it.
        """
