"""Greet a container when it has started, and see it off in good order: hooks, signals, and their times."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Mapping
from typing import Any

from pliant.embedded.node.checks import Answer, Result, Target, check
from pliant.embedded.node.podscope import PodScope


class Manners:
    """The hooks of one run and its end: what it does before, SIGTERM, and SIGKILL when its time is up."""

    def __init__(self, pod: PodScope, target: Target) -> None:
        self._pod = pod
        self._target = target
        self._is_leaving = False

    @property
    def greets(self) -> bool:
        """Whether the container wants to do something right after its start."""
        return bool(self._hook("postStart"))

    async def greet(self) -> bool:
        """Run what is to follow the start; whether that went well."""
        return await self._went_well("postStart", "FailedPostStartHook", "PostStartHook failed")

    async def see_off(self, grace: float | None) -> None:
        """Have the run end within so many seconds, or within those the whole pod has; returns when all is said."""
        until = None if grace is None else asyncio.get_running_loop().time() + grace
        if not self._is_leaving:
            self._is_leaving = True
            await self._say_goodbye(until)
        self._send(signal.SIGTERM)
        if until is not None:
            await asyncio.sleep(until - asyncio.get_running_loop().time())
            self._send(signal.SIGKILL)

    async def _say_goodbye(self, until: float | None) -> None:
        if not self._hook("preStop"):
            return
        try:
            async with asyncio.timeout_at(until):
                await self._went_well("preStop", "FailedPreStopHook", "PreStopHook failed")
        except TimeoutError:
            await self._pod.warn("FailedPreStopHook", "PreStopHook failed: it took longer than the grace period")

    async def _went_well(self, name: str, reason: str, told: str) -> bool:
        answer: Answer = await check(self._target, self._hook(name), None)
        if answer.result is Result.GOOD:
            return True
        await self._pod.warn(reason, f"{told}: {answer.message}" if answer.message else told)
        return False

    def _hook(self, name: str) -> Mapping[str, Any]:
        return (self._target.spec.get("lifecycle") or {}).get(name) or {}

    def _send(self, number: signal.Signals) -> None:
        self._target.agent.send_signal(self._target.pod, self._target.run, number)
