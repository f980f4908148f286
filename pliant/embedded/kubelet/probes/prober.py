"""Watch over one run of a container by its probes: when it has started, whether it is ready, when it must go."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from pliant.embedded.kubelet.pods.context import PodContext
from pliant.embedded.kubelet.pods.status import ContainerRecord
from pliant.embedded.kubelet.probes.handlers import ProbeReport, ProbeResult, ProbeTarget, run_handler

_KILLING_PROBES = {"livenessProbe": "liveness", "startupProbe": "startup"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """How to ask, how often, and how many like answers make a verdict."""

    handler: Mapping[str, Any]
    kind: str
    initial_delay: float
    period: float
    timeout: float
    success_threshold: int
    failure_threshold: int
    termination_grace: float | None
    """Seconds a container has to leave that fails it, when the pod's are not meant."""

    @classmethod
    def parse(cls, container: Mapping[str, Any], kind: str) -> Probe | None:
        """A container's probe of that kind, if it has one."""
        asked = container.get(kind)
        if not asked:
            return None
        return cls(
            handler=asked,
            kind=kind,
            initial_delay=asked.get("initialDelaySeconds") or 0,
            period=asked.get("periodSeconds") or 10,
            timeout=asked.get("timeoutSeconds") or 1,
            success_threshold=asked.get("successThreshold") or 1,
            failure_threshold=asked.get("failureThreshold") or 3,
            termination_grace=asked.get("terminationGracePeriodSeconds"),
        )

    @property
    def event_name(self) -> str:
        """What events call it."""
        return self.kind.removesuffix("Probe").capitalize()


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerProber:
    """The probes of one run."""

    pod: PodContext
    record: ContainerRecord
    target: ProbeTarget
    on_started: Callable[[], None]
    """Called when the container has passed its startup probe."""
    terminate: Callable[[float | None], Awaitable[None]]
    """Has the container end within so many seconds."""

    async def run(self) -> None:
        """Probe until cancelled; one that fails a deadly probe is on its way out, and asked nothing more."""
        began = asyncio.get_running_loop().time()
        startup = Probe.parse(self.record.spec, "startupProbe")
        if startup is not None:
            if not await self._wait_for_threshold(startup, began, is_passing=False):
                await self._kill_container(startup)
                return
            self.record.has_started = True
            self.on_started()
            await self.pod.status_writer.publish()
        async with asyncio.TaskGroup() as tasks:
            if liveness := Probe.parse(self.record.spec, "livenessProbe"):
                tasks.create_task(self._run_liveness(liveness, began))
            if readiness := Probe.parse(self.record.spec, "readinessProbe"):
                tasks.create_task(self._run_readiness(readiness, began))

    async def _run_liveness(self, probe: Probe, started_at: float) -> None:
        if not await self._wait_for_threshold(probe, started_at, is_passing=True):
            await self._kill_container(probe)

    async def _run_readiness(self, probe: Probe, started_at: float) -> None:
        is_good = False
        while True:
            is_good = await self._wait_for_threshold(probe, started_at, is_passing=is_good)
            self.record.has_passed_readiness = is_good
            await self.pod.status_writer.publish()
            await asyncio.sleep(probe.period)

    async def _wait_for_threshold(self, probe: Probe, started_at: float, *, is_passing: bool) -> bool:
        """Ask again and again until enough like answers make another verdict, or one to act upon; that verdict."""
        await asyncio.sleep(started_at + probe.initial_delay - asyncio.get_running_loop().time())
        streak, last = 0, ProbeResult.UNKNOWN
        while True:
            answer = await self._probe_once(probe)
            if answer.result is not ProbeResult.UNKNOWN:
                streak = streak + 1 if answer.result is last else 1
                last = answer.result
            if last is ProbeResult.SUCCESS and streak >= probe.success_threshold and not is_passing:
                return True
            is_fatal = probe.kind in _KILLING_PROBES or is_passing
            if (
                last is ProbeResult.FAILURE
                and streak >= probe.failure_threshold
                and is_fatal
                and not self._is_pod_stopping(probe)
            ):
                return False
            await asyncio.sleep(probe.period)

    async def _probe_once(self, probe: Probe) -> ProbeReport:
        heard = self.pod.status_writer.node_connected
        await heard.wait()
        answer = await run_handler(self.target, probe.handler, probe.timeout)
        if not heard.is_set():
            # The node came to a halt meanwhile: whatever was heard says nothing about the container.
            return ProbeReport(ProbeResult.UNKNOWN)
        if answer.result is ProbeResult.FAILURE:
            await self.pod.emit_warning("Unhealthy", f"{probe.event_name} probe failed: {answer.message}")
        elif answer.result is ProbeResult.UNKNOWN:
            told = f"{probe.event_name} probe errored and resulted in unknown state: {answer.message}"
            await self.pod.emit_warning("Unhealthy", told)
        return answer

    def _is_pod_stopping(self, probe: Probe) -> bool:
        """A pod that is told to stop is no longer asked whether it lives."""
        return probe.kind in _KILLING_PROBES and self.pod.stopping.is_set()

    async def _kill_container(self, probe: Probe) -> None:
        told = f"Container {self.record.name} failed {_KILLING_PROBES[probe.kind]} probe"
        restarts = ", will be restarted" if self.record.restart_policy != "Never" else ""
        await self.pod.emit_normal("Killing", told + restarts)
        await self.terminate(probe.termination_grace)
