"""What members say of themselves: the latest of each, all its processes together, and what it tells of the job."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

from pliant.master.model import Beat, NodeKey
from pliant.master.shards import Holder


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """What one process says."""

    step: int | None = None
    samples: float | None = None
    cpu: float | None = None
    memory: int | None = None
    ps_version: int | None = None


class _Line(NamedTuple):
    told: Told
    at: datetime
    heard: float


class Beats:
    """The latest of each member."""

    def __init__(self, silent: float) -> None:
        self._silent = silent
        """Seconds after which a process is left out if others of its pod speak."""
        self._lines: dict[NodeKey, dict[int, _Line]] = {}
        self._ended: dict[NodeKey, float] = {}
        self._beats: dict[NodeKey, Beat] = {}

    def by_node(self) -> Mapping[NodeKey, Beat]:
        """The latest that each member said."""
        return self._beats

    def note(self, holder: Holder, told: Told, at: datetime, now: float) -> Beat:
        """Take down what a process says; tells what its member says now."""
        lines = self._lines.setdefault(holder.node, {})
        lines[holder.process] = _Line(told, at, now)
        for process in [process for process, line in lines.items() if now - line.heard > self._silent]:
            # What it learned stays learned.
            ended = self._ended.get(holder.node, 0.0) + (lines.pop(process).told.samples or 0.0)
            self._ended[holder.node] = ended
        beat = _together([line.told for line in lines.values()], self._ended.get(holder.node), at)
        self._beats[holder.node] = beat
        return beat

    def keep(self, nodes: Collection[NodeKey]) -> None:
        """Forget everybody else."""
        for key in self._beats.keys() - set(nodes):
            del self._beats[key]
            self._lines.pop(key, None)
            self._ended.pop(key, None)


def _together(told: list[Told], ended: float | None, at: datetime) -> Beat:
    steps = [each.step for each in told if each.step is not None]
    samples = [each.samples for each in told if each.samples is not None]
    cpus = [each.cpu for each in told if each.cpu is not None]
    memories = [each.memory for each in told if each.memory is not None]
    versions = [each.ps_version for each in told if each.ps_version is not None]
    return Beat(
        at=at,
        step=max(steps, default=None),
        samples=sum(samples) + (ended or 0.0) if samples or ended else None,
        cpu=sum(cpus) if cpus else None,
        memory=sum(memories) if memories else None,
        # The member has switched when all of its processes have.
        ps_version=min(versions, default=None),
    )


class Progress:
    """Which part of the time was of use: the time in which the job came further than it ever was."""

    QUICK = 5.0
    """Seconds between two steps that are never taken for a standstill."""

    def __init__(self) -> None:
        self.elapsed = 0.0
        self.useful = 0.0
        self.step = 0
        """The furthest that anybody came."""
        self._usual = 0.0
        self._moved: float | None = None
        self._looked: float | None = None

    def note(self, step: int | None, has_learned: bool, now: float) -> None:
        """Take down a step, or that more was learned; steps done again after a failure are no progress."""
        self.look(now)
        if not has_learned and (step is None or step <= self.step):
            return
        self.step = max(self.step, step or 0)
        if self._moved is not None:
            gap = now - self._moved
            if gap <= max(self.QUICK, 3 * self._usual):
                self.useful += gap
                self._usual += 0.2 * (gap - self._usual)
            else:
                # Steps may have become longer: the next such gap is not a surprise any more.
                self._usual = max(self._usual, gap / 6)
        self._moved = now

    def look(self, now: float) -> None:
        """Let time pass."""
        if self._looked is not None:
            self.elapsed += now - self._looked
        self._looked = now

    @property
    def goodput(self) -> float:
        """Useful time by elapsed time."""
        return min(1.0, self.useful / self.elapsed) if self.elapsed > 0 else 0.0

    def saved(self) -> dict[str, Any]:
        """Everything as a small JSON value."""
        return {"elapsed": round(self.elapsed, 3), "useful": round(self.useful, 3), "step": self.step}

    def load(self, value: Mapping[str, Any]) -> None:
        """Go on where another was saved."""
        self.elapsed, self.useful, self.step = value["elapsed"], value["useful"], value["step"]
