"""The pods of a Job by what they mean for it: active, terminating, succeeded, failed; pure functions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from functools import cached_property

from pliant.embedded.controllers.workloads.job_policies import match_failure_policy
from pliant.embedded.controllers.workloads.job_views import (
    Job,
    completion_index,
    finished_at,
    index_failure_count,
    is_tracked,
)
from pliant.embedded.controllers.workloads.pod_ranking import order_for_deletion
from pliant.embedded.controllers.workloads.views import is_active, is_terminating, ready_since
from pliant.embedded.index_ranges import IndexRanges
from pliant.kube.objects import Pod

INITIAL_BACKOFF = timedelta(seconds=10)
MAX_BACKOFF = timedelta(minutes=10)
_MAX_DOUBLINGS = 20
_MAX_INDEXES = 2**31


class JobPods:
    """What the pods of a job amount to, together with the results that its status already has."""

    def __init__(self, job: Job, pods: Sequence[Pod], now: datetime) -> None:
        self.job = job
        self.now = now
        self.pods = sorted(pods, key=lambda pod: (completion_index(pod) or 0, pod.metadata.name))
        self.active = [pod for pod in self.pods if is_active(pod)]
        self.terminating = sum(map(is_terminating, self.pods))
        self.ready = sum(ready_since(pod) is not None for pod in self.active)
        uncounted = job.status.get("uncountedTerminatedPods") or {}
        self.uncounted_succeeded: list[str] = list(uncounted.get("succeeded") or ())
        self.uncounted_failed: list[str] = list(uncounted.get("failed") or ())

    def is_failed(self, pod: Pod) -> bool:
        """Return whether a pod failed; a terminating pod counts as failed unless only failed pods are replaced."""
        if pod.status.phase in ("Failed", "Succeeded"):
            return pod.status.phase == "Failed"
        # A kubelet reports the end of a pod; a pod without a node has none.
        is_awaited = self.job.replaces_only_failed_pods and pod.spec.node_name
        return pod.metadata.deletion_timestamp is not None and not is_awaited

    @cached_property
    def new_succeeded(self) -> list[Pod]:
        return [x for x in self.unrecorded if x.status.phase == "Succeeded"]

    @cached_property
    def new_failed(self) -> list[Pod]:
        return [x for x in self.unrecorded if self.is_failed(x)]

    @cached_property
    def new_counted_failures(self) -> list[Pod]:
        return [pod for pod in self.new_failed if match_failure_policy(self.job, pod).is_counted]

    @cached_property
    def unrecorded(self) -> list[Pod]:
        """Return the tracked pods whose result the status does not have."""
        recorded = {*self.uncounted_succeeded, *self.uncounted_failed}
        return [x for x in self.pods if is_tracked(x) and x.metadata.uid not in recorded and self.is_valid(x)]

    def is_valid(self, pod: Pod) -> bool:
        """Return whether a pod of an indexed job has an index that the job still has."""
        index = completion_index(pod)
        return not self.job.is_indexed or (index is not None and index < (self.job.spec.completions or 0))

    @cached_property
    def succeeded_indexes(self) -> IndexRanges:
        known = IndexRanges.parse(self.job.status.get("completedIndexes") or "", _MAX_INDEXES)
        return known.union(_indexes_of(self.new_succeeded)).below(self.job.spec.completions or 0)

    @cached_property
    def failed_indexes(self) -> IndexRanges:
        """Return the indexes that failed too often for `backoffLimitPerIndex`, or by a rule of the failure policy."""
        known = IndexRanges.parse(self.job.status.get("failedIndexes") or "", _MAX_INDEXES)
        return known.union(_indexes_of(pod for pod in self.new_failed if self._fails_index(pod)))

    def _fails_index(self, pod: Pod) -> bool:
        limit, match = self.job.spec.backoff_limit_per_index, match_failure_policy(self.job, pod)
        if limit is None:
            return False
        return match.action == "FailIndex" or (match.is_counted and index_failure_count(pod) >= limit)

    @property
    def succeeded_count(self) -> int:
        if self.job.is_indexed:
            return self.succeeded_indexes.total
        return int(self.job.status.get("succeeded") or 0) + len(self.uncounted_succeeded) + len(self.new_succeeded)

    @property
    def failed_count(self) -> int:
        known = int(self.job.status.get("failed") or 0) + len(self.uncounted_failed)
        return known + len(self.new_counted_failures)

    @property
    def wanted(self) -> int:
        """Return how many pods should be active."""
        spec = self.job.spec
        if spec.completions is None:
            return len(self.active) if self.succeeded_count else spec.parallelism
        return max(min(spec.completions - self.succeeded_count - self._failed_forever.total, spec.parallelism), 0)

    @property
    def _failed_forever(self) -> IndexRanges:
        return self.failed_indexes if self.job.spec.backoff_limit_per_index is not None else IndexRanges()

    @property
    def is_complete(self) -> bool:
        completions = self.job.spec.completions
        has_succeeded = self.succeeded_count > 0 if completions is None else self.succeeded_count >= completions
        return has_succeeded and not self.active

    def surplus(self) -> list[Pod]:
        """Return the active pods to delete: those of invalid and repeated indexes first, then the least useful."""
        excess = len(self.active) - self.wanted
        seen: set[int | None] = set()
        unneeded = []
        for pod in self.active if self.job.is_indexed else ():
            index = completion_index(pod)
            if index in seen or not self.is_valid(pod):
                unneeded.append(pod)
            seen.add(index)
        others = [pod for pod in order_for_deletion(self.active) if pod not in unneeded]
        return [*unneeded, *others[: max(excess - len(unneeded), 0)]]

    def pending_indexes(self, count: int) -> list[int]:
        """Return the first indexes that have neither a result nor an active pod."""
        taken = self.succeeded_indexes.union(self._failed_forever).union(_indexes_of(self.active))
        if self.job.replaces_only_failed_pods:
            taken = taken.union(_indexes_of(pod for pod in self.pods if is_terminating(pod)))
        return taken.first_absent(count, self.job.spec.completions or 0)

    def last_failed(self, index: int) -> Pod | None:
        """Return the failed pod that a new pod of an index replaces."""
        failed = [x for x in self.pods if completion_index(x) == index and self.is_failed(x)]
        return max(failed, key=lambda x: (index_failure_count(x), finished_at(x, self.now)), default=None)

    def backoff(self) -> timedelta:
        """Return how long to wait for the next pod: the more pods failed since one succeeded, the longer."""
        successes = [finished_at(pod, self.now) for pod in self.pods if pod.status.phase == "Succeeded"]
        last_success = max(successes, default=None)
        ends = [finished_at(pod, self.now) for pod in self.pods if self.is_failed(pod)]
        ends = [end for end in ends if last_success is None or end > last_success]
        return self._remaining(len(ends), max(ends)) if ends else timedelta(0)

    def index_backoff(self, index: int) -> timedelta:
        failed = self.last_failed(index)
        return (
            self._remaining(index_failure_count(failed) + 1, finished_at(failed, self.now)) if failed else timedelta(0)
        )

    def _remaining(self, failures: int, last_failure: datetime) -> timedelta:
        factor: int = 2 ** min(failures - 1, _MAX_DOUBLINGS)
        delay = min(INITIAL_BACKOFF * factor, MAX_BACKOFF)
        return max(last_failure + delay - self.now, timedelta(0))


def _indexes_of(pods: Iterable[Pod]) -> IndexRanges:
    return IndexRanges.of(index for index in map(completion_index, pods) if index is not None)
