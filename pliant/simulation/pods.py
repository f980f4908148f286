"""The lives of simulated pods: they wait for a place, start, run, leave, and are gone.

The scheduler takes pods in the order of their creation. Those that fit nowhere wait, by priority and then by age,
for room that becomes free; nobody is evicted for them. As no other node can have room for a shape that was turned
away, only nodes that somebody has left are asked again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from heapq import heapify, heappop, heappush
from random import Random
from typing import Any, Protocol

from pliant.simulation.agenda import Agenda
from pliant.simulation.crews import Crew, Pod, State
from pliant.simulation.delays import Delays
from pliant.simulation.machines import Machines, Needs

Line = list[tuple[int, int, Pod]]
"""Pods of one shape that wait: by priority, then by age."""
Shortlist = list[tuple[int, int]]
"""Nodes that may have room for a shape, the best first."""


class Onlooker(Protocol):
    """Whoever wants to know."""

    def crew_changed(self, crew: Crew) -> None:
        """The number of its pods that run is another one, or their places are."""

    def pod_turned_away(self, crew: Crew) -> None:
        """Some of its pods fit nowhere."""

    def used_changed(self, cpu: int) -> None:
        """Pods that take up so much CPU began to run, or are gone if it is below 0."""

    def pod_started(self, pod: Pod) -> None:
        """It runs."""


class Pods:
    """Makes pods, places them and takes them away again."""

    def __init__(
        self, machines: Machines, agenda: Agenda, delays: Delays, random: Random, onlooker: Onlooker
    ) -> None:
        self.machines = machines
        self.waiting = 0
        self.elastic = [[0] * len(machines.resources) for _ in machines.names]
        """What members of elastic groups take up on each node."""
        self.lingering: dict[int, list[int]] = {}
        """What pods that leave still take up, on nodes that have some."""
        self.touched: set[int] = set()
        """Nodes on which something has changed since somebody emptied this."""
        self._agenda = agenda
        self._delays = delays
        self._random = random
        self._onlooker = onlooker
        self._number = 0
        self._lines: dict[Needs, Line] = {}
        self._freed: dict[int, None] = {}
        self._looks_again = False

    def _later(self, delay: float, action: Callable[[Any], None], argument: Any) -> None:
        self._agenda.at(self._agenda.now + self._delays.drawn(delay, self._random), action, argument)

    def create(self, crew: Crew, number: int) -> None:
        """So many more of a crew."""
        now = self._agenda.now
        made = [Pod(crew, now, self._number + index) for index in range(number)]
        self._number += number
        crew.pods += made
        crew.waiting += number
        self.waiting += number
        self._later(self._delays.place, self._place, made)

    def _place(self, pods: Sequence[Pod]) -> None:
        """The scheduler's first look at pods of one crew."""
        crew = pods[0].crew
        placed, is_turned_away = [], False
        for pod in pods:
            if pod.state is not State.WAITING:
                continue
            node = None if is_turned_away else self._room_for(crew.needs)
            if node is None:
                is_turned_away = True
                heappush(self._lines.setdefault(crew.needs, []), (-crew.priority, pod.order, pod))
            else:
                self._seat(pod, node)
                placed.append(pod)
        self._begin(placed)
        if is_turned_away:
            self._onlooker.pod_turned_away(crew)

    def _room_for(self, needs: Needs) -> int | None:
        if needs not in self._lines:
            return self.machines.best(needs)
        fitting = [node for node in self._freed if self.machines.fits(node, needs)]
        return min(fitting, key=self.machines.rank) if fitting else None

    def _seat(self, pod: Pod, node: int) -> None:
        self.machines.take(node, pod.crew.needs)
        pod.node, pod.state = node, State.STARTING
        if pod.crew.is_elastic:
            self._count(self.elastic[node], pod, 1)
        pod.crew.waiting -= 1
        self.waiting -= 1
        self.touched.add(node)

    def _count(self, account: list[int], pod: Pod, sign: int) -> None:
        for position, amount in pod.crew.needs or ():
            account[position] += sign * amount
        self.touched.add(pod.node)

    def _begin(self, placed: Sequence[Pod]) -> None:
        if placed:
            self._later(self._delays.start, self._start, placed)
            for crew in dict.fromkeys(pod.crew for pod in placed):
                self._onlooker.crew_changed(crew)

    def _start(self, pods: Sequence[Pod]) -> None:
        for pod in (started := [pod for pod in pods if pod.state is State.STARTING]):
            pod.state, pod.is_counted = State.RUNNING, True
            pod.crew.running += 1
            self._onlooker.pod_started(pod)
        self._onlooker.used_changed(sum(pod.crew.cpu for pod in started))
        for crew in dict.fromkeys(pod.crew for pod in started):
            self._onlooker.crew_changed(crew)

    def remove(self, crew: Crew, pods: Sequence[Pod]) -> None:
        """Take these of a crew away: at once if they wait, otherwise they leave."""
        gone = set(pods)
        crew.pods = [pod for pod in crew.pods if pod not in gone]
        leaving = [pod for pod in pods if pod.state is not State.WAITING]
        for pod in pods:
            if pod.state is State.WAITING:
                pod.state = State.GONE
                crew.waiting -= 1
                self.waiting -= 1
            else:
                crew.running -= pod.state is State.RUNNING
                pod.state = State.LEAVING
                if crew.is_elastic:
                    self._count(self.elastic[pod.node], pod, -1)
                self._count(self.lingering.setdefault(pod.node, [0] * len(self.machines.resources)), pod, 1)
        if leaving:
            self._later(self._delays.leave, self._free, leaving)
        self._onlooker.crew_changed(crew)

    def _free(self, pods: Iterable[Pod]) -> None:
        used = 0
        for pod in pods:
            self.machines.give(pod.node, pod.crew.needs)
            pod.state = State.GONE
            used += pod.crew.cpu * pod.is_counted
            self._count(self.lingering[pod.node], pod, -1)
            if not any(self.lingering[pod.node]):
                del self.lingering[pod.node]
            if self._lines:
                self._freed[pod.node] = None
        self._onlooker.used_changed(-used)
        if self._freed and not self._looks_again:
            self._looks_again = True
            self._later(self._delays.retry, self._look_again, None)

    def _look_again(self, _: object) -> None:
        """Seat those who wait on nodes that somebody has left."""
        self._looks_again = False
        lines, self._lines = self._lines, {}
        heads = [(*line[0][:2], needs) for needs, line in lines.items() if self._trim(line)]
        heapify(heads)
        shortlists: dict[Needs, Shortlist] = {}
        placed: list[Pod] = []
        while heads:
            *_, needs = heappop(heads)
            line = lines[needs]
            if needs not in shortlists:
                shortlists[needs] = self._shortlist(needs)
            node = self._first_of(shortlists[needs], needs)
            if node is None:
                self._lines[needs] = line
                continue
            pod = heappop(line)[2]
            self._seat(pod, node)
            placed.append(pod)
            if self._trim(line):
                heappush(heads, (*line[0][:2], needs))
        self._freed.clear()
        self._begin(placed)

    @staticmethod
    def _trim(line: Line) -> bool:
        """Forget those at the head of a line who wait no more; whether anybody is left."""
        while line and line[0][2].state is not State.WAITING:
            heappop(line)
        return bool(line)

    def _shortlist(self, needs: Needs) -> Shortlist:
        machines = self.machines
        found = [(machines.rank(node), node) for node in self._freed if machines.fits(node, needs)]
        heapify(found)
        return found

    def _first_of(self, shortlist: Shortlist, needs: Needs) -> int | None:
        """The best node of a shortlist, in which others may have sat down since it was made."""
        while shortlist:
            rank, node = shortlist[0]
            if not self.machines.fits(node, needs):
                heappop(shortlist)
            elif (now := self.machines.rank(node)) != rank:
                heappop(shortlist)
                heappush(shortlist, (now, node))
            else:
                return node
        return None
