"""Runs a trace under a policy from its beginning to its end."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from pliant.autoscale.model import Policy
from pliant.autoscale.published import PublishedEdl
from pliant.simulation.delays import Delays
from pliant.simulation.measures import Figures, Series, figures
from pliant.simulation.rounds import Rhythm, Rounds
from pliant.simulation.trace import Trace
from pliant.simulation.world import World

NOBODY = "none"
"""The policy under which nobody scales anything."""
LOOKS = 600
"""How many looks a run is drawn from, about."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How a cluster behaves."""

    delays: Delays = field(default_factory=Delays)
    rhythm: Rhythm = field(default_factory=Rhythm)
    is_packed: bool = False
    """Whether the scheduler fills nodes one after the other, in place of spreading pods."""
    seed: int = 1
    """What chance follows from, where delays vary."""
    look: float | None = None
    """Seconds between two looks; otherwise chosen by how long the trace is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What came of it."""

    figures: Figures
    series: Series
    reasons: dict[str, int]
    """How often sizes were changed, by the kind of reason."""
    planning: float
    """Seconds that planning took, by the stopwatch."""


def simulate(
    trace: Trace,
    policy: Policy | None,
    settings: Settings,
    *,
    stopwatch: Callable[[], float] = lambda: 0.0,
    tell: Callable[[float, int], None] = lambda now, ended: None,
) -> Outcome:
    """Run it; without a policy sizes stay as they are. `tell` hears of the time and of jobs that have ended."""
    world = World(
        trace,
        settings.delays,
        seed=settings.seed,
        is_packed=settings.is_packed,
        is_scaled=policy is not None,
    )
    rounds = Rounds(world, policy, settings.rhythm, stopwatch) if policy else None
    series = _watched(world, trace, settings.look or look_for(trace), tell)
    return Outcome(
        figures=figures(
            policy.name if policy else NOBODY, world, series, trace.windows, rounds.number if rounds else 0
        ),
        series=series,
        reasons=dict(sorted(rounds.resizes.items())) if rounds else {},
        planning=rounds.seconds if rounds else 0.0,
    )


def _watched(world: World, trace: Trace, look: float, tell: Callable[[float, int], None]) -> Series:
    """Let it go on until it is over, and write down how things are."""
    series = Series()
    series.look(world)
    time = 0.0
    while time < trace.until:
        # Where nothing happens there is nothing to see; and of what goes on for long, less and less often.
        soonest = world.agenda.next_at
        time = min(max(time + look, soonest if soonest < math.inf else 0.0), trace.until)
        goes_on = world.agenda.advance(time)
        if goes_on or trace.until < math.inf:
            world.agenda.now = time
        series.look(world)
        if len(series.times) % (4 * LOOKS) == 0:
            look *= 2
        tell(time, len(world.jobs) - len(world.live))
        if trace.until == math.inf and (not goes_on or (trace.jobs and world.is_over)):
            break
    return series


def settings_for(policy: str, trace: Trace, settings: Settings) -> Settings:
    """How a policy is run: what was published has neither pace nor haste, and counts pods until they are gone."""
    rhythm = replace(settings.rhythm, period=trace.period, gap=trace.gap)
    if policy == PublishedEdl().name:
        rhythm = replace(rhythm, gap=trace.period, pace=None, counts_leaving=True)
    return replace(settings, rhythm=rhythm)


def look_for(trace: Trace) -> float:
    """Whole seconds between two looks: about as many looks as a picture is wide."""
    last = max((job.submit for job in trace.jobs), default=0.0)
    span = trace.until if trace.until < math.inf else last
    return float(max(1, round(span / LOOKS)))
