"""What holds for every job in every scenario, judged by all that was ever seen of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from pliant.frontends.status.rejection import SPEC_REJECTED_CONDITION
from pliant.kube.codec import WatchEventType
from pliant.model.state import PHASE_TRANSITIONS, JobPhase

Object = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Change:
    """One thing that happened to one object."""

    type: WatchEventType
    object: Object
    at: float = 0.0
    """When the test heard of it."""

    @property
    def version(self) -> int:
        return int(self.object["metadata"]["resourceVersion"])

    @property
    def kind(self) -> str:
        return str(self.object["kind"])

    @property
    def uid(self) -> str:
        return str(self.object["metadata"]["uid"])

    @property
    def name(self) -> str:
        return str(self.object["metadata"]["name"])

    @property
    def phase(self) -> str:
        return str((self.object.get("status") or {}).get("phase") or "")

    def __str__(self) -> str:
        status = self.object.get("status") or {}
        told = status.get("message") or self.object.get("message") or ""
        return " ".join(filter(None, [self.type, self.kind, self.name, self.phase, f"({told})" if told else ""]))


def broken(history: Sequence[Change], excused: frozenset[str] = frozenset()) -> list[str]:
    """Every law that was broken, in a sentence each; deleting `excused` pods was the test's own doing."""
    history = in_order(history)
    jobs = [change for change in history if change.kind == "AITrainingJob"]
    pods = [change for change in _before_deletion(history) if change.kind == "Pod" and _owner(change.object)]
    return [*_illegal_moves(jobs), *_bad_statuses(jobs), *_made_twice(pods, excused), *_born_too_late(history)]


def in_order(history: Sequence[Change]) -> list[Change]:
    """The same changes as they happened: each kind is heard of by a stream of its own."""
    return sorted(history, key=lambda change: change.version)


def _before_deletion(history: Sequence[Change]) -> Iterator[Change]:
    """All but what happened to members of jobs that were gone.

    An operator may hear of pods that the garbage collector took before it hears of the deletion of their job.
    What it then makes anew goes the same way.
    """
    gone: set[str] = set()
    for change in history:
        if change.type is WatchEventType.DELETED:
            gone.add(change.uid)
        if _owner(change.object) not in gone:
            yield change


def _illegal_moves(jobs: Sequence[Change]) -> Iterator[str]:
    last: dict[str, str] = {}
    for change in jobs:
        before, after = last.get(change.uid, ""), change.phase
        # An empty phase is the doing of whoever wiped the status; a job that is not accepted yet is Invalid.
        if (
            before not in ("", "Invalid")
            and after
            and after != before
            and after not in PHASE_TRANSITIONS.get(JobPhase(before), ())
        ):
            yield f"{change.name} moved from {before} to {after!r}"
        last[change.uid] = after


def _bad_statuses(jobs: Sequence[Change]) -> Iterator[str]:
    restarts: dict[tuple[str, str], int] = {}
    for change in jobs:
        status = change.object.get("status") or {}
        phases = (entry for entry in status.get("conditions") or () if entry["type"] != SPEC_REJECTED_CONDITION)
        truths = [entry["status"] for entry in phases]
        if truths and truths != ["False"] * (len(truths) - 1) + ["True"]:
            yield f"{change.name} has conditions {truths}"
        for group, count in (status.get("RestartCount") or {}).items():
            if count < restarts.get((change.uid, group), 0):
                yield f"{change.name} forgot restarts of {group}"
            restarts[change.uid, group] = count


def _made_twice(pods: Sequence[Change], excused: frozenset[str]) -> Iterator[str]:
    """The same attempt at the same place is made once, unless somebody took it away."""
    made = Counter(
        (_owner(change.object), change.name, change.object["metadata"]["labels"]["RestartCount"])
        for change in pods
        if change.type is WatchEventType.ADDED and change.name not in excused
    )
    for (_, name, attempt), times in made.items():
        if times > 1:
            yield f"pod {name} was made {times} times at attempt {attempt}"


def _born_too_late(history: Sequence[Change]) -> Iterator[str]:
    over: set[str] = set()
    for change in history:
        if change.kind == "AITrainingJob" and (change.phase == "Terminating" or _is_final(change.phase)):
            over.add(change.uid)
        elif change.type is WatchEventType.ADDED and change.kind in ("Pod", "Service"):
            owner = _owner(change.object)
            if owner in over:
                yield f"{change.kind} {change.name} was made for a job that had ended"


def _is_final(phase: str) -> bool:
    return phase in set(JobPhase) and JobPhase(phase).is_final


def _owner(member: Object) -> str:
    """The uid of the job a member belongs to; empty for other people's objects."""
    owners = [ref["uid"] for ref in member["metadata"].get("ownerReferences") or () if ref.get("controller")]
    return str(owners[0]) if owners else ""
