"""The lifecycle of simulated pods: pending, starting, running, terminating, gone.

The scheduler takes pods in order of creation. Pods that fit nowhere wait, by priority and then by age, for freed
resources; nothing is evicted for them. Once a shape is unschedulable, only nodes that were freed since are tried.
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

PendingQueue = list[tuple[int, int, SimulatedPod]]  # pending pods of one shape, by priority and then by age
NodeShortlist = list[tuple[int, int]]  # nodes that may have room for a shape, the best first


class PodEventListener(Protocol):
    def on_pod_set_changed(self, pod_set: PodSet) -> None:
        """The number of running pods or their nodes have changed."""

    def on_pods_unschedulable(self, pod_set: PodSet) -> None:
        """Some pods fit on no node."""

    def on_cpu_usage_changed(self, cpu_delta: int) -> None:
        """Pods with this much CPU started, or are gone if it is negative."""

    def on_pod_started(self, pod: SimulatedPod) -> None: ...


class PodSimulator:
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
        """Resources used by replicas of elastic groups, by node."""
        self.terminating_usage: dict[int, list[int]] = {}  # resources still used by terminating pods, by node
        self.changed_nodes: set[int] = set()  # nodes that have changed since the set was last cleared
        self._event_queue = event_queue
        self._delays = delays
        self._random = random
        self._listener = listener
        self._next_sequence = 0
        self._pending_queues: dict[IndexedRequests, PendingQueue] = {}
        self._freed_nodes: dict[int, None] = {}
        self._is_retry_scheduled = False

    def _schedule_after(self, delay: float, callback: Callable[[Any], None], argument: Any) -> None:
        time = self._event_queue.now + self._delays.with_jitter(delay, self._random)
        self._event_queue.schedule(time, callback, argument)

    def create_pods(self, pod_set: PodSet, count: int) -> None:
        now = self._event_queue.now
        created = [SimulatedPod(pod_set, now, self._next_sequence + index) for index in range(count)]
        self._next_sequence += count
        pod_set.pods += created
        pod_set.pending_count += count
        self.pending_count += count
        self._schedule_after(self._delays.schedule, self._schedule_new_pods, created)

    def _schedule_new_pods(self, pods: Sequence[SimulatedPod]) -> None:
        pod_set = pods[0].pod_set
        placed, is_unschedulable = [], False
        for pod in pods:
            if pod.state is not SimulatedPodState.PENDING:
                continue
            node = None if is_unschedulable else self._find_node(pod_set.indexed_requests)
            if node is None:
                is_unschedulable = True
                heappush(
                    self._pending_queues.setdefault(pod_set.indexed_requests, []),
                    (-pod_set.priority, pod.sequence, pod),
                )
            else:
                self._bind_pod(pod, node)
                placed.append(pod)
        self._schedule_starts(placed)
        if is_unschedulable:
            self._listener.on_pods_unschedulable(pod_set)

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
            for pod_set in dict.fromkeys(pod.pod_set for pod in placed):
                self._listener.on_pod_set_changed(pod_set)

    def _start_pods(self, pods: Sequence[SimulatedPod]) -> None:
        for pod in (started := [pod for pod in pods if pod.state is SimulatedPodState.STARTING]):
            pod.state, pod.is_cpu_counted = SimulatedPodState.RUNNING, True
            pod.pod_set.running_count += 1
            self._listener.on_pod_started(pod)
        self._listener.on_cpu_usage_changed(sum(pod.pod_set.cpu for pod in started))
        for pod_set in dict.fromkeys(pod.pod_set for pod in started):
            self._listener.on_pod_set_changed(pod_set)

    def remove_pods(self, pod_set: PodSet, pods: Sequence[SimulatedPod]) -> None:
        """Remove pods of a pod set: pending ones at once, others after termination."""
        removed = set(pods)
        pod_set.pods = [pod for pod in pod_set.pods if pod not in removed]
        terminating = [pod for pod in pods if pod.state is not SimulatedPodState.PENDING]
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
        if terminating:
            self._schedule_after(self._delays.terminate, self._release_pods, terminating)
        self._listener.on_pod_set_changed(pod_set)

    def _release_pods(self, pods: Iterable[SimulatedPod]) -> None:
        freed_cpu = 0
        for pod in pods:
            self.nodes.release(pod.node, pod.pod_set.indexed_requests)
            pod.state = SimulatedPodState.GONE
            freed_cpu += pod.pod_set.cpu * pod.is_cpu_counted
            self._add_usage(self.terminating_usage[pod.node], pod, -1)
            if not any(self.terminating_usage[pod.node]):
                del self.terminating_usage[pod.node]
            if self._pending_queues:
                self._freed_nodes[pod.node] = None
        self._listener.on_cpu_usage_changed(-freed_cpu)
        if self._freed_nodes and not self._is_retry_scheduled:
            self._is_retry_scheduled = True
            self._schedule_after(self._delays.reschedule, self._schedule_pending_pods, None)

    def _schedule_pending_pods(self, _: object) -> None:
        self._is_retry_scheduled = False
        queues, self._pending_queues = self._pending_queues, {}
        heads = [(*queue[0][:2], requests) for requests, queue in queues.items() if self._drop_stale_head(queue)]
        heapify(heads)
        shortlists: dict[IndexedRequests, NodeShortlist] = {}
        placed: list[SimulatedPod] = []
        while heads:
            *_, requests = heappop(heads)
            queue = queues[requests]
            if requests not in shortlists:
                shortlists[requests] = self._shortlist_freed_nodes(requests)
            node = self._first_fitting(shortlists[requests], requests)
            if node is None:
                self._pending_queues[requests] = queue
                continue
            pod = heappop(queue)[2]
            self._bind_pod(pod, node)
            placed.append(pod)
            if self._drop_stale_head(queue):
                heappush(heads, (*queue[0][:2], requests))
        self._freed_nodes.clear()
        self._schedule_starts(placed)

    @staticmethod
    def _drop_stale_head(queue: PendingQueue) -> bool:
        """Drop pods that are no longer pending from the head of a queue; return whether pods remain."""
        while queue and queue[0][2].state is not SimulatedPodState.PENDING:
            heappop(queue)
        return bool(queue)

    def _shortlist_freed_nodes(self, indexed_requests: IndexedRequests) -> NodeShortlist:
        nodes = self.nodes
        shortlist = [
            (nodes.preference_rank(node), node) for node in self._freed_nodes if nodes.has_room(node, indexed_requests)
        ]
        heapify(shortlist)
        return shortlist

    def _first_fitting(self, shortlist: NodeShortlist, indexed_requests: IndexedRequests) -> int | None:
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
