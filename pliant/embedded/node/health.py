"""Watch over one run of a container by its probes: when it has started, whether it is ready, when it must go."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from pliant.embedded.node.checks import Answer, Result, Target, check
from pliant.embedded.node.podscope import PodScope
from pliant.embedded.node.podstatus import ContainerRecord

_DEADLY = {"livenessProbe": "liveness", "startupProbe": "startup"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """How to ask, how often, and how many like answers make a verdict."""

    asked: Mapping[str, Any]
    kind: str
    delay: float
    period: float
    timeout: float
    successes: int
    failures: int
    grace: float | None
    """Seconds a container has to leave that fails it, when the pod's are not meant."""

    @classmethod
    def of(cls, container: Mapping[str, Any], kind: str) -> Probe | None:
        """A container's probe of that kind, if it has one."""
        asked = container.get(kind)
        if not asked:
            return None
        return cls(
            asked=asked,
            kind=kind,
            delay=asked.get("initialDelaySeconds") or 0,
            period=asked.get("periodSeconds") or 10,
            timeout=asked.get("timeoutSeconds") or 1,
            successes=asked.get("successThreshold") or 1,
            failures=asked.get("failureThreshold") or 3,
            grace=asked.get("terminationGracePeriodSeconds"),
        )

    @property
    def word(self) -> str:
        """What events call it."""
        return self.kind.removesuffix("Probe").capitalize()


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    """The probes of one run."""

    pod: PodScope
    record: ContainerRecord
    target: Target
    came_up: Callable[[], None]
    """Called when the container has passed its startup probe."""
    end: Callable[[float | None], Awaitable[None]]
    """Has the container end within so many seconds."""

    async def watch(self) -> None:
        """Probe until cancelled; one that fails a deadly probe is on its way out, and asked nothing more."""
        began = asyncio.get_running_loop().time()
        startup = Probe.of(self.record.spec, "startupProbe")
        if startup is not None:
            if not await self._verdict(startup, began, is_good=False):
                await self._condemn(startup)
                return
            self.record.has_started = True
            self.came_up()
            await self.pod.report.publish()
        async with asyncio.TaskGroup() as tasks:
            if liveness := Probe.of(self.record.spec, "livenessProbe"):
                tasks.create_task(self._keep_alive(liveness, began))
            if readiness := Probe.of(self.record.spec, "readinessProbe"):
                tasks.create_task(self._keep_ready(readiness, began))

    async def _keep_alive(self, probe: Probe, began: float) -> None:
        if not await self._verdict(probe, began, is_good=True):
            await self._condemn(probe)

    async def _keep_ready(self, probe: Probe, began: float) -> None:
        is_good = False
        while True:
            is_good = await self._verdict(probe, began, is_good=is_good)
            self.record.is_fit = is_good
            await self.pod.report.publish()
            await asyncio.sleep(probe.period)

    async def _verdict(self, probe: Probe, began: float, *, is_good: bool) -> bool:
        """Ask again and again until enough like answers make another verdict, or one to act upon; that verdict."""
        await asyncio.sleep(began + probe.delay - asyncio.get_running_loop().time())
        streak, last = 0, Result.UNKNOWN
        while True:
            answer = await self._asked(probe)
            if answer.result is not Result.UNKNOWN:
                streak = streak + 1 if answer.result is last else 1
                last = answer.result
            if last is Result.GOOD and streak >= probe.successes and not is_good:
                return True
            is_fatal = probe.kind in _DEADLY or is_good
            if last is Result.BAD and streak >= probe.failures and is_fatal and not self._is_leaving(probe):
                return False
            await asyncio.sleep(probe.period)

    async def _asked(self, probe: Probe) -> Answer:
        heard = self.pod.report.audible
        await heard.wait()
        answer = await check(self.target, probe.asked, probe.timeout)
        if not heard.is_set():
            # The node came to a halt meanwhile: whatever was heard says nothing about the container.
            return Answer(Result.UNKNOWN)
        if answer.result is Result.BAD:
            await self.pod.warn("Unhealthy", f"{probe.word} probe failed: {answer.message}")
        elif answer.result is Result.UNKNOWN:
            told = f"{probe.word} probe errored and resulted in unknown state: {answer.message}"
            await self.pod.warn("Unhealthy", told)
        return answer

    def _is_leaving(self, probe: Probe) -> bool:
        """A pod that is told to stop is no longer asked whether it lives."""
        return probe.kind in _DEADLY and self.pod.stopping.is_set()

    async def _condemn(self, probe: Probe) -> None:
        told = f"Container {self.record.name} failed {_DEADLY[probe.kind]} probe"
        restarts = ", will be restarted" if self.record.policy != "Never" else ""
        await self.pod.tell("Killing", told + restarts)
        await self.end(probe.grace)
