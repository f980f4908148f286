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

from pliant.simulation.delays import SimulatedDelays
from pliant.simulation.event_queue import EventQueue
from pliant.simulation.nodes import IndexedRequests, SimulatedNodes
from pliant.simulation.workloads import PodSet, SimulatedPod, SimulatedPodState

PendingQueue = list[tuple[int, int, SimulatedPod]]
"""Pods of one shape that wait: by priority, then by age."""
NodeShortlist = list[tuple[int, int]]
"""Nodes that may have room for a shape, the best first."""


class PodEventListener(Protocol):
    """Whoever wants to know."""

    def on_pod_set_changed(self, pod_set: PodSet) -> None:
        """The number of its pods that run is another one, or their places are."""

    def on_pods_unschedulable(self, pod_set: PodSet) -> None:
        """Some of its pods fit nowhere."""

    def on_cpu_usage_changed(self, cpu_delta: int) -> None:
        """Pods that take up so much CPU began to run, or are gone if it is below 0."""

    def on_pod_started(self, pod: SimulatedPod) -> None:
        """It runs."""


class PodSimulator:
    """Makes pods, places them and takes them away again."""

    def __init__(
        self,
        nodes: SimulatedNodes,
        event_queue: EventQueue,
        delays: SimulatedDelays,
        random: Random,
        listener: PodEventListener,
    ) -> None:
        self.nodes = nodes
        self.pending_count = 0
        self.elastic_usage = [[0] * len(nodes.resources) for _ in nodes.node_names]
        """What members of elastic groups take up on each node."""
        self.terminating_usage: dict[int, list[int]] = {}
        """What pods that leave still take up, on nodes that have some."""
        self.changed_nodes: set[int] = set()
        """Nodes on which something has changed since somebody emptied this."""
        self._event_queue = event_queue
        self._delays = delays
        self._random = random
        self._listener = listener
        self._next_sequence = 0
        self._pending_queues: dict[IndexedRequests, PendingQueue] = {}
        self._freed_nodes: dict[int, None] = {}
        self._is_retry_scheduled = False

    def _schedule_after(self, delay: float, callback: Callable[[Any], None], argument: Any) -> None:
        self._event_queue.schedule(
            self._event_queue.now + self._delays.with_jitter(delay, self._random), callback, argument
        )

    def create(self, pod_set: PodSet, count: int) -> None:
        """So many more of a crew."""
        now = self._event_queue.now
        made = [SimulatedPod(pod_set, now, self._next_sequence + index) for index in range(count)]
        self._next_sequence += count
        pod_set.pods += made
        pod_set.pending_count += count
        self.pending_count += count
        self._schedule_after(self._delays.place, self._schedule_new_pods, made)

    def _schedule_new_pods(self, pods: Sequence[SimulatedPod]) -> None:
        """The scheduler's first look at pods of one crew."""
        crew = pods[0].pod_set
        placed, is_turned_away = [], False
        for pod in pods:
            if pod.state is not SimulatedPodState.PENDING:
                continue
            node = None if is_turned_away else self._find_node(crew.indexed_requests)
            if node is None:
                is_turned_away = True
                heappush(
                    self._pending_queues.setdefault(crew.indexed_requests, []), (-crew.priority, pod.sequence, pod)
                )
            else:
                self._bind_pod(pod, node)
                placed.append(pod)
        self._schedule_starts(placed)
        if is_turned_away:
            self._listener.on_pods_unschedulable(crew)

    def _find_node(self, indexed_requests: IndexedRequests) -> int | None:
        if indexed_requests not in self._pending_queues:
            return self.nodes.best_node(indexed_requests)
        fitting = [node for node in self._freed_nodes if self.nodes.has_room(node, indexed_requests)]
        return min(fitting, key=self.nodes.preference_rank) if fitting else None

    def _bind_pod(self, pod: SimulatedPod, node: int) -> None:
        self.nodes.allocate(node, pod.pod_set.indexed_requests)
        pod.node, pod.state = node, SimulatedPodState.STARTING
        if pod.pod_set.is_elastic:
            self._add_usage(self.elastic_usage[node], pod, 1)
        pod.pod_set.pending_count -= 1
        self.pending_count -= 1
        self.changed_nodes.add(node)

    def _add_usage(self, usage: list[int], pod: SimulatedPod, sign: int) -> None:
        for position, amount in pod.pod_set.indexed_requests or ():
            usage[position] += sign * amount
        self.changed_nodes.add(pod.node)

    def _schedule_starts(self, placed: Sequence[SimulatedPod]) -> None:
        if placed:
            self._schedule_after(self._delays.start, self._start_pods, placed)
            for crew in dict.fromkeys(pod.pod_set for pod in placed):
                self._listener.on_pod_set_changed(crew)

    def _start_pods(self, pods: Sequence[SimulatedPod]) -> None:
        for pod in (started := [pod for pod in pods if pod.state is SimulatedPodState.STARTING]):
            pod.state, pod.is_cpu_counted = SimulatedPodState.RUNNING, True
            pod.pod_set.running_count += 1
            self._listener.on_pod_started(pod)
        self._listener.on_cpu_usage_changed(sum(pod.pod_set.cpu for pod in started))
        for crew in dict.fromkeys(pod.pod_set for pod in started):
            self._listener.on_pod_set_changed(crew)

    def remove(self, pod_set: PodSet, pods: Sequence[SimulatedPod]) -> None:
        """Take these of a crew away: at once if they wait, otherwise they leave."""
        gone = set(pods)
        pod_set.pods = [pod for pod in pod_set.pods if pod not in gone]
        leaving = [pod for pod in pods if pod.state is not SimulatedPodState.PENDING]
        for pod in pods:
            if pod.state is SimulatedPodState.PENDING:
                pod.state = SimulatedPodState.GONE
                pod_set.pending_count -= 1
                self.pending_count -= 1
            else:
                pod_set.running_count -= pod.state is SimulatedPodState.RUNNING
                pod.state = SimulatedPodState.TERMINATING
                if pod_set.is_elastic:
                    self._add_usage(self.elastic_usage[pod.node], pod, -1)
                self._add_usage(self.terminating_usage.setdefault(pod.node, [0] * len(self.nodes.resources)), pod, 1)
        if leaving:
            self._schedule_after(self._delays.leave, self._release_pods, leaving)
        self._listener.on_pod_set_changed(pod_set)

    def _release_pods(self, pods: Iterable[SimulatedPod]) -> None:
        used = 0
        for pod in pods:
            self.nodes.release(pod.node, pod.pod_set.indexed_requests)
            pod.state = SimulatedPodState.GONE
            used += pod.pod_set.cpu * pod.is_cpu_counted
            self._add_usage(self.terminating_usage[pod.node], pod, -1)
            if not any(self.terminating_usage[pod.node]):
                del self.terminating_usage[pod.node]
            if self._pending_queues:
                self._freed_nodes[pod.node] = None
        self._listener.on_cpu_usage_changed(-used)
        if self._freed_nodes and not self._is_retry_scheduled:
            self._is_retry_scheduled = True
            self._schedule_after(self._delays.retry, self._schedule_pending_pods, None)

    def _schedule_pending_pods(self, _: object) -> None:
        """Seat those who wait on nodes that somebody has left."""
        self._is_retry_scheduled = False
        lines, self._pending_queues = self._pending_queues, {}
        heads = [(*line[0][:2], needs) for needs, line in lines.items() if self._drop_stale_head(line)]
        heapify(heads)
        shortlists: dict[IndexedRequests, NodeShortlist] = {}
        placed: list[SimulatedPod] = []
        while heads:
            *_, needs = heappop(heads)
            line = lines[needs]
            if needs not in shortlists:
                shortlists[needs] = self._shortlist_freed_nodes(needs)
            node = self._first_fitting(shortlists[needs], needs)
            if node is None:
                self._pending_queues[needs] = line
                continue
            pod = heappop(line)[2]
            self._bind_pod(pod, node)
            placed.append(pod)
            if self._drop_stale_head(line):
                heappush(heads, (*line[0][:2], needs))
        self._freed_nodes.clear()
        self._schedule_starts(placed)

    @staticmethod
    def _drop_stale_head(queue: PendingQueue) -> bool:
        """Forget those at the head of a line who wait no more; whether anybody is left."""
        while queue and queue[0][2].state is not SimulatedPodState.PENDING:
            heappop(queue)
        return bool(queue)

    def _shortlist_freed_nodes(self, indexed_requests: IndexedRequests) -> NodeShortlist:
        machines = self.nodes
        found = [
            (machines.preference_rank(node), node)
            for node in self._freed_nodes
            if machines.has_room(node, indexed_requests)
        ]
        heapify(found)
        return found

    def _first_fitting(self, shortlist: NodeShortlist, indexed_requests: IndexedRequests) -> int | None:
        """The best node of a shortlist, in which others may have sat down since it was made."""
        while shortlist:
            rank, node = shortlist[0]
            if not self.nodes.has_room(node, indexed_requests):
                heappop(shortlist)
            elif (now := self.nodes.preference_rank(node)) != rank:
                heappop(shortlist)
                heappush(shortlist, (now, node))
            else:
                return node
        return None
