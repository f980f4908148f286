"""One job on one page: what was asked for, how it stands, who its members are, and its story."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta

from pliant.cli.durations import age_text, duration_text
from pliant.cli.events import event_rows
from pliant.cli.jobs import Found, known_as
from pliant.cli.planned import TITLES as PLAN_TITLES
from pliant.cli.planned import plan_rows
from pliant.cli.results import durations_text, failure_place, failure_text, last_words, progress_page
from pliant.cli.sizes import ASKERS, bounds_text, opinion
from pliant.cli.style import Style
from pliant.cli.surroundings import Surroundings
from pliant.cli.table import PHASE_COLOURS, Table
from pliant.engine.roster import Place, Standing
from pliant.engine.sizing import sized
from pliant.engine.wording import manner_of
from pliant.model.job import Group, Job, Steward
from pliant.model.observed import ObservedPod
from pliant.model.state import Cause, EngineState, GroupState

MOST_EVENTS = 12


def page_text(one: Found, around: Surroundings, now: datetime, style: Style, width: int) -> str:
    """The whole page."""
    page = _Page(style, width, now)
    lines = list(page.head(one))
    if one.job is not None:
        lines += page.groups(one.job)
        lines += page.members(one.job, around)
        lines += page.plans(around)
        if one.job.state is not None:
            lines += page.timeline(one.job.state)
    if around.events:
        latest = around.events[-MOST_EVENTS:]
        more = len(around.events) - len(latest)
        lines += page.section(f"Events{f' ({more} older: pliant events {one.key.name})' if more else ''}")
        lines += page.table(("AGE", "TYPE", "REASON", "ABOUT", "MESSAGE"), event_rows(latest, now))
    return "\n".join(lines)


class _Page:
    def __init__(self, style: Style, width: int, now: datetime) -> None:
        self._style = style
        self._width = width
        self._now = now

    def head(self, one: Found) -> Iterator[str]:
        """Who it is, and where it stands."""
        state, colour = one.state, PHASE_COLOURS.get(one.phase)
        kind = known_as(one.frontend, one.frontend.kind)
        phase = self._style.paint(colour, one.phase) if colour else one.phase
        facts = [
            ("Name", f"{self._style.bold(one.key.name)} ({kind}, namespace {one.key.namespace})"),
            ("Phase", f"{phase}: {one.message}"),
        ]
        if one.created_at:
            facts.append(("Created", f"{self._ago(one.created_at)} ago"))
        if state is not None:
            facts += [(title, text) for title, text in self._times(state) if text]
            facts += [(title, text) for title, text in self._results(one, state) if text]
        facts += [(title, text) for title, text in _rules(one.job) if text] if one.job else []
        for title, text in facts:
            yield f"{title + ':':<12} {text}"
            if title == "First cause" and state is not None and state.first_cause is not None:
                yield from (f"{'':<12} {self._style.dim('│')} {line}" for line in last_words(state.first_cause))

    def _times(self, state: EngineState) -> Iterator[tuple[str, str]]:
        yield (
            "Running",
            f"since {self._ago(state.running_at)} ago" if state.running_at and not state.ended_at else "",
        )
        took = state.ended_at - (state.running_at or state.started_at) if state.ended_at else timedelta(0)
        yield "Ended", f"{self._ago(state.ended_at)} ago, after {duration_text(took)}" if state.ended_at else ""
        yield "Restarts", str(state.restarts)
        yield "Keeps off", ", ".join(state.avoided)

    def _results(self, one: Found, state: EngineState) -> Iterator[tuple[str, str]]:
        yield "Time", durations_text(state, self._now)
        yield "Progress", progress_page(one, self._now)
        if (cause := state.first_cause) is not None:
            yield "First cause", f"{failure_text(cause)} ({failure_place(cause, self._now)})"

    def groups(self, job: Job) -> list[str]:
        """What was asked for, and what was spent."""
        state = job.state
        rows = [
            _group_row(asked, acted, state.group(asked.name) if state else GroupState())
            for asked, acted in zip(job.groups, (sized(job, state) if state else job).groups, strict=True)
        ]
        titles = ("GROUP", "SIZE", "BOUNDS", "ASKED BY", "RESTART", "SPENT", "BY CAUSE")
        thoughts = [(asked.name, opinion(asked, state.group(asked.name))) for asked in job.groups] if state else []
        said = [f"  {name}: {thought}" for name, thought in thoughts if thought]
        return [*self.section("Groups"), *self.table(titles, rows), *said]

    def members(self, job: Job, around: Surroundings) -> list[str]:
        """Who is where."""
        rows = [_member_row(place) for place in around.places(job, self._now)]
        known = {row[1] for row in rows}
        rows += [_stray_row(pod) for pod in around.observed(job) if pod.name not in known]
        titles = ("MEMBER", "POD", "NODE", "ATTEMPT", "PHASE", "EXIT")
        return [*self.section("Members"), *self.table(titles, rows)] if rows else []

    def plans(self, around: Surroundings) -> list[str]:
        """What was asked of its members by plans."""
        rows = plan_rows(around.plans, self._now)
        return [*self.section("Plans"), *self.table(PLAN_TITLES, rows)] if rows else []

    def timeline(self, state: EngineState) -> list[str]:
        """Its story, the latest last."""
        rows = [[f"{self._ago(moment.at)} ago", moment.what, moment.why] for moment in state.timeline]
        return [*self.section("Timeline"), *self.table(("WHEN", "WHAT", "WHY"), rows)] if rows else []

    def section(self, title: str) -> list[str]:
        return ["", self._style.bold(f"{title}:")]

    def table(self, titles: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
        width = self._width - 2 if self._width else 0
        return [f"  {line}" for line in Table(titles, self._style, width).lines(rows)]

    def _ago(self, moment: datetime | None) -> str:
        return age_text(self._now - moment) if moment else "–"


def _rules(job: Job) -> Iterator[tuple[str, str]]:
    """What holds for the job as a whole, where it is not what holds for all."""
    yield "Framework", "" if job.frameworks[-1] == "generic" else job.frameworks[-1]
    if job.has_master:
        yield "Ends", "with its master: well with exit code 0, badly with 1"
    else:
        yield "Ends", f"complete when {job.complete_policy}, failed when {job.fail_policy} of its groups is"
    yield "Pods after", _AFTERWARDS[job.clean]
    limits = (("to start", job.start_limit), ("to run", job.time_limit), ("kept after its end", job.time_to_live))
    yield "Limits", ", ".join(f"{duration_text(span)} {what}" for what, span in limits if span is not None)
    yield "Suspended", "asked for" if job.is_suspended else ""
    yield "Managed by", job.managed_by
    yield "Tolerant", "may lose members down to the least size" if job.is_fault_tolerant else ""


_AFTERWARDS = {
    "All": "are deleted (cleanPodPolicy All)",
    "Running": "stay if they have ended (cleanPodPolicy Running)",
    "None": "stay (cleanPodPolicy None)",
}


def _group_row(asked: Group, acted: Group, memory: GroupState) -> list[str]:
    rule = asked.restart
    bounds = bounds_text(asked) or ("any" if asked.is_elastic else "fixed")
    wishes = ", ".join(f"{ASKERS[who]} {request.size}" for who, request in memory.requests.items())
    limit = "no limit" if rule.limit is None else f"{memory.spent} of {rule.limit}"
    return [
        asked.name,
        str(acted.size),
        bounds,
        wishes or "–",
        _restart(asked),
        f"{memory.spent}, no limit" if rule.limit is None and memory.spent else limit,
        causes_text(memory) or "–",
    ]


def _restart(group: Group) -> str:
    rule = group.restart
    if group.steward is Steward.MASTER:
        return "by the master"
    return f"{rule.policy}, scope {rule.scope}" if rule.policy else "never"


def causes_text(memory: GroupState) -> str:
    """What restarts were for: `app 2, node 1, disruption 1 (free)`."""
    told = [
        f"{cause} {number}{' (free)' if cause is Cause.DISRUPTION else ''}"
        for cause, number in memory.restarts.items()
        if number
    ]
    return ", ".join(told)


def _member_row(place: Place) -> list[str]:
    pod = place.pod
    phase = standing_text(place)
    if pod is None:
        return [place.title, place.name, "–", str(place.rank.attempt), phase, "–"]
    return [place.title, place.name, pod.node or "–", str(pod.attempt), phase, _end(pod)]


def _stray_row(pod: ObservedPod) -> list[str]:
    return ["(no place)", pod.name, pod.node or "–", str(pod.attempt), str(pod.phase), _end(pod)]


def _end(pod: ObservedPod) -> str:
    if pod.exit is not None:
        return manner_of(pod.exit)
    return pod.trouble or "–"


def standing_text(place: Place) -> str:
    """How things are at a place, in one word."""
    return _STANDINGS.get(place.standing, place.standing.name.capitalize())


_STANDINGS = {Standing.ABSENT: "No pod", Standing.STALE: "Old attempt", Standing.DISRUPTED: "Taken away"}
