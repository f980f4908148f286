"""Shrinks a failing sequence by delta debugging: first its steps, then the bodies of the steps."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from tests.differential.steps import Step

StillFails = Callable[[Sequence[Step]], Awaitable[bool]]


async def shrink_sequence(steps: Sequence[Step], still_fails: StillFails, limit: int = 120) -> list[Step]:
    """Return a small sequence that still fails, after at most `limit` tries."""
    tries = 0

    async def fails(candidate: Sequence[Step]) -> bool:
        nonlocal tries
        tries += 1
        return tries <= limit and await still_fails(candidate)

    current = await _drop_steps(list(steps), fails)
    return await _simplify_steps(current, fails)


async def _drop_steps(steps: list[Step], fails: StillFails) -> list[Step]:
    size = max(len(steps) // 2, 1)
    while True:
        start = 0
        while start < len(steps) and len(steps) > 1:
            candidate = steps[:start] + steps[start + size :]
            if candidate and await fails(candidate):
                steps = candidate
            else:
                start += size
        if size == 1:
            return steps
        size //= 2


async def _simplify_steps(steps: list[Step], fails: StillFails) -> list[Step]:
    for index in range(len(steps) - 1, -1, -1):
        is_simpler = True
        while is_simpler:
            is_simpler = False
            for step in _simpler_steps(steps[index]):
                candidate = [*steps[:index], step, *steps[index + 1 :]]
                if await fails(candidate):
                    steps, is_simpler = candidate, True
                    break
    return steps


def _simpler_steps(step: Step) -> Iterator[Step]:
    for name in step.query:
        yield replace(step, query={key: value for key, value in step.query.items() if key != name})
    if isinstance(step.body, dict | list):
        for body in simpler_values(step.body):
            yield replace(step, body=body)


def simpler_values(value: Any) -> Iterator[Any]:
    """Yield copies of a value with one member less, the largest members first."""
    if isinstance(value, dict):
        for name in sorted(value, key=lambda name: -len(repr(value[name]))):
            yield {key: member for key, member in value.items() if key != name}
        for name, member in value.items():
            for simpler in simpler_values(member):
                yield {**value, name: simpler}
    elif isinstance(value, list):
        for index in range(len(value)):
            yield value[:index] + value[index + 1 :]
        for index, member in enumerate(value):
            for simpler in simpler_values(member):
                yield [*value[:index], simpler, *value[index + 1 :]]
