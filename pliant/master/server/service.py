"""The state that the master serves to the members of its job: shards, peers and heartbeats."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

from pliant.errors import UserError
from pliant.master.checkpoint import InMemoryMasterStateStore, MasterStateSaver, MasterStateStore
from pliant.master.data.dispatcher import ShardDispatcher
from pliant.master.data.shards import DatasetSpec, DataShard, MemberProcess
from pliant.master.members.heartbeats import GoodputTracker, HeartbeatTracker
from pliant.master.members.membership import (
    WORKER_TYPES,
    Membership,
    RendezvousRounds,
    RoundClosePolicy,
    find_ended_members,
)
from pliant.master.members.throughput import ThroughputMeter
from pliant.master.model import Heartbeat, JobMember, MemberKey, MemberStatus, ParameterServerSet
from pliant.master.server.authentication import ApiKeys
from pliant.master.server.messages import HeartbeatRequest
from pliant.master.server.notifier import LongPollNotifier
from pliant.runtime.clock import SYSTEM_CLOCK, Clock

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceTiming:
    """All times in seconds."""

    lease_duration: float = 60.0  # a process without a request for this long loses its shards
    settle_time: float = 10.0  # no measurement starts within this time after a change of workers
    throughput_window: float = 10.0  # minimum duration of one speed measurement
    pending_wait: float = 2.0  # how long a round that all running workers have joined waits for pending ones
    join_wait: float = 30.0  # how long a round waits for running workers that have not joined
    recovery_wait: float = 8.0
    """How long a new master waits for the reports of all members that took shards, before it assigns any."""
    save_interval: float = 1.0
    heartbeat_interval: float = 1.0  # interval of heartbeats with changed values; large jobs use a longer one


class MasterService:
    """Handles the requests of members; the control loop passes in the observed members."""

    def __init__(
        self,
        job_uid: str,
        *,
        store: MasterStateStore | None = None,
        clock: Clock | None = None,
        timing: ServiceTiming | None = None,
        min_workers: int = 1,
        time: Callable[[], float] = SYSTEM_CLOCK.monotonic,
    ) -> None:
        self.job_uid = job_uid
        self.brain_state: dict[str, Any] = {}
        """The saved state of the control loop, as JSON. Call `request_save` after a change."""
        self.timing = timing = timing or ServiceTiming()
        self.time = time
        self.dispatcher = ShardDispatcher(timing.lease_duration)
        self.membership = Membership()
        close_policy = RoundClosePolicy(
            min_workers=min_workers, pending_wait_seconds=timing.pending_wait, join_wait_seconds=timing.join_wait
        )
        self.rendezvous = RendezvousRounds(job_uid, close_policy)
        self.goodput = GoodputTracker()
        self.parameter_servers = ParameterServerSet()
        self.shards_notifier, self.members_notifier = LongPollNotifier(), LongPollNotifier()
        self.rendezvous_notifier, self.ps_notifier = LongPollNotifier(), LongPollNotifier()
        self.checkpointer = MasterStateSaver(
            store or InMemoryMasterStateStore(), self._dump_state, timing.save_interval
        )
        self.members: tuple[JobMember, ...] = ()
        self._clock = clock or SYSTEM_CLOCK
        self._known_keys: set[MemberKey] = set()
        """Members observed before: a program may call the service before its pod is observed."""
        self._heartbeats = HeartbeatTracker(timing.lease_duration)
        self._throughput = ThroughputMeter(timing.settle_time, timing.throughput_window)
        self._recovery_ends_at = 0.0
        self._notified_at = 0.0
        self._has_unsent_membership = False

    def set_members(self, members: tuple[JobMember, ...]) -> None:
        """Update all members from their pods; a call without a change is cheap.

        The first call must contain all members: the others count as gone. Shards of ended members are taken back, the
        membership gets a new generation, and a new rendezvous round forms.
        """
        now = self.time()
        lost, self.members = find_ended_members(self._known_keys, members), members
        self._known_keys = {member.key for member in members}
        self._on_shards_returned(self.dispatcher.release_shards_of_members(lost), "members are gone")
        self._stop_awaiting_reports(lost)
        running = {member.key for member in members if member.status is MemberStatus.RUNNING}
        self._throughput.set_workers(frozenset(key for key in running if key.type in WORKER_TYPES), now)
        self._heartbeats.retain_only_members(self._known_keys)
        was_forming = self.rendezvous.is_next_round_forming
        self.rendezvous.update_members(members)
        self._close_round(now)
        if self.membership.update_members(members):
            self._has_unsent_membership = True
            self._notify_membership(now)
            self.request_save()
        elif self.rendezvous.is_next_round_forming != was_forming:
            self.request_save()

    def set_parameter_servers(self, version: int, hosts: tuple[str, ...]) -> None:
        if self.parameter_servers != (servers := ParameterServerSet(version, hosts)):
            self.parameter_servers = servers
            self.ps_notifier.notify_all()
            self.request_save()

    def heartbeats(self) -> Mapping[MemberKey, Heartbeat]:
        return self._heartbeats.by_member()

    def speed_by_worker_count(self) -> Mapping[int, float]:
        """Return the median of the measured samples per second of all workers, by number of workers."""
        return self._throughput.speed_by_worker_count()

    def register_dataset(self, spec: DatasetSpec) -> None:
        if self.dispatcher.register_dataset(spec):
            log.info("dataset registered", extra={"dataset": spec.name, "shards": spec.total_shards})
            self.request_save()

    def take_shard(self, dataset: str, holder: MemberProcess, held_positions: list[int]) -> DataShard | None:
        """Assign the next shard to a process; take back assigned shards that it does not hold."""
        data = self.dispatcher.get_dataset(dataset)
        self.dispatcher.renew_lease(holder, self.time())
        if self.dispatcher.is_awaiting_reports:
            return None
        unknown = data.assign_reported_shards(holder, held_positions, release_others=True)
        self._on_shards_returned(unknown, "holder did not receive them")
        is_new = holder.member not in self.dispatcher.shard_takers
        shard = self.dispatcher.take_shard(dataset, holder)
        if shard is not None:
            self.checkpointer.request_save(urgent=is_new)
        return shard

    def record_shard_report(self, dataset: str, holder: MemberProcess, done: list[int], failed: list[int]) -> None:
        data = self.dispatcher.get_dataset(dataset)
        self.dispatcher.renew_lease(holder, self.time())
        self._mark_shards_done({dataset: done}, holder)
        returned = sum([data.return_failed_shard(position, holder) for position in failed])
        self._on_shards_returned(returned, f"{holder.member} failed to process them")
        self._stop_awaiting_reports({holder.member})

    def handle_heartbeat(self, report: HeartbeatRequest) -> dict[str, Any]:
        """Record the report of a process; return what has changed for it."""
        holder, now = report.sender, self.time()
        self.dispatcher.renew_lease(holder, now)
        self._mark_shards_done(report.done, holder)
        self.dispatcher.assign_reported_shards(holder, report.holding)
        self._stop_awaiting_reports({holder.member})
        previous = self.heartbeats().get(holder.member)
        heartbeat = self._heartbeats.record_process_report(holder, report.to_heartbeat(self._clock.now()), now)
        self._throughput.record_samples(holder.member, holder, report.samples, now)
        old_samples, samples = (previous.samples if previous else None) or 0.0, heartbeat.samples or 0.0
        has_new_samples = previous is not None and heartbeat.step is None and samples > old_samples
        self.goodput.record_progress(heartbeat.step, has_new_samples, now)
        if self.membership.advance_past_reported_generation(report.generation):
            self.request_save()
        response: dict[str, Any] = {
            "generation": self.membership.generation,
            "ps_version": self.parameter_servers.version,
            "heartbeat_interval": max(self.timing.heartbeat_interval, len(self.members) / 200),
        }
        if report.round is not None:
            must_rejoin = self.rendezvous.must_rejoin(holder.member, report.round)
            response |= {"restart": must_rejoin, "round": self.rendezvous.round_number + must_rejoin}
        return response

    def join_rendezvous(self, sender: MemberProcess, address: str) -> int:
        """Add a worker to the next round; return its number."""
        now = self.time()
        self.dispatcher.renew_lease(sender, now)
        self.rendezvous.join_next_round(sender.member, address, now)
        number = self.rendezvous.round_number + 1
        if self.rendezvous.may_be_complete:
            self._close_round(now)
        return number

    def tick(self) -> None:
        """Handle everything that depends on time; called several times a second."""
        now = self.time()
        if now >= self._recovery_ends_at:
            self._stop_awaiting_reports(None)
        if now >= self._recovery_ends_at + self.timing.lease_duration:
            self.dispatcher.end_recovery()
        self._on_shards_returned(self.dispatcher.expire_leases(now), "leases expired")
        self._close_round(now)
        self._notify_membership(now)
        self.goodput.advance_time(now)
        if self._throughput.update_window(now):
            self.request_save()

    def request_save(self) -> None:
        self.checkpointer.request_save()

    async def load_saved_state(self) -> bool:
        """Load the state of the last master before serving; return False if there is none."""
        saved = await self.checkpointer.load_and_claim_state()
        if saved is None:
            return False
        initial = self._dump_state()
        try:
            self._restore_state(saved)
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError, UserError) as error:
            log.error("saved state ignored", extra={"error": repr(error)})
            self._restore_state(initial)
            return False
        return True

    def _restore_state(self, state: Mapping[str, Any]) -> None:
        self.membership.load_state(state["membership"])
        members = [MemberKey(member.type, member.id) for member in self.membership.members]
        self.dispatcher.load_state(state["shards"], [key for key in members if key.type in WORKER_TYPES])
        self._known_keys = {*self.dispatcher.shard_takers, *members}
        self._recovery_ends_at = self.time() + self.timing.recovery_wait
        self.rendezvous.load_state(state["rendezvous"])
        self._throughput.load_state(state["throughput"])
        self.goodput.load_state(state["goodput"])
        version, hosts = state["parameter_servers"]
        self.parameter_servers = ParameterServerSet(version, tuple(hosts))
        self.brain_state = dict(state["brain"])

    def _dump_state(self) -> dict[str, Any]:
        return {
            "shards": self.dispatcher.dump_state(),
            "membership": self.membership.dump_state(),
            "rendezvous": self.rendezvous.dump_state(),
            "throughput": self._throughput.dump_state(),
            "goodput": self.goodput.dump_state(),
            "parameter_servers": [self.parameter_servers.version, list(self.parameter_servers.hosts)],
            "brain": self.brain_state,
        }

    async def serve_until_cancelled(
        self, keys: ApiKeys, host: str | None, port: int, on_listening: Callable[[int], None] | None = None
    ) -> None:
        """Serve until cancelled; raise `MasterSuperseded` when another master has taken over."""
        from pliant.master.server.http import serve_master_api  # imports this module

        await serve_master_api(self, keys, host, port, on_listening)

    def _mark_shards_done(self, done: Mapping[str, list[int]], holder: MemberProcess) -> None:
        if self.dispatcher.mark_shards_done(done, holder):
            self.goodput.record_progress(None, True, self.time())
            if any(self.dispatcher.get_dataset(name).is_done for name in done):
                self.shards_notifier.notify_all()
            self.checkpointer.request_save(urgent=False)

    def _stop_awaiting_reports(self, keys: Collection[MemberKey] | None) -> None:
        if self.dispatcher.stop_awaiting_reports(keys):
            self.shards_notifier.notify_all()

    def _close_round(self, now: float) -> None:
        if self.rendezvous.close_round_if_ready(now):
            size = len(self.rendezvous.slots)
            log.info("rendezvous round closed", extra={"round": self.rendezvous.round_number, "workers": size})
            self.rendezvous_notifier.notify_all()
            self.request_save()

    def _notify_membership(self, now: float) -> None:
        """Notify about a new generation, but not for each of many members that start one by one."""
        if self._has_unsent_membership and now - self._notified_at >= len(self.members) / 500:
            self._notified_at, self._has_unsent_membership = now, False
            self.members_notifier.notify_all()

    def _on_shards_returned(self, count: int, reason: str) -> None:
        if count:
            log.info("shards returned", extra={"shards": count, "reason": reason})
            self.shards_notifier.notify_all()
            self.request_save()
