"""The jobs whose sizes the autoscaler may set."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pliant.autoscale.model import GroupKey
from pliant.model.job import Group, Job, JobKey, Resize
from pliant.model.state import GroupState, Phase

_AT_WORK = frozenset({Phase.PENDING, Phase.CREATING, Phase.RUNNING, Phase.RESTARTING})

Name = tuple[str, JobKey]
"""A kind with its group, and the job's own name."""


class Register:
    """Jobs with groups that are resized automatically, by uid, as their own passes last saw them."""

    def __init__(self) -> None:
        self._jobs: dict[str, Job] = {}
        self._facts: dict[str, Any] = {}
        self._uids: dict[Name, str] = {}
        self._fresh: dict[Name, str] = {}
        """Jobs in their first pass: their sizes are not known yet, though their pods may be there already."""

    def __len__(self) -> int:
        return len(self._jobs)

    def __iter__(self) -> Iterator[Job]:
        return iter(self._jobs.values())

    def get(self, uid: str) -> Job | None:
        """The job of that uid, if its size may be set."""
        return self._jobs.get(uid)

    def is_fresh(self, uid: str) -> bool:
        """Whether a job is about to be one of these, and nothing is known of it yet."""
        return uid in self._fresh.values()

    def note(self, job: Job) -> set[str]:
        """Take in a job as it is now; the uids of those that have to be looked at on that account."""
        name, uid = (kind_of(job), job.key), job.owner.uid
        if job.state is None and not job.is_suspended and any(map(may_move, job.groups)):
            self._fresh[name] = uid
        else:
            self._fresh.pop(name, None)
        others = self._drop(name) if self._uids.get(name, uid) != uid else set()
        if not is_at_work(job) or not any(map(may_move, job.groups)):
            return others | self._drop(name)
        facts = _facts(job)
        self._jobs[uid], self._uids[name] = job, uid
        if self._facts.get(uid) == facts:
            return others
        self._facts[uid] = facts
        return others | {uid}

    def forget(self, kind: str, key: JobKey) -> set[str]:
        """Take in that a job is gone."""
        self._fresh.pop((kind, key), None)
        return self._drop((kind, key))

    def _drop(self, name: Name) -> set[str]:
        uid = self._uids.pop(name, None)
        if uid is None:
            return set()
        del self._jobs[uid], self._facts[uid]
        return {uid}


def kind_of(job: Job) -> str:
    """A kind with its API group, as several groups have a kind of the same name."""
    group, slash, _ = job.owner.api_version.partition("/")
    return f"{job.owner.kind}.{group}" if slash else job.owner.kind


def key_of(job: Job, group: Group) -> GroupKey:
    """The name of a group in plans."""
    return GroupKey(job.key.namespace, kind_of(job), job.key.name, group.name)


def is_at_work(job: Job) -> bool:
    """Whether a job has members, or is about to: it has neither ended nor been suspended."""
    state = job.state
    if state is None or state.verdict is not None or state.phase not in _AT_WORK:
        return False
    return not (job.is_suspended or job.is_deleting or job.order)


def may_move(group: Group) -> bool:
    """Whether the autoscaler may set the size of a group, as far as its author and its kind are concerned."""
    return group.is_elastic and group.is_automatic and group.resize is not Resize.HOLD


def bounds(group: Group) -> tuple[int, int]:
    """Between which sizes it may be moved: never to none, and without a limit not beyond what was asked for."""
    least = max(group.least, 1)
    return least, max(least, group.size if group.most is None else group.most)


def _facts(job: Job) -> Mapping[str, Any]:
    """All of a job that plans depend on, apart from its pods."""
    memories = job.state.groups if job.state else {}
    return {
        "autoscaling": job.autoscaling,
        **{
            group.name: (
                may_move(group),
                bounds(group),
                group.resize,
                group.fingerprint,
                _memory_facts(memories.get(group.name)),
            )
            for group in job.groups
            if group.is_elastic
        },
    }


def _memory_facts(memory: GroupState | None) -> tuple[Any, ...]:
    return () if memory is None else (memory.size, memory.requests, memory.finished, memory.speeds)
