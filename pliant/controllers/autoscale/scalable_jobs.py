"""The jobs whose sizes the autoscaler may set."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pliant.autoscale.model import GroupKey
from pliant.model.job import Job, JobKey, ReplicaGroup, ResizeMode
from pliant.model.state import GroupState, JobPhase

_ACTIVE_PHASES = frozenset({JobPhase.PENDING, JobPhase.CREATING, JobPhase.RUNNING, JobPhase.RESTARTING})

KindAndKey = tuple[str, JobKey]
"""A kind with its group, and the job's own name."""


class ScalableJobs:
    """Jobs with groups that are resized automatically, by uid, as their own passes last saw them."""

    def __init__(self) -> None:
        self._jobs: dict[str, Job] = {}
        self._planning_facts: dict[str, Any] = {}
        self._uids: dict[KindAndKey, str] = {}
        self._in_first_pass: dict[KindAndKey, str] = {}
        """Jobs in their first pass: their sizes are not known yet, though their pods may be there already."""

    def __len__(self) -> int:
        return len(self._jobs)

    def __iter__(self) -> Iterator[Job]:
        return iter(self._jobs.values())

    def get(self, job_uid: str) -> Job | None:
        """The job of that uid, if its size may be set."""
        return self._jobs.get(job_uid)

    def is_in_first_pass(self, job_uid: str) -> bool:
        """Whether a job is about to be one of these, and nothing is known of it yet."""
        return job_uid in self._in_first_pass.values()

    def update(self, job: Job) -> set[str]:
        """Take in a job as it is now; the uids of those that have to be looked at on that account."""
        name, uid = (qualified_kind_of(job), job.key), job.owner.uid
        if job.state is None and not job.is_suspended and any(map(is_autoscalable, job.groups)):
            self._in_first_pass[name] = uid
        else:
            self._in_first_pass.pop(name, None)
        others = self._remove_by_name(name) if self._uids.get(name, uid) != uid else set()
        if not is_active(job) or not any(map(is_autoscalable, job.groups)):
            return others | self._remove_by_name(name)
        facts = _planning_facts(job)
        self._jobs[uid], self._uids[name] = job, uid
        if self._planning_facts.get(uid) == facts:
            return others
        self._planning_facts[uid] = facts
        return others | {uid}

    def remove(self, qualified_kind: str, key: JobKey) -> set[str]:
        """Take in that a job is gone."""
        self._in_first_pass.pop((qualified_kind, key), None)
        return self._remove_by_name((qualified_kind, key))

    def _remove_by_name(self, name: KindAndKey) -> set[str]:
        uid = self._uids.pop(name, None)
        if uid is None:
            return set()
        del self._jobs[uid], self._planning_facts[uid]
        return {uid}


def qualified_kind_of(job: Job) -> str:
    """A kind with its API group, as several groups have a kind of the same name."""
    group, slash, _ = job.owner.api_version.partition("/")
    return f"{job.owner.kind}.{group}" if slash else job.owner.kind


def group_key(job: Job, group: ReplicaGroup) -> GroupKey:
    """The name of a group in plans."""
    return GroupKey(job.key.namespace, qualified_kind_of(job), job.key.name, group.name)


def is_active(job: Job) -> bool:
    """Whether a job has members, or is about to: it has neither ended nor been suspended."""
    state = job.state
    if state is None or state.outcome is not None or state.phase not in _ACTIVE_PHASES:
        return False
    return not (job.is_suspended or job.is_deleting or job.end_request)


def is_autoscalable(group: ReplicaGroup) -> bool:
    """Whether the autoscaler may set the size of a group, as far as its author and its kind are concerned."""
    return group.is_elastic and group.is_autoscaled and group.resize_mode is not ResizeMode.FIXED


def size_bounds(group: ReplicaGroup) -> tuple[int, int]:
    """Between which sizes it may be moved: never to none, and without a limit not beyond what was asked for."""
    least = max(group.min_size, 1)
    return least, max(least, group.size if group.max_size is None else group.max_size)


def _planning_facts(job: Job) -> Mapping[str, Any]:
    """All of a job that plans depend on, apart from its pods."""
    memories = job.state.groups if job.state else {}
    return {
        "autoscaling": job.autoscaling,
        **{
            group.name: (
                is_autoscalable(group),
                size_bounds(group),
                group.resize_mode,
                group.template_hash,
                _group_state_facts(memories.get(group.name)),
            )
            for group in job.groups
            if group.is_elastic
        },
    }


def _group_state_facts(group_state: GroupState | None) -> tuple[Any, ...]:
    return (
        ()
        if group_state is None
        else (
            group_state.applied_size,
            group_state.size_requests,
            group_state.replica_outcomes,
            group_state.throughput_by_size,
        )
    )
