"""Run the startup, liveness and readiness probes of one run of a container."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from pliant.embedded.kubelet.pods.context import PodContext
from pliant.embedded.kubelet.pods.status import ContainerRecord
from pliant.embedded.kubelet.probes.handlers import ProbeResult, ProbeTarget, run_probe_or_hook

_KILLING_PROBES = {"livenessProbe": "liveness", "startupProbe": "startup"}


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeSettings:
    """The settings of a probe."""

    handler: Mapping[str, Any]
    kind: str
    initial_delay: float
    period: float
    timeout: float
    success_threshold: int
    failure_threshold: int
    termination_grace: float | None
    """The `terminationGracePeriodSeconds` of the probe, which overrides that of the pod."""

    @classmethod
    def parse(cls, container: Mapping[str, Any], kind: str) -> ProbeSettings | None:
        """Return the probe of a container of that kind, if it has one."""
        probe = container.get(kind)
        if not probe:
            return None
        return cls(
            handler=probe,
            kind=kind,
            initial_delay=probe.get("initialDelaySeconds") or 0,
            period=probe.get("periodSeconds") or 10,
            timeout=probe.get("timeoutSeconds") or 1,
            success_threshold=probe.get("successThreshold") or 1,
            failure_threshold=probe.get("failureThreshold") or 3,
            termination_grace=probe.get("terminationGracePeriodSeconds"),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerProber:
    """Runs the probes of one run of a container."""

    pod: PodContext
    record: ContainerRecord
    target: ProbeTarget
    on_started: Callable[[], None]
    """Called when the container passes its startup probe."""
    terminate: Callable[[float | None], Awaitable[None]]
    """Terminates the container, with a grace period if the probe has one."""

    async def run(self) -> None:
        """Run the probes until cancelled, or until a failed startup or liveness probe has killed the container."""
        started_at = asyncio.get_running_loop().time()
        startup = ProbeSettings.parse(self.record.spec, "startupProbe")
        if startup is not None:
            if not await self._wait_for_threshold(startup, started_at, is_passing=False):
                await self._kill_container(startup)
                return
            self.record.has_started = True
            self.on_started()
            await self.pod.status_writer.publish_if_changed()
        async with asyncio.TaskGroup() as tasks:
            if liveness := ProbeSettings.parse(self.record.spec, "livenessProbe"):
                tasks.create_task(self._run_liveness(liveness, started_at))
            if readiness := ProbeSettings.parse(self.record.spec, "readinessProbe"):
                tasks.create_task(self._run_readiness(readiness, started_at))

    async def _run_liveness(self, probe: ProbeSettings, started_at: float) -> None:
        if not await self._wait_for_threshold(probe, started_at, is_passing=True):
            await self._kill_container(probe)

    async def _run_readiness(self, probe: ProbeSettings, started_at: float) -> None:
        is_ready = False
        while True:
            is_ready = await self._wait_for_threshold(probe, started_at, is_passing=is_ready)
            self.record.has_passed_readiness = is_ready
            await self.pod.status_writer.publish_if_changed()
            await asyncio.sleep(probe.period)

    async def _wait_for_threshold(self, probe: ProbeSettings, started_at: float, *, is_passing: bool) -> bool:
        """Probe until a threshold is reached that changes the state, or requires an action; return the new state."""
        await asyncio.sleep(started_at + probe.initial_delay - asyncio.get_running_loop().time())
        streak, last = 0, ProbeResult.UNKNOWN
        while True:
            result = await self._probe_once(probe)
            if result is not ProbeResult.UNKNOWN:
                streak = streak + 1 if result is last else 1
                last = result
            if last is ProbeResult.SUCCESS and streak >= probe.success_threshold and not is_passing:
                return True
            # A pod that is stopping ignores failed startup and liveness probes.
            is_relevant = not self.pod.stopping.is_set() if probe.kind in _KILLING_PROBES else is_passing
            if last is ProbeResult.FAILURE and streak >= probe.failure_threshold and is_relevant:
                return False
            await asyncio.sleep(probe.period)

    async def _probe_once(self, probe: ProbeSettings) -> ProbeResult:
        node_connected = self.pod.status_writer.node_connected
        await node_connected.wait()
        report = await run_probe_or_hook(self.target, probe.handler, probe.timeout)
        if not node_connected.is_set() or (
            report.result is ProbeResult.FAILURE and not await self.target.agent.is_responsive(probe.timeout)
        ):
            # The node failed meanwhile, or its agent is stopped: the result says nothing about the container.
            return ProbeResult.UNKNOWN
        probe_name = probe.kind.removesuffix("Probe").capitalize()
        if report.result is ProbeResult.FAILURE:
            await self.pod.emit_warning("Unhealthy", f"{probe_name} probe failed: {report.message}")
        elif report.result is ProbeResult.UNKNOWN:
            message = f"{probe_name} probe errored and resulted in unknown state: {report.message}"
            await self.pod.emit_warning("Unhealthy", message)
        return report.result

    async def _kill_container(self, probe: ProbeSettings) -> None:
        message = f"Container {self.record.name} failed {_KILLING_PROBES[probe.kind]} probe"
        restart = ", will be restarted" if self.record.restart_policy != "Never" else ""
        await self.pod.emit_normal("Killing", message + restart)
        await self.terminate(probe.termination_grace)
