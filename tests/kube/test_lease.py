from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from datetime import timedelta
from itertools import count, pairwise
from typing import Any

import msgspec
import pytest

from pliant.errors import Forbidden, LeaseLost, UserError
from pliant.kube.client import KubeClient
from pliant.kube.election.elector import LeaderElector
from pliant.kube.election.lease import LeaseCandidate, LeaseTimings, generate_process_identity
from pliant.kube.resources import CONFIG_MAPS, LEASES
from pliant.kube.transport.base import Reply, Request
from tests.depth import sample
from tests.embedded.serving import Served, config, serving
from tests.kube.machines import Line, Machine, Sent, tasks_belong_to_machines
from tests.virtual_time import on_virtual_time, passing, quiet, run

TERMS = LeaseTimings()
LEASE = TERMS.duration.total_seconds()
DEADLINE = TERMS.renew_deadline.total_seconds()
MARK = "/configmaps/mark"
"""Where leaders leave a mark now and then: that is all their work."""


class Site:
    """One API server and the machines around it."""

    def __init__(self, served: Served) -> None:
        self.client = served.client
        self.sent: list[Sent] = []
        self.leads: list[tuple[float, str]] = []
        """From when on the server knew whom as the leader."""
        self._changes: list[tuple[int, str]] = []
        """The same, counted in requests that had been begun: many things happen in one moment."""
        self._transport = served.transport

    def machine(self, name: str, *, skew: timedelta = timedelta(0)) -> Machine:
        return Machine(name, self, self.sent, skew=skew)

    async def send(self, request: Request) -> Reply:
        """Carry out a request, and note who leads after it."""
        reply = await self._transport.send(request)
        if request.method != "GET" and "/leases" in request.path and reply.status < 300:
            holder = msgspec.json.decode(reply.body)["spec"].get("holderIdentity") or ""
            if self.leader != holder:
                self.note_leader(holder)
        return reply

    def note_leader(self, name: str) -> None:
        self.leads.append((now(), name))
        self._changes.append((len(self.sent), name))

    def stream(self, request: Request) -> Any:
        return self._transport.stream(request)

    async def aclose(self) -> None:
        """Nothing is held."""

    @property
    def leader(self) -> str:
        return self.leads[-1][1] if self.leads else ""

    def marks(self, machine: Machine) -> list[float]:
        """When a machine began to do a leader's work."""
        return [sent.at for sent in self.sent if sent.machine == machine.name and MARK in sent.request.path]

    def check(self) -> None:
        """Every piece of a leader's work was begun while the server knew it as the leader."""
        for number, sent in enumerate(self.sent):
            if MARK in sent.request.path:
                leader = [who for since, who in self._changes if since <= number][-1]
                assert leader.startswith(sent.machine), sent


@asynccontextmanager
async def a_site() -> AsyncIterator[Site]:
    async with serving() as served:
        tasks_belong_to_machines()
        site = Site(served)
        await site.client.create(CONFIG_MAPS, "default", config("mark"))
        yield site
        site.check()


def elector(machine: Machine, terms: LeaseTimings = TERMS, life: int = 0) -> LeaderElector:
    identity = f"{machine.name}{life or ''}"
    candidacy = LeaseCandidate(namespace="default", name="pliant", identity=identity)
    return LeaderElector(machine, candidacy, terms, now=machine.now, uptime=machine.uptime)


async def work(client: KubeClient) -> None:
    """Leave marks for ever, whatever happens to them."""
    while True:
        with suppress(Exception):
            await client.patch(CONFIG_MAPS, "default", "mark", {"data": {"x": "y"}})
        await asyncio.sleep(0.25)


def candidate(machine: Machine) -> asyncio.Task[None]:
    return machine.start(elector(machine).run_as_leader(work))


async def end_of(*tasks: asyncio.Task[None]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def now() -> float:
    return asyncio.get_running_loop().time()


@on_virtual_time
async def test_the_first_leads_at_once_and_the_second_stands_by() -> None:
    async with a_site() as site:
        first, second = site.machine("first"), site.machine("second")
        tasks = [candidate(first)]
        await quiet()
        tasks.append(candidate(second))
        await passing(timedelta(minutes=10))
        assert site.leads == [(0, "first")]
        assert site.marks(first)
        assert not site.marks(second)
        lease = await site.client.get(LEASES, "default", "pliant")
        assert lease["spec"]["leaseDurationSeconds"] == LEASE
        assert lease["spec"]["leaseTransitions"] == 0
        await end_of(*tasks)


@on_virtual_time
async def test_a_standby_asks_for_nothing_while_the_leader_lives() -> None:
    async with a_site() as site:
        tasks = [candidate(site.machine("first"))]
        await quiet()
        tasks.append(candidate(site.machine("second")))
        await passing(timedelta(seconds=1))
        before = len([sent for sent in site.sent if sent.machine == "second"])
        await passing(timedelta(minutes=4))
        assert len([sent for sent in site.sent if sent.machine == "second"]) == before
        await end_of(*tasks)


@pytest.mark.parametrize("moment", [0.1, 1.0, 1.999, 2.0, 2.001, 7.3])
@on_virtual_time
async def test_a_dead_leader_is_followed_within_its_lease_and_a_tenth(moment: float) -> None:
    async with a_site() as site:
        first, second = site.machine("first"), site.machine("second")
        tasks = [candidate(first)]
        await quiet()
        tasks.append(candidate(second))
        await passing(timedelta(seconds=moment))
        first.freeze()  # for ever: dead
        died = now()
        await passing(timedelta(seconds=LEASE * 1.1))
        assert site.leader == "second"
        assert LEASE - TERMS.retry_period.total_seconds() - 0.1 <= site.leads[-1][0] - died <= LEASE * 1.1
        first.thaw()
        await end_of(*tasks)


@pytest.mark.parametrize("frozen_for", [8.5, 10.5, 13.5, 15.1, 30.0, 600.0])
@on_virtual_time
async def test_a_leader_that_was_frozen_starts_nothing_after_its_deadline(frozen_for: float) -> None:
    async with a_site() as site:
        first, second = site.machine("first"), site.machine("second")
        leading = candidate(first)
        await quiet()
        standby = candidate(second)
        await passing(timedelta(seconds=5))
        renewed = max(s.at for s in site.sent if s.machine == "first" and s.request.path.endswith("/pliant"))
        first.freeze()
        await passing(timedelta(seconds=frozen_for))
        assert site.leader == ("second" if frozen_for > LEASE else "first")
        first.thaw()
        await passing(timedelta(seconds=5))
        late = [sent for sent in site.sent if sent.machine == "first" and sent.at >= renewed + DEADLINE]
        if frozen_for < DEADLINE - 1:
            assert not leading.done()
        else:
            assert late == []
            with pytest.raises(LeaseLost):
                await leading
        await end_of(leading, standby)


@pytest.mark.parametrize("line", [Line.REFUSING, Line.SILENT, Line.DEAF])
@on_virtual_time
async def test_a_leader_that_cannot_renew_steps_down_before_its_lease_ends(line: Line) -> None:
    async with a_site() as site:
        first, second = site.machine("first"), site.machine("second")
        leading = candidate(first)
        await quiet()
        standby = candidate(second)
        await passing(timedelta(seconds=5))
        first.line = line
        cut = now()
        with pytest.raises(LeaseLost, match="default/pliant"):
            await leading
        assert DEADLINE - TERMS.retry_period.total_seconds() <= now() - cut <= DEADLINE
        assert site.marks(first)[-1] <= cut + DEADLINE
        await passing(timedelta(seconds=LEASE))
        assert site.leader == "second"
        await end_of(standby)


@on_virtual_time
async def test_the_reason_is_told_in_full_also_when_the_work_meets_the_fence_before_the_keeper_does() -> None:
    async def careful(client: KubeClient) -> None:
        while True:
            await asyncio.sleep(0.001)  # shorter than the keeper's tick
            await client.patch(CONFIG_MAPS, "default", "mark", {"data": {"x": "y"}})

    async with a_site() as site:
        first = site.machine("first")
        leading = first.start(elector(first).run_as_leader(careful))
        await passing(timedelta(seconds=1))
        first.freeze()
        await passing(timedelta(seconds=LEASE))
        first.thaw()
        with pytest.raises(LeaseLost, match="default/pliant could not be renewed within 10s: the process was paused"):
            await leading


@on_virtual_time
async def test_an_outage_shorter_than_the_deadline_is_nothing() -> None:
    async with a_site() as site:
        first = site.machine("first")
        leading = candidate(first)
        await passing(timedelta(seconds=3))
        for line in (Line.REFUSING, Line.SILENT, Line.DEAF):
            first.line = line
            await passing(timedelta(seconds=5.5))
            first.line = Line.FINE
            await passing(timedelta(seconds=6))
        assert not leading.done()
        assert site.leads == [(0, "first")]
        await end_of(leading)


@pytest.mark.parametrize("skews", [(-300, 300), (300, -300), (1e7, -1e7)])
@on_virtual_time
async def test_clocks_that_disagree_change_nothing(skews: tuple[float, float]) -> None:
    async with a_site() as site:
        first, second = (
            site.machine(name, skew=timedelta(seconds=skew)) for name, skew in zip("ab", skews, strict=True)
        )
        tasks = [candidate(first)]
        await quiet()
        tasks.append(candidate(second))
        await passing(timedelta(minutes=5))
        assert site.leader == "a"
        first.freeze()
        died = now()
        await passing(timedelta(seconds=LEASE * 1.1))
        assert site.leader == "b"
        assert site.leads[-1][0] - died >= DEADLINE
        first.thaw()
        await end_of(*tasks)


@on_virtual_time
async def test_a_leader_that_stops_finishes_its_work_and_hands_over_at_once() -> None:
    async with a_site() as site:
        first, second = site.machine("first"), site.machine("second")
        finished: list[float] = []

        async def careful(client: KubeClient) -> None:
            try:
                await asyncio.Event().wait()
            finally:
                await passing(timedelta(seconds=20))  # the lease is renewed meanwhile
                await work_once(client)
                finished.append(now())

        leading = first.start(elector(first).run_as_leader(careful))
        await quiet()
        standby = candidate(second)
        await passing(timedelta(seconds=3))
        leading.cancel()
        with pytest.raises(asyncio.CancelledError):
            await leading
        await quiet()
        assert finished == pytest.approx([23], abs=0.1)
        assert site.leader == "second"
        assert site.leads[-1][0] == pytest.approx(23, abs=0.1)
        await end_of(standby)
        assert site.leader == ""


@on_virtual_time
async def test_a_lease_is_given_back_though_the_answer_to_its_renewal_was_lost() -> None:
    async with a_site() as site:
        first, second = site.machine("first"), site.machine("second")
        leading = candidate(first)
        await quiet()
        standby = candidate(second)
        await passing(timedelta(seconds=3))
        first.line = Line.DEAF
        await passing(timedelta(seconds=2))
        first.line = Line.FINE
        await end_of(leading)
        await quiet()
        assert [who for _, who in site.leads] == ["first", "", "second"]
        await end_of(standby)


async def work_once(client: KubeClient) -> None:
    await client.patch(CONFIG_MAPS, "default", "mark", {"data": {"x": "y"}})


@on_virtual_time
async def test_work_that_fails_gives_the_lease_back() -> None:
    async with a_site() as site:

        async def broken(client: KubeClient) -> None:
            raise RuntimeError("boom")

        machine = site.machine("first")
        with pytest.raises(ExceptionGroup) as failed:
            await elector(machine).run_as_leader(broken)
        assert failed.group_contains(RuntimeError, match="boom")
        assert site.leader == ""


@on_virtual_time
async def test_a_lease_edited_or_deleted_by_hand_is_kept() -> None:
    async with a_site() as site:
        first, second = site.machine("first"), site.machine("second")
        tasks = [candidate(first)]
        await quiet()
        tasks.append(candidate(second))
        await passing(timedelta(seconds=3))
        await site.client.patch(LEASES, "default", "pliant", {"metadata": {"labels": {"a": "b"}}})
        await passing(timedelta(seconds=30))
        await site.client.delete(LEASES, "default", "pliant")
        await passing(timedelta(seconds=30))
        assert {who for _, who in site.leads} == {"first"}
        assert (await site.client.get(LEASES, "default", "pliant"))["spec"]["holderIdentity"] == "first"
        await end_of(*tasks)


@on_virtual_time
async def test_a_lease_taken_away_by_hand_ends_the_work_at_once() -> None:
    async with a_site() as site:
        machine = site.machine("first")
        leading = candidate(machine)
        await passing(timedelta(seconds=3))
        await site.client.patch(LEASES, "default", "pliant", {"spec": {"holderIdentity": "boss"}})
        with pytest.raises(LeaseLost, match="boss acquired the lease default/pliant"):
            await leading
        assert now() <= 3 + TERMS.retry_period.total_seconds()


@on_virtual_time
async def test_a_right_that_is_lacking_is_told_at_once() -> None:
    async with a_site() as site:
        machine = site.machine("first")

        async def refuse(request: Request) -> Reply:
            return Reply(status=403, body=b'{"reason": "Forbidden", "message": "leases is forbidden"}')

        machine.send = refuse  # type: ignore[method-assign]
        with pytest.raises(Forbidden, match="leases is forbidden"):
            await elector(machine).run_as_leader(work)


@on_virtual_time
async def test_writes_wait_no_longer_than_the_lease_lasts_and_reads_as_long_as_they_like() -> None:
    async with a_site() as site:
        machine = site.machine("first")

        async def both(client: KubeClient) -> None:
            await passing(timedelta(seconds=1))
            await work_once(client)
            await client.get(CONFIG_MAPS, "default", "mark")

        await elector(machine).run_as_leader(both)
        put, got = [sent.request for sent in site.sent if MARK in sent.request.path]
        assert put.timeout == pytest.approx(LEASE - 1, abs=0.01)
        assert got.timeout == 30


def test_terms_that_cannot_work_are_refused() -> None:
    assert LeaseTimings.from_duration(timedelta(seconds=15)) == LeaseTimings()
    assert LeaseTimings.from_duration(timedelta(seconds=3)).retry_period == timedelta(seconds=0.4)
    with pytest.raises(UserError, match="longer than the renew deadline"):
        LeaseTimings.from_duration(timedelta(seconds=5), timedelta(seconds=5))
    with pytest.raises(UserError, match="at least 1s"):
        LeaseTimings.from_duration(timedelta(seconds=0.5))


def test_no_two_processes_are_called_the_same() -> None:
    assert generate_process_identity() != generate_process_identity()


async def reborn(machine: Machine, chance: random.Random) -> None:
    """Compete again and again, as a process that somebody restarts."""
    for life in count(1):
        terms = LeaseTimings.from_duration(timedelta(seconds=chance.choice((3, 15))))
        with suppress(Exception):
            await elector(machine, terms, life).run_as_leader(work)
        await asyncio.sleep(chance.uniform(0, 2))


async def _upheaval(seed: int) -> None:
    chance = random.Random(seed)
    async with a_site() as site:
        machines = [site.machine(name, skew=timedelta(seconds=chance.uniform(-300, 300))) for name in "abc"]
        tasks = [machine.start(reborn(machine, random.Random(seed + i))) for i, machine in enumerate(machines)]
        for _ in range(40):
            machine = chance.choice(machines)
            match chance.choice(("freeze", "freeze", "cut", "cut", "wait")):
                case "freeze":
                    machine.freeze()
                case "cut":
                    machine.line = chance.choice((Line.REFUSING, Line.SILENT, Line.DEAF))
            await passing(timedelta(seconds=chance.choice((0.01, 1, 5, 16, 40)) * chance.random()))
            for other in machines:
                if chance.random() < 0.4:
                    other.thaw()
                    other.line = Line.FINE
        for machine in machines:
            machine.thaw()
            machine.line = Line.FINE
        healed = now()
        await passing(timedelta(seconds=40))
        assert max(mark for machine in machines for mark in site.marks(machine)) > healed + 30
        assert all(earlier <= later for (earlier, _), (later, _) in pairwise(site.leads))
        await end_of(*tasks)


@pytest.mark.parametrize("seed", [0, *sample(range(1, 512), 5, "upheavals")])
def test_in_any_upheaval_only_the_leader_works_and_in_the_end_somebody_does(seed: int) -> None:
    run(_upheaval(seed))
