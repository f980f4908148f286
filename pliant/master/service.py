"""What the master does for members of its job: work, peers, heartbeats. It serves, and decides no size."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

from pliant.errors import UserError
from pliant.master.beats import Beats, Progress
from pliant.master.bell import Bell
from pliant.master.membership import Membership, gone
from pliant.master.memory import HandyShelf, Keeper, Shelf
from pliant.master.model import Beat, Node, NodeKey, NodeStatus, ParameterServers
from pliant.master.rounds import WORKING_TYPES, Closing, Rounds
from pliant.master.shards import DataSpec, Holder, Shard
from pliant.master.speeds import Speeds
from pliant.master.wire import BeatReport
from pliant.master.work import Work
from pliant.runtime.clock import Clock, SystemClock, uptime

log = logging.getLogger(__name__)


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
    recall: float = 8.0
    """A new master hands out nothing for so long, or until all who took shards have said what they did."""
    save: float = 1.0
    """Between two saves."""
    beat: float = 1.0
    """Between two beats of a member whose figures change; large jobs are asked to beat less often."""


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
        time: Callable[[], float] = uptime,
    ) -> None:
        self.uid = uid
        self.brain: dict[str, Any] = {}
        """What the brain wants remembered: JSON. Call `remember` after a change."""
        self.waits = waits or Waits()
        self.time = time
        """Seconds that pass evenly, from anywhere on."""
        self.work = Work(self.waits.lease)
        self.membership = Membership()
        self.rounds = Rounds(uid, Closing(least=least, gather=self.waits.gather, patience=self.waits.patience))
        self.progress = Progress()
        self.ps = ParameterServers()
        self.shards_bell, self.members_bell, self.rounds_bell, self.ps_bell = Bell(), Bell(), Bell(), Bell()
        self.keeper = Keeper(shelf or HandyShelf(), self._saved, self.waits.save)
        self._clock = clock or SystemClock()
        self._nodes: tuple[Node, ...] = ()
        self._known: set[NodeKey] = set()
        """Who was there: programs that speak before their pods are seen are not gone."""
        self._beats = Beats(self.waits.lease)
        self._speeds = Speeds(self.waits.settle, self.waits.window)
        self._recalled_at = 0.0
        self._told_at = 0.0
        self._is_untold = False

    def set_members(self, nodes: tuple[Node, ...]) -> None:
        """Tell of all members as their pods show them, whenever that changes; calling it for nothing is cheap.

        The first time, all of them must have been seen: who is not among them is gone. Shards of those that ended
        or vanished go back, membership gets a new generation, rounds open.
        """
        now = self.time()
        lost, self._nodes = gone(self._known, nodes), nodes
        self._known = {node.key for node in nodes}
        self._took_back(self.work.lose(lost), "their members are gone")
        self._settle(lost)
        running = {node.key for node in nodes if node.status is NodeStatus.RUNNING}
        self._speeds.set_workers(frozenset(key for key in running if key.type in WORKING_TYPES), now)
        self._beats.keep(self._known)
        was_open = self.rounds.is_open
        self.rounds.observe(nodes)
        self._close_round(now)
        if self.membership.observe(nodes):
            self._is_untold = True
            self._tell_members(now)
            self.remember()
        elif self.rounds.is_open != was_open:
            self.remember()

    def set_ps(self, version: int, hosts: tuple[str, ...]) -> None:
        """Tell of a new set of parameter servers, in cluster order."""
        if self.ps != (found := ParameterServers(version, hosts)):
            self.ps = found
            self.ps_bell.ring()
            self.remember()

    def beats(self) -> Mapping[NodeKey, Beat]:
        """The latest that each member said of itself, all its processes together."""
        return self._beats.by_node()

    def speeds(self) -> Mapping[int, float]:
        """Samples per second of all workers together, by their number, each over settled whiles."""
        return self._speeds.medians()

    def ps_versions(self) -> Mapping[NodeKey, int]:
        """The set of parameter servers that each member last said it works with."""
        versions = {key: beat.ps_version for key, beat in self.beats().items()}
        return {key: version for key, version in versions.items() if version is not None}

    def work_left(self) -> int | None:
        """Shards that nobody has taken yet, or that came back; None if the job uses none."""
        return self.work.left

    def is_work_done(self) -> bool:
        """Whether there are data sets, and all their shards are done."""
        return self.work.is_done

    @property
    def nodes(self) -> tuple[Node, ...]:
        """All members, as they were told last."""
        return self._nodes

    def register(self, spec: DataSpec) -> None:
        """Add a data set; the same one again is welcome."""
        if self.work.register(spec):
            log.info("data set registered", extra={"data_set": spec.name, "shards": spec.total})
            self.remember()

    def take(self, name: str, holder: Holder, holding: list[int]) -> Shard | None:
        """The next shard of a data set for a process that holds no others than those it names."""
        data = self.work.find(name)
        self.work.hear(holder, self.time())
        if self.work.is_waiting:
            return None
        self._took_back(data.keep(holder, holding, only=True), "their holder never heard of them")
        is_new = holder.node not in self.work.takers
        shard = self.work.take(name, holder)
        if shard is not None:
            self.keeper.remember(soon=is_new)
        return shard

    def report(self, name: str, holder: Holder, done: list[int], failed: list[int]) -> None:
        """Take note of what became of shards."""
        data = self.work.find(name)
        self.work.hear(holder, self.time())
        self._finished({name: done})
        returned = sum([data.give_back(position, holder) for position in failed])
        self._took_back(returned, f"{holder.node} could not learn them")
        self._settle({holder.node})

    def beat(self, report: BeatReport) -> dict[str, Any]:
        """Take down how a process fares; tells it what has changed meanwhile."""
        holder, now = report.holder, self.time()
        self.work.hear(holder, now)
        self._finished(report.done)
        self.work.keep(holder, report.holding)
        self._settle({holder.node})
        before = self.beats().get(holder.node)
        beat = self._beats.note(holder, report.told, self._clock.now(), now)
        self._speeds.note(holder.node, holder, report.samples, now)
        self.progress.note(beat.step, _has_learned(before, beat), now)
        if self.membership.hear(report.generation):
            self.remember()
        answer: dict[str, Any] = {
            "generation": self.membership.generation,
            "ps_version": self.ps.version,
            "every": max(self.waits.beat, len(self._nodes) / 200),
        }
        if report.round is not None:
            is_over = self.rounds.is_over(holder.node, report.round)
            answer |= {"restart": is_over, "round": self.rounds.number + is_over}
        return answer

    def join(self, holder: Holder, address: str) -> int:
        """Have a worker wait for the next round; tells its number."""
        now = self.time()
        self.work.hear(holder, now)
        self.rounds.join(holder.node, address, now)
        number = self.rounds.number + 1
        if self.rounds.may_be_complete:
            self._close_round(now)
        return number

    def tick(self) -> None:
        """Do what is due; call it a few times a second."""
        now = self.time()
        if now >= self._recalled_at:
            self._settle(None)
        self._took_back(self.work.expire(now), "their holders fell silent")
        self._close_round(now)
        self._tell_members(now)
        self.progress.look(now)
        if self._speeds.tick(now):
            self.remember()

    def remember(self) -> None:
        """Have everything saved soon: within a second."""
        self.keeper.remember()

    async def load(self) -> bool:
        """Take over what the last master knew; False if there was none. Call it before serving."""
        value = await self.keeper.load()
        if value is None:
            return False
        blank = self._saved()
        try:
            self._take_over(value)
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError, UserError) as problem:
            log.error("memory left aside", extra={"because": f"it makes no sense: {problem!r}"})
            self._take_over(blank)
            return False
        return True

    def _take_over(self, value: Mapping[str, Any]) -> None:
        self.membership.load(value["membership"])
        workers = [NodeKey(member.type, member.id) for member in self.membership.members]
        self.work.load(value["work"], [key for key in workers if key.type in WORKING_TYPES])
        self._known = {*self.work.takers, *workers}
        self._recalled_at = self.time() + self.waits.recall
        self.rounds.load(value["rounds"])
        self._speeds.load(value["speeds"])
        self.progress.load(value["progress"])
        self.ps = ParameterServers(value["ps"][0], tuple(value["ps"][1]))
        self.brain = dict(value["brain"])

    def _saved(self) -> dict[str, Any]:
        return {
            "work": self.work.saved(),
            "membership": self.membership.saved(),
            "rounds": self.rounds.saved(),
            "speeds": self._speeds.saved(),
            "progress": self.progress.saved(),
            "ps": [self.ps.version, list(self.ps.hosts)],
            "brain": self.brain,
        }

    async def run(self, host: str | None, port: int, ready: Callable[[int], None] | None = None) -> None:
        """Serve until cancelled, telling on which port; raises Superseded when another master took over."""
        from pliant.master.server import serve  # it knows this class

        await serve(self, host, port, ready)

    def _finished(self, done: Mapping[str, list[int]]) -> None:
        if self.work.finish(done):
            self.progress.note(None, True, self.time())
            if any(self.work.find(name).is_done for name in done):
                self.shards_bell.ring()
            self.keeper.remember(soon=False)

    def _settle(self, nodes: Collection[NodeKey] | None) -> None:
        if self.work.settle(nodes):
            self.shards_bell.ring()

    def _close_round(self, now: float) -> None:
        if self.rounds.close(now):
            size = len(self.rounds.seats)
            log.info("round closed", extra={"round": self.rounds.number, "workers": size})
            self.rounds_bell.ring()
            self.remember()

    def _tell_members(self, now: float) -> None:
        """Wake those who wait for another generation; not for each of many members that start one by one."""
        if self._is_untold and now - self._told_at >= len(self._nodes) / 500:
            self._told_at, self._is_untold = now, False
            self.members_bell.ring()

    def _took_back(self, count: int, reason: str) -> None:
        if count:
            log.info("shards came back", extra={"shards": count, "because": reason})
            self.shards_bell.ring()
            self.remember()


def _has_learned(before: Beat | None, beat: Beat) -> bool:
    """Whether a member that counts no steps has learned from more samples."""
    return before is not None and beat.step is None and (beat.samples or 0.0) > (before.samples or 0.0)
