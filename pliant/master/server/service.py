"""What the master does for members of its job: work, peers, heartbeats. It serves, and decides no size."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

from pliant.errors import UserError
from pliant.master.checkpoint.checkpointer import Checkpointer, CheckpointStore, InMemoryCheckpointStore
from pliant.master.data.dispatcher import ShardDispatcher
from pliant.master.data.shards import DatasetSpec, DataShard, ShardLeaseHolder
from pliant.master.members.heartbeats import GoodputTracker, HeartbeatTracker
from pliant.master.members.membership import Membership, find_ended_members
from pliant.master.members.rendezvous import WORKER_TYPES, RendezvousRounds, RoundClosePolicy
from pliant.master.members.throughput import ThroughputMeter
from pliant.master.model import Heartbeat, JobMember, MemberKey, MemberStatus, ParameterServerSet
from pliant.master.server.messages import HeartbeatRequest
from pliant.master.server.notifier import LongPollNotifier
from pliant.runtime.clock import Clock, SystemClock, uptime_seconds

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceTiming:
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


class MasterService:
    """Everything members ask of the master of one job; the wiring feeds it with what pods show."""

    def __init__(
        self,
        job_uid: str,
        *,
        store: CheckpointStore | None = None,
        clock: Clock | None = None,
        timing: ServiceTiming | None = None,
        min_workers: int = 1,
        time: Callable[[], float] = uptime_seconds,
    ) -> None:
        self.job_uid = job_uid
        self.brain_state: dict[str, Any] = {}
        """What the brain wants remembered: JSON. Call `remember` after a change."""
        self.timing = timing or ServiceTiming()
        self.time = time
        """Seconds that pass evenly, from anywhere on."""
        self.dispatcher = ShardDispatcher(self.timing.lease)
        self.membership = Membership()
        self.rendezvous = RendezvousRounds(
            job_uid,
            RoundClosePolicy(
                min_workers=min_workers, pending_wait_seconds=self.timing.gather, join_wait_seconds=self.timing.patience
            ),
        )
        self.goodput = GoodputTracker()
        self.parameter_servers = ParameterServerSet()
        self.shards_notifier, self.members_notifier, self.rendezvous_notifier, self.ps_notifier = (
            LongPollNotifier(),
            LongPollNotifier(),
            LongPollNotifier(),
            LongPollNotifier(),
        )
        self.checkpointer = Checkpointer(store or InMemoryCheckpointStore(), self._dump_state, self.timing.save)
        self._clock = clock or SystemClock()
        self._members: tuple[JobMember, ...] = ()
        self._known_keys: set[MemberKey] = set()
        """Who was there: programs that speak before their pods are seen are not gone."""
        self._heartbeats = HeartbeatTracker(self.timing.lease)
        self._throughput = ThroughputMeter(self.timing.settle, self.timing.window)
        self._recovery_ends_at = 0.0
        self._notified_at = 0.0
        self._has_unsent_membership = False

    def set_members(self, members: tuple[JobMember, ...]) -> None:
        """Tell of all members as their pods show them, whenever that changes; calling it for nothing is cheap.

        The first time, all of them must have been seen: who is not among them is gone. Shards of those that ended
        or vanished go back, membership gets a new generation, rounds open.
        """
        now = self.time()
        lost, self._members = find_ended_members(self._known_keys, members), members
        self._known_keys = {node.key for node in members}
        self._on_shards_returned(self.dispatcher.release_members(lost), "their members are gone")
        self._stop_awaiting_reports(lost)
        running = {node.key for node in members if node.status is MemberStatus.RUNNING}
        self._throughput.set_workers(frozenset(key for key in running if key.type in WORKER_TYPES), now)
        self._heartbeats.retain_only(self._known_keys)
        was_open = self.rendezvous.is_forming
        self.rendezvous.update_members(members)
        self._close_round(now)
        if self.membership.update_members(members):
            self._has_unsent_membership = True
            self._notify_membership(now)
            self.request_save()
        elif self.rendezvous.is_forming != was_open:
            self.request_save()

    def set_parameter_servers(self, version: int, hosts: tuple[str, ...]) -> None:
        """Tell of a new set of parameter servers, in cluster order."""
        if self.parameter_servers != (found := ParameterServerSet(version, hosts)):
            self.parameter_servers = found
            self.ps_notifier.notify_all()
            self.request_save()

    def heartbeats(self) -> Mapping[MemberKey, Heartbeat]:
        """The latest that each member said of itself, all its processes together."""
        return self._heartbeats.by_member()

    def speed_by_workers(self) -> Mapping[int, float]:
        """Samples per second of all workers together, by their number, each over settled whiles."""
        return self._throughput.median_speed_by_workers()

    def ps_version_by_member(self) -> Mapping[MemberKey, int]:
        """The set of parameter servers that each member last said it works with."""
        versions = {key: beat.ps_version for key, beat in self.heartbeats().items()}
        return {key: version for key, version in versions.items() if version is not None}

    def shards_left(self) -> int | None:
        """Shards that nobody has taken yet, or that came back; None if the job uses none."""
        return self.dispatcher.shards_left

    def are_shards_done(self) -> bool:
        """Whether there are data sets, and all their shards are done."""
        return self.dispatcher.is_done

    @property
    def members(self) -> tuple[JobMember, ...]:
        """All members, as they were told last."""
        return self._members

    def register_dataset(self, spec: DatasetSpec) -> None:
        """Add a data set; the same one again is welcome."""
        if self.dispatcher.register_dataset(spec):
            log.info("data set registered", extra={"data_set": spec.name, "shards": spec.total_shards})
            self.request_save()

    def take_shard(self, dataset: str, holder: ShardLeaseHolder, held_positions: list[int]) -> DataShard | None:
        """The next shard of a data set for a process that holds no others than those it names."""
        data = self.dispatcher.get_dataset(dataset)
        self.dispatcher.renew_lease(holder, self.time())
        if self.dispatcher.is_awaiting_reports:
            return None
        self._on_shards_returned(
            data.confirm_held(holder, held_positions, release_others=True), "their holder never heard of them"
        )
        is_new = holder.member not in self.dispatcher.shard_takers
        shard = self.dispatcher.take_shard(dataset, holder)
        if shard is not None:
            self.checkpointer.request_save(urgent=is_new)
        return shard

    def report_shards(self, dataset: str, holder: ShardLeaseHolder, done: list[int], failed: list[int]) -> None:
        """Take note of what became of shards."""
        data = self.dispatcher.get_dataset(dataset)
        self.dispatcher.renew_lease(holder, self.time())
        self._mark_shards_done({dataset: done})
        returned = sum([data.return_shard(position, holder) for position in failed])
        self._on_shards_returned(returned, f"{holder.member} could not learn them")
        self._stop_awaiting_reports({holder.member})

    def handle_heartbeat(self, report: HeartbeatRequest) -> dict[str, Any]:
        """Take down how a process fares; tells it what has changed meanwhile."""
        holder, now = report.holder, self.time()
        self.dispatcher.renew_lease(holder, now)
        self._mark_shards_done(report.done)
        self.dispatcher.confirm_held(holder, report.holding)
        self._stop_awaiting_reports({holder.member})
        before = self.heartbeats().get(holder.member)
        beat = self._heartbeats.record(holder, report.process_report, self._clock.now(), now)
        self._throughput.record_samples(holder.member, holder, report.samples, now)
        self.goodput.record_progress(beat.step, _has_new_samples(before, beat), now)
        if self.membership.advance_generation(report.generation):
            self.request_save()
        answer: dict[str, Any] = {
            "generation": self.membership.generation,
            "ps_version": self.parameter_servers.version,
            "every": max(self.timing.beat, len(self._members) / 200),
        }
        if report.round is not None:
            is_over = self.rendezvous.must_rejoin(holder.member, report.round)
            answer |= {"restart": is_over, "round": self.rendezvous.round_number + is_over}
        return answer

    def join_rendezvous(self, holder: ShardLeaseHolder, address: str) -> int:
        """Have a worker wait for the next round; tells its number."""
        now = self.time()
        self.dispatcher.renew_lease(holder, now)
        self.rendezvous.join(holder.member, address, now)
        number = self.rendezvous.round_number + 1
        if self.rendezvous.may_be_complete:
            self._close_round(now)
        return number

    def tick(self) -> None:
        """Do what is due; call it a few times a second."""
        now = self.time()
        if now >= self._recovery_ends_at:
            self._stop_awaiting_reports(None)
        self._on_shards_returned(self.dispatcher.expire_leases(now), "their holders fell silent")
        self._close_round(now)
        self._notify_membership(now)
        self.goodput.advance_time(now)
        if self._throughput.update_window(now):
            self.request_save()

    def request_save(self) -> None:
        """Have everything saved soon: within a second."""
        self.checkpointer.request_save()

    async def load_state(self) -> bool:
        """Take over what the last master knew; False if there was none. Call it before serving."""
        value = await self.checkpointer.load_checkpoint()
        if value is None:
            return False
        blank = self._dump_state()
        try:
            self._restore_state(value)
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError, UserError) as problem:
            log.error("memory left aside", extra={"because": f"it makes no sense: {problem!r}"})
            self._restore_state(blank)
            return False
        return True

    def _restore_state(self, state: Mapping[str, Any]) -> None:
        self.membership.load_state(state["membership"])
        workers = [MemberKey(member.type, member.id) for member in self.membership.members]
        self.dispatcher.load_state(state["work"], [key for key in workers if key.type in WORKER_TYPES])
        self._known_keys = {*self.dispatcher.shard_takers, *workers}
        self._recovery_ends_at = self.time() + self.timing.recall
        self.rendezvous.load_state(state["rounds"])
        self._throughput.load_state(state["speeds"])
        self.goodput.load_state(state["progress"])
        self.parameter_servers = ParameterServerSet(state["ps"][0], tuple(state["ps"][1]))
        self.brain_state = dict(state["brain"])

    def _dump_state(self) -> dict[str, Any]:
        return {
            "work": self.dispatcher.dump_state(),
            "membership": self.membership.dump_state(),
            "rounds": self.rendezvous.dump_state(),
            "speeds": self._throughput.dump_state(),
            "progress": self.goodput.dump_state(),
            "ps": [self.parameter_servers.version, list(self.parameter_servers.hosts)],
            "brain": self.brain_state,
        }

    async def run(self, host: str | None, port: int, on_listening: Callable[[int], None] | None = None) -> None:
        """Serve until cancelled, telling on which port; raises Superseded when another master took over."""
        from pliant.master.server.http import serve  # it knows this class

        await serve(self, host, port, on_listening)

    def _mark_shards_done(self, done: Mapping[str, list[int]]) -> None:
        if self.dispatcher.mark_done(done):
            self.goodput.record_progress(None, True, self.time())
            if any(self.dispatcher.get_dataset(name).is_done for name in done):
                self.shards_notifier.notify_all()
            self.checkpointer.request_save(urgent=False)

    def _stop_awaiting_reports(self, keys: Collection[MemberKey] | None) -> None:
        if self.dispatcher.stop_awaiting_reports(keys):
            self.shards_notifier.notify_all()

    def _close_round(self, now: float) -> None:
        if self.rendezvous.close_if_ready(now):
            size = len(self.rendezvous.slots)
            log.info("round closed", extra={"round": self.rendezvous.round_number, "workers": size})
            self.rendezvous_notifier.notify_all()
            self.request_save()

    def _notify_membership(self, now: float) -> None:
        """Wake those who wait for another generation; not for each of many members that start one by one."""
        if self._has_unsent_membership and now - self._notified_at >= len(self._members) / 500:
            self._notified_at, self._has_unsent_membership = now, False
            self.members_notifier.notify_all()

    def _on_shards_returned(self, count: int, reason: str) -> None:
        if count:
            log.info("shards came back", extra={"shards": count, "because": reason})
            self.shards_notifier.notify_all()
            self.request_save()


def _has_new_samples(previous: Heartbeat | None, heartbeat: Heartbeat) -> bool:
    """Whether a member that counts no steps has learned from more samples."""
    return previous is not None and heartbeat.step is None and (heartbeat.samples or 0.0) > (previous.samples or 0.0)
