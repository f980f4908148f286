"""Where the autoscaler leaves what it wants, for the jobs' own passes to find."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any, Protocol

from pliant.model.job import Job, JobKey
from pliant.model.observed import Wish

_NONE: Mapping[str, Wish] = MappingProxyType({})


class Listener(Protocol):
    """Whoever wants sizes of jobs, and has to know them for that."""

    def note(self, job: Job, progress: Mapping[str, Any]) -> None:
        """Take in a job as its own pass sees it, and what its members report."""

    def forget(self, kind: str, key: JobKey) -> None:
        """Take in that a job is gone; the kind has its API group with it."""


class Wishes:
    """The sizes wanted of groups, by the uid of their job; what was acted upon is in the job's own status."""

    def __init__(self) -> None:
        self.listener: Listener | None = None
        """Told of every job that is looked at."""
        self._wishes: dict[str, Mapping[str, Wish]] = {}

    def of(self, uid: str) -> Mapping[str, Wish]:
        """What is wanted of one job, by group."""
        return self._wishes.get(uid, _NONE)

    def put(self, uid: str, wishes: Mapping[str, Wish]) -> bool:
        """Want this of a job from now on; whether that is anything new."""
        before = self._wishes.get(uid)
        self._wishes[uid] = wishes
        return before != wishes

    def keep(self, uids: Iterable[str]) -> None:
        """Forget all other jobs."""
        kept = set(uids)
        self._wishes = {uid: wishes for uid, wishes in self._wishes.items() if uid in kept}
