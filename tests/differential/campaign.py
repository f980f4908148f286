"""Sends random sequences to both servers in parallel, and collects the differences."""

from __future__ import annotations

import asyncio
import random
import sys
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import dataclass, field

from tests.differential.differences import Difference, StepResult
from tests.differential.explanations import find_explanation
from tests.differential.objects.examples import EXAMPLES, KindExample
from tests.differential.random_steps import SEQUENCE_LENGTH, random_sequence
from tests.differential.servers import ServerPair
from tests.differential.shrinking import shrink_sequence
from tests.differential.steps import WATCH, Step

PARALLEL_SEQUENCES = 6
_PROGRESS_SECONDS = 10.0


@dataclass(frozen=True)
class Finding:
    """An unexplained difference, and the sequence up to it."""

    steps: tuple[Step, ...]
    result: StepResult
    difference: Difference

    @property
    def signature(self) -> tuple[str, ...]:
        """Equal for findings that likely have one cause."""
        found, step = self.difference, self.result.step
        values = (str(found.real), str(found.embedded)) if found.aspect in ("code", "cause", "reason") else ()
        return (step.method, step.media.partition("-")[0], step.plural, found.aspect, found.field, *values)


@dataclass
class Summary:
    """Counts of a campaign."""

    requests: Counter[tuple[str, str]] = field(default_factory=Counter)
    codes: Counter[int] = field(default_factory=Counter)
    explained: Counter[str] = field(default_factory=Counter)
    findings: list[Finding] = field(default_factory=list)

    @property
    def total(self) -> int:
        return self.requests.total()

    def groups(self) -> dict[tuple[str, ...], list[Finding]]:
        groups: dict[tuple[str, ...], list[Finding]] = {}
        for finding in self.findings:
            groups.setdefault(finding.signature, []).append(finding)
        return dict(sorted(groups.items(), key=lambda item: -len(item[1])))


async def run_campaign(
    pair: ServerPair,
    seed: int,
    requests: int,
    *,
    length: int = SEQUENCE_LENGTH,
    examples: Sequence[KindExample] = EXAMPLES,
) -> Summary:
    """Send random sequences until `requests` requests were compared."""
    summary = Summary()
    numbers = iter(range(10**9))
    started = reported = time.monotonic()

    async def work() -> None:
        nonlocal reported
        while summary.total < requests:
            rng = random.Random(f"{seed} {next(numbers)}")
            await run_sequence(pair, random_sequence(rng, length, examples), summary)
            if time.monotonic() - reported > _PROGRESS_SECONDS:
                reported = time.monotonic()
                rate = summary.total / (reported - started)
                print(
                    f"{summary.total:,} of {requests:,} requests, {rate:.0f}/s, {len(summary.findings)} unexplained",
                    file=sys.stderr,
                    flush=True,
                )

    async with asyncio.TaskGroup() as tasks:
        for _ in range(PARALLEL_SEQUENCES):
            tasks.create_task(work())
    return summary


async def run_sequence(pair: ServerPair, steps: Sequence[Step], summary: Summary) -> bool:
    """Run one sequence until the states of the servers differ; return whether all differences are explained."""
    done: list[Step] = []
    is_clean = True
    async with aclosing(pair.run(steps)) as results:  # type: ignore[type-var]
        async for result in results:
            step = result.step
            done.append(step)
            summary.requests[step.method, step.plural] += 1
            summary.codes[result.real.code] += 1
            has_finding = ends = False
            for difference in result.differences():
                if explanation := find_explanation(step, difference):
                    summary.explained[explanation.request] += 1
                    ends = ends or explanation.ends_sequence
                else:
                    summary.findings.append(Finding(tuple(done), result, difference))
                    has_finding, is_clean = True, False
            is_refused_watch = step.method == WATCH and result.real.code != result.embedded.code
            if result.changes_state_differently or is_refused_watch or ends or (has_finding and result.real.code < 300):
                break
    return is_clean


async def shrink_finding(pair: ServerPair, finding: Finding, limit: int = 120) -> list[Step]:
    """Return a small sequence with a difference of the same signature."""

    async def still_fails(steps: Sequence[Step]) -> bool:
        summary = Summary()
        await run_sequence(pair, steps, summary)
        return any(each.signature == finding.signature for each in summary.findings)

    return await shrink_sequence(finding.steps, still_fails, limit)
