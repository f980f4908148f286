"""Makes a story of what a job's status, pods, nodes and events say: where it stands, why, and what to try."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from pliant.cli.durations import age_text, duration_text
from pliant.cli.exitcodes import meaning_of
from pliant.cli.jobs import Found
from pliant.cli.page import causes_text
from pliant.cli.planned import plan_rows
from pliant.cli.remedies import UNSCHEDULABLE, remedies
from pliant.cli.results import durations_text, failure_place, failure_text, last_words, progress_page
from pliant.cli.room import lacks_for_now, lacks_of
from pliant.cli.sizes import size_sentences
from pliant.cli.surroundings import Surroundings
from pliant.engine.restarting import wait_left
from pliant.engine.roster import Place, Standing
from pliant.engine.wording import counted, listing, manner_of
from pliant.model.job import Job
from pliant.model.labels import MANAGER
from pliant.model.observed import ObservedPod, PodPhase
from pliant.model.state import EngineState, Failure, Phase

UNSEEN = timedelta(seconds=5)
"""A job that no operator has looked at for so long is not looked after."""
MOST_CULPRITS = 3
_WORDS = {
    Phase.SUCCEED: "succeeded",
    Phase.FAILED: "failed",
    Phase.TIMEOUT: "was ended because a time limit passed",
    Phase.PREEMPTED: "was ended to make room for others (preempted)",
    Phase.NODE_FAIL: "was ended because a node failed",
    Phase.PENDING: "waits for its members to be placed",
    Phase.CREATING: "waits for its members to start",
    Phase.RUNNING: "runs",
    Phase.RESTARTING: "restarts",
    Phase.SUSPENDED: "rests",
    Phase.TERMINATING: "is ending",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """Everything that was found out."""

    one: Found
    around: Surroundings
    now: datetime
    tails: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Last lines by pod, as far as they are still there."""

    def with_tails(self, tails: Mapping[str, Sequence[str]]) -> Evidence:
        """The same with the last words of those who failed."""
        return replace(self, tails=tails)

    def ago(self, moment: datetime) -> str:
        """How long ago that was."""
        return f"{age_text(self.now - moment)} ago"


@dataclass(frozen=True, slots=True, kw_only=True)
class Sentence:
    """One thing to say, and what was written at the scene."""

    text: str
    quoted: Sequence[str] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Story:
    """What there is to say about a job."""

    name: str
    phase: str
    headline: str
    why: Sequence[Sentence] = ()
    """First cause, or what it waits for."""
    history: Sequence[tuple[str, str, str]] = ()
    """When, what and why, the newest first."""
    accounts: Sequence[str] = ()
    """Budgets and sizes."""
    plans: Sequence[Sequence[str]] = ()
    """What was asked of its members by plans, the newest first."""
    remedies: Sequence[str] = ()


def story(seen: Evidence) -> Story:
    """The story of one job."""
    one, job = seen.one, seen.one.job
    why = [*_whole_job(seen)]
    if job is not None and job.state is not None:
        why += [*_first_causes(seen, job), *_waits(seen, job, job.state), *_nodes(seen, job.state)]
    return Story(
        name=one.key.name,
        phase=one.phase,
        headline=_headline(seen),
        why=why,
        history=_history(seen),
        accounts=[*_so_far(seen), *_budgets(job), *size_sentences(job, seen.ago)] if job else (),
        plans=plan_rows(seen.around.plans, seen.now),
        remedies=list(dict.fromkeys(remedies(one, _places(seen), seen.around))),
    )


def culprits(seen: Evidence) -> list[ObservedPod]:
    """Pods that ended badly and are still there, the earliest first."""
    job = seen.one.job
    if job is None:
        return []
    failed = [pod for pod in seen.around.observed(job) if pod.phase is PodPhase.FAILED and not pod.is_leaving]
    return sorted(failed, key=lambda pod: str(pod.finished_at or "~"))[:MOST_CULPRITS]


def _places(seen: Evidence) -> tuple[Place, ...]:
    return seen.around.places(seen.one.job, seen.now) if seen.one.job else ()


def _headline(seen: Evidence) -> str:
    one, state = seen.one, seen.one.state
    if one.problem:
        return f"{one.key.name} cannot be understood, so nothing is done about it: {one.problem}"
    if state is None:
        return f"{one.key.name} has not been looked at yet"
    said = f"{one.key.name} {_WORDS[state.phase]}"
    if state.ended_at is not None:
        took = duration_text(state.ended_at - (state.running_at or state.started_at))
        return f"{said} {seen.ago(state.ended_at)}, after {took}: {state.message}"
    since = state.timeline[-1].at if state.timeline else state.started_at
    return f"{said} (since {age_text(seen.now - since)}): {state.message}"


def _whole_job(seen: Evidence) -> Iterator[Sentence]:
    """What holds for the job as such, whatever its members do."""
    job, where = seen.one.job, seen.one.frontend.policy_field
    if job is None:
        return
    if job.managed_by not in ("", MANAGER):
        yield Sentence(text=f"{where}.managedBy leaves it to {job.managed_by}: this operator does not touch it.")
    elif job.state is None and seen.now - job.created_at > UNSEEN:
        yield Sentence(text="No operator looks after it: none is running, or none that watches this namespace.")
    if job.is_deleting:
        yield Sentence(text="It is being deleted.")
    if job.order is not None:
        yield Sentence(
            text=f"Somebody ordered its end as {job.order.phase} by an annotation: {job.order.message}."
        )
    if job.is_suspended and job.state is not None and not job.state.phase.is_final:
        yield Sentence(
            text=f"It was asked to rest ({where}.suspend): its members are sent home, its clock stands."
        )


def _first_causes(seen: Evidence, job: Job) -> Iterator[Sentence]:
    """Who ended badly, how and where, and what they said last."""
    found = culprits(seen)
    is_over = job.state is not None and job.state.phase.is_final and job.state.phase is not Phase.SUCCEED
    if (cause := _remembered_cause(seen, job)) is not None:
        start = "First cause: " if is_over else "The latest restart: "
        place = failure_place(cause, seen.now)
        yield Sentence(text=f"{start}{failure_text(cause)} ({place}).", quoted=last_words(cause))
        is_over = False
    elif not found and is_over and not seen.around.pods:
        kept = " (cleanPodPolicy All)" if job.clean == "All" else ""
        yield Sentence(text=f"Its pods are gone{kept}, and their logs with them; the story below is what is left.")
    for number, pod in enumerate(found):
        container = f", container {pod.exit.container}" if pod.exit and pod.exit.container else ""
        when = f", {seen.ago(pod.finished_at)}" if pod.finished_at else ""
        start = "First cause: " if number == 0 and is_over else ""
        meaning = meaning_of(pod.exit)
        tail = seen.tails.get(pod.name, ())
        # What is quoted below need not be said in the sentence.
        end = replace(pod.exit, message="") if pod.exit and tail else pod.exit
        yield Sentence(
            text=f"{start}{pod.group}-{pod.index} {manner_of(end)} "
            f"(pod {pod.name} on {pod.node or 'no node'}{container}, attempt {pod.attempt}{when})."
            + (f" {meaning[0].upper()}{meaning[1:]}{'' if meaning.endswith('?') else '.'}" if meaning else ""),
            quoted=tail,
        )


def _remembered_cause(seen: Evidence, job: Job) -> Failure | None:
    """The first cause as the operator remembers it, unless its pod is still there to be looked at."""
    cause = job.state.first_cause if job.state else None
    there = {(f"{pod.group}-{pod.index}", pod.attempt) for pod in culprits(seen)}
    return None if cause is None or (cause.member, cause.attempt) in there else cause


def _so_far(seen: Evidence) -> Iterator[str]:
    """Where the time went, and how far the training has come."""
    if progress := progress_page(seen.one, seen.now):
        yield f"Progress: {progress}."
    if seen.one.state is not None and (spent := durations_text(seen.one.state, seen.now)):
        yield f"Time: {spent}."


def _waits(seen: Evidence, job: Job, state: EngineState) -> Iterator[Sentence]:
    """What the job waits for, those with one reason in one sentence."""
    if state.phase.is_final or state.phase is Phase.SUSPENDED:
        return
    reasons: dict[str, list[str]] = {}
    for place in _places(seen):
        if reason := _wait(seen, job, place):
            reasons.setdefault(reason, []).append(place.title)
    for reason, titles in reasons.items():
        yield Sentence(text=f"{listing(titles)} {reason}.")


def _wait(seen: Evidence, job: Job, place: Place) -> str:
    pod, state = place.pod, job.state
    if place.standing is Standing.ABSENT and state is not None:
        left = wait_left(state.group(place.rank.group.name), seen.now)
        if left:
            return f"will be started again in {duration_text(left)}: its group keeps failing, so the waits grow"
        return "has no pod yet" if not state.phase.is_final else ""
    if place.standing in (Standing.STALE, Standing.LEAVING):
        return "has an old pod that must leave first"
    if pod is not None and pod.trouble and not place.standing.is_up:
        return f"cannot start: {pod.trouble.rstrip('.')}{_lack(seen, place, pod.trouble)}"
    if place.standing is Standing.SCHEDULED and pod is not None:
        return f"has been given to {pod.node}, which has not started it yet"
    return "has not been given to a node yet" if place.standing is Standing.PENDING else ""


def _lack(seen: Evidence, place: Place, trouble: str) -> str:
    """Which resources no node has enough of, or not enough that is free, if that is it."""
    if not trouble.startswith(UNSCHEDULABLE):
        return ""
    template, nodes = place.rank.group.template, seen.around.nodes.values()
    lacks = lacks_of(template, nodes) or lacks_for_now(template, nodes, seen.around.tenants)
    return f". It wants {'; and '.join(map(str, lacks))}" if lacks else ""


def _nodes(seen: Evidence, state: EngineState) -> Iterator[Sentence]:
    used = [pod.spec.node_name for pod in seen.around.pods if pod.spec.node_name]
    for name, what in seen.around.faults(list(dict.fromkeys([*used, *state.avoided]))).items():
        here = counted(used.count(name), "member")
        yield Sentence(
            text=f"Node {name} {what}; {here} of this job {'is' if used.count(name) == 1 else 'are'} there."
        )
    if state.avoided:
        yield Sentence(text=f"New pods keep off {listing(state.avoided)}: members were lost or not created there.")


def _history(seen: Evidence) -> list[tuple[str, str, str]]:
    """The timeline and the warnings about pods, the newest first."""
    state = seen.one.state
    moments = [(moment.at, moment.what, moment.why) for moment in state.timeline] if state else []
    told = {why for _, _, why in moments}
    for event in seen.around.events:
        if (
            event.at is not None
            and event.is_warning
            and event.about.startswith("Pod ")
            and event.message not in told
        ):
            often = f" (×{event.count})" if event.count > 1 else ""
            moments.append((event.at, event.reason, f"{event.about.removeprefix('Pod ')}: {event.message}{often}"))
    moments.sort(key=lambda moment: moment[0], reverse=True)
    return [(seen.ago(at), what, why) for at, what, why in moments]


def _budgets(job: Job) -> Iterator[str]:
    for group in job.groups:
        memory, limit = job.state.group(group.name) if job.state else None, group.restart.limit
        if memory is None or not memory.restarts:
            continue
        spent = counted(memory.spent, "restart") if limit is None else f"{memory.spent} of {limit} restarts"
        left = "" if limit is None else f", {limit - memory.spent} left" if limit > memory.spent else ", none left"
        yield f"{group.name} has spent {spent} ({causes_text(memory)}){left}."
