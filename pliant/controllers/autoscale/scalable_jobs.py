"""The jobs whose sizes the autoscaler may set."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pliant.autoscale.model import GroupKey
from pliant.engine.clock import align_timers
from pliant.model.job import Job, JobKey, ReplicaGroup, ResizeMode
from pliant.model.state import ClockOffset, EngineState, JobPhase

_ACTIVE_PHASES = frozenset({JobPhase.PENDING, JobPhase.CREATING, JobPhase.RUNNING, JobPhase.RESTARTING})

KindAndKey = tuple[str, JobKey]  # a kind with its API group, and a job's namespace and name


class ScalableJobs:
    """Active jobs with autoscalable groups, by uid, as last reconciled."""

    def __init__(self) -> None:
        self._jobs: dict[str, Job] = {}
        self._states: dict[str, EngineState] = {}
        self._planning_facts: dict[str, Any] = {}
        self._uids: dict[KindAndKey, str] = {}
        self._in_first_pass: dict[KindAndKey, str] = {}
        """Jobs in their first reconcile: their pods may exist already, but their sizes are not known yet."""

    def __len__(self) -> int:
        return len(self._jobs)

    def __iter__(self) -> Iterator[Job]:
        return iter(self._jobs.values())

    def get(self, job_uid: str) -> Job | None:
        return self._jobs.get(job_uid)

    def state_of(self, job_uid: str) -> EngineState:
        """Return the stored state of a registered job."""
        return self._states[job_uid]

    def align_timers(self, clock: ClockOffset | None) -> None:
        self._states = {uid: align_timers(state, clock) for uid, state in self._states.items()}

    def is_in_first_reconcile(self, job_uid: str) -> bool:
        return job_uid in self._in_first_pass.values()

    def update(self, job: Job, state: EngineState | None) -> set[str]:
        """Register the current state of a job; return the uids of jobs whose snapshots must be rebuilt."""
        name, uid = (qualified_kind_of(job), job.key), job.owner.uid
        if state is None and not job.is_suspended and any(map(is_autoscalable, job.groups)):
            self._in_first_pass[name] = uid
        else:
            self._in_first_pass.pop(name, None)
        changed = self._remove_by_name(name) if self._uids.get(name, uid) != uid else set()
        if state is None or not is_active(job, state) or not any(map(is_autoscalable, job.groups)):
            return changed | self._remove_by_name(name)
        facts = _planning_facts(job, state)
        self._jobs[uid], self._states[uid], self._uids[name] = job, state, uid
        if self._planning_facts.get(uid) == facts:
            return changed
        self._planning_facts[uid] = facts
        return changed | {uid}

    def remove(self, qualified_kind: str, key: JobKey) -> set[str]:
        self._in_first_pass.pop((qualified_kind, key), None)
        return self._remove_by_name((qualified_kind, key))

    def _remove_by_name(self, name: KindAndKey) -> set[str]:
        uid = self._uids.pop(name, None)
        if uid is None:
            return set()
        del self._jobs[uid], self._states[uid], self._planning_facts[uid]
        return {uid}


def qualified_kind_of(job: Job) -> str:
    """Return the kind with its API group, as kinds of the same name exist in several groups."""
    group, slash, _ = job.owner.api_version.partition("/")
    return f"{job.owner.kind}.{group}" if slash else job.owner.kind


def group_key(job: Job, group: ReplicaGroup) -> GroupKey:
    return GroupKey(job.key.namespace, qualified_kind_of(job), job.key.name, group.name)


def is_active(job: Job, state: EngineState) -> bool:
    """Return whether a job has pods or is about to: it is neither finished nor suspended."""
    if state.outcome is not None or state.phase not in _ACTIVE_PHASES:
        return False
    return not (job.is_suspended or job.is_deleting or job.end_request)


def is_autoscalable(group: ReplicaGroup) -> bool:
    return group.is_elastic and group.is_autoscaled and group.resize_mode is not ResizeMode.FIXED


def size_bounds(group: ReplicaGroup) -> tuple[int, int]:
    """Return the bounds for the autoscaler: at least 1; without a maximum, at most the size in the spec."""
    min_size = max(group.min_size, 1)
    return min_size, max(min_size, group.size if group.max_size is None else group.max_size)


def _planning_facts(job: Job, state: EngineState) -> tuple[Any, ...]:
    facts: list[Any] = [job.autoscaling]
    for group in job.groups:
        if group.is_elastic:
            group_state = state.group(group.name)
            facts += [group.name, is_autoscalable(group), size_bounds(group), group.resize_mode, group.template_hash]
            facts += [group_state.applied_size, group_state.size_requests]
            facts += [group_state.replica_outcomes, group_state.throughput_by_size]
    return tuple(facts)
