"""The lifecycle hooks of one run of a container, and its termination."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Mapping
from typing import Any

from pliant.embedded.kubelet.pods.context import PodContext
from pliant.embedded.kubelet.probes.handlers import ProbeResult, ProbeTarget, run_probe_or_hook


class ContainerLifecycle:
    """Runs the postStart and preStop hooks of a container, and sends SIGTERM and SIGKILL."""

    def __init__(self, pod: PodContext, target: ProbeTarget) -> None:
        self._pod = pod
        self._target = target
        self._is_terminating = False

    @property
    def has_post_start(self) -> bool:
        return bool(self._hook_handler("postStart"))

    async def run_post_start(self) -> bool:
        """Run the postStart hook and return whether it succeeded."""
        return await self._run_hook("postStart", "FailedPostStartHook", "PostStartHook failed")

    async def terminate(self, grace_period: float | None) -> None:
        """Run the preStop hook and send SIGTERM, and SIGKILL after the grace period.

        Without a grace period, that of the pod applies, and the pod sends SIGKILL.
        """
        loop = asyncio.get_running_loop()
        deadline = None if grace_period is None else loop.time() + grace_period
        if not self._is_terminating:
            self._is_terminating = True
            await self._run_pre_stop(deadline)
        self._send_signal(signal.SIGTERM)
        if deadline is not None:
            await asyncio.sleep(deadline - loop.time())
            self._send_signal(signal.SIGKILL)

    async def _run_pre_stop(self, deadline: float | None) -> None:
        if not self._hook_handler("preStop"):
            return
        try:
            async with asyncio.timeout_at(deadline):
                await self._run_hook("preStop", "FailedPreStopHook", "PreStopHook failed")
        except TimeoutError:
            message = "PreStopHook failed: it did not finish within the grace period"
            await self._pod.emit_warning("FailedPreStopHook", message)

    async def _run_hook(self, hook: str, reason: str, failure_message: str) -> bool:
        report = await run_probe_or_hook(self._target, self._hook_handler(hook), None)
        if report.result is ProbeResult.SUCCESS:
            return True
        message = f"{failure_message}: {report.message}" if report.message else failure_message
        await self._pod.emit_warning(reason, message)
        return False

    def _hook_handler(self, hook: str) -> Mapping[str, Any]:
        return (self._target.spec.get("lifecycle") or {}).get(hook) or {}

    def _send_signal(self, signal_number: signal.Signals) -> None:
        self._target.agent.signal_container(self._target.pod_uid, self._target.run_name, signal_number)
