"""What the master does for members of its job: work, peers, heartbeats. It serves, and decides no size."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pliant.master.memory import HandyShelf, Shelf
from pliant.master.model import Beat, Node, NodeKey
from pliant.runtime.clock import Clock, SystemClock


@dataclass(frozen=True, slots=True, kw_only=True)
class Waits:
    """How long things may take, in seconds."""

    lease: float = 60.0
    """A process that says nothing for so long loses its shards."""
    settle: float = 10.0
    """After a change of workers nothing is measured for so long."""
    window: float = 10.0
    """The least that one measurement of speed lasts."""
    gather: float = 2.0
    """A round that all running workers have joined waits so long for those that are on their way."""
    patience: float = 30.0
    """A round waits so long for running workers that do not join."""
    save: float = 1.0
    """Between two saves."""


class Service:
    """Everything members ask of the master of one job; the wiring feeds it with what pods show."""

    def __init__(
        self,
        uid: str,
        *,
        shelf: Shelf | None = None,
        clock: Clock | None = None,
        waits: Waits | None = None,
        least: int = 1,
    ) -> None:
        self.uid = uid
        self.brain: dict[str, Any] = {}
        """What the brain wants remembered: JSON. Call `remember` after a change."""
        self._shelf = shelf or HandyShelf()
        self._clock = clock or SystemClock()
        self._waits = waits or Waits()
        self._least = least
        self._beats: dict[NodeKey, Beat] = {}
        self._ps: tuple[int, tuple[str, ...]] = (0, ())

    async def load(self) -> bool:
        """Take over what the last master knew; False if there was none. Call it before `run`."""
        return False

    def remember(self) -> None:
        """Have everything saved soon: within a second."""

    async def save(self) -> None:
        """Save now, if anything changed."""

    async def run(self, host: str | None, port: int, ready: asyncio.Event | None = None) -> None:
        """Serve until cancelled; sets `ready` once it listens. Raises Superseded when another master took over."""
        if ready is not None:
            ready.set()
        await asyncio.Event().wait()

    def set_members(self, nodes: tuple[Node, ...]) -> None:
        """Tell of all members as their pods show them, whenever that changes; calling it for nothing is cheap.

        Shards of those that ended or vanished go back, membership gets a new generation, rounds open.
        """

    def set_ps(self, version: int, hosts: tuple[str, ...]) -> None:
        """Tell of a new set of parameter servers, in cluster order."""
        self._ps = (version, hosts)

    def ps(self) -> tuple[int, tuple[str, ...]]:
        """The set of parameter servers that was told last: version 0 if none."""
        return self._ps

    def beats(self) -> Mapping[NodeKey, Beat]:
        """The latest that each member said of itself, all its processes together."""
        return self._beats

    def speeds(self) -> Mapping[int, float]:
        """Samples per second of all workers together, by their number, each over settled whiles."""
        return {}

    def forget_speeds(self) -> None:
        """Measure anew: what a worker has changed."""

    def ps_versions(self) -> Mapping[NodeKey, int]:
        """The set of parameter servers that each member last said it works with."""
        return {key: beat.ps_version for key, beat in self._beats.items() if beat.ps_version is not None}

    def work_left(self) -> int | None:
        """Shards that nobody has taken yet, or that came back; None if the job uses none."""
        return None

    def is_work_done(self) -> bool:
        """Whether there are data sets, and all their shards are done."""
        return False
