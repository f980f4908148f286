"""Greet a container when it has started, and see it off in good order: hooks, signals, and their times."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Mapping
from typing import Any

from pliant.embedded.kubelet.pods.context import PodContext
from pliant.embedded.kubelet.probes.handlers import ProbeReport, ProbeResult, ProbeTarget, run_handler


class PodLifecycle:
    """The hooks of one run and its end: what it does before, SIGTERM, and SIGKILL when its time is up."""

    def __init__(self, pod: PodContext, target: ProbeTarget) -> None:
        self._pod = pod
        self._target = target
        self._is_terminating = False

    @property
    def has_post_start(self) -> bool:
        """Whether the container wants to do something right after its start."""
        return bool(self._hook_handler("postStart"))

    async def run_post_start(self) -> bool:
        """Run what is to follow the start; whether that went well."""
        return await self._run_hook("postStart", "FailedPostStartHook", "PostStartHook failed")

    async def terminate(self, grace_period: float | None) -> None:
        """Have the run end within so many seconds, or within those the whole pod has; returns when all is said."""
        until = None if grace_period is None else asyncio.get_running_loop().time() + grace_period
        if not self._is_terminating:
            self._is_terminating = True
            await self._run_pre_stop(until)
        self._send_signal(signal.SIGTERM)
        if until is not None:
            await asyncio.sleep(until - asyncio.get_running_loop().time())
            self._send_signal(signal.SIGKILL)

    async def _run_pre_stop(self, deadline: float | None) -> None:
        if not self._hook_handler("preStop"):
            return
        try:
            async with asyncio.timeout_at(deadline):
                await self._run_hook("preStop", "FailedPreStopHook", "PreStopHook failed")
        except TimeoutError:
            await self._pod.emit_warning(
                "FailedPreStopHook", "PreStopHook failed: it took longer than the grace period"
            )

    async def _run_hook(self, hook: str, reason: str, failure_message: str) -> bool:
        answer: ProbeReport = await run_handler(self._target, self._hook_handler(hook), None)
        if answer.result is ProbeResult.SUCCESS:
            return True
        await self._pod.emit_warning(
            reason, f"{failure_message}: {answer.message}" if answer.message else failure_message
        )
        return False

    def _hook_handler(self, hook: str) -> Mapping[str, Any]:
        return (self._target.spec.get("lifecycle") or {}).get(hook) or {}

    def _send_signal(self, signal_number: signal.Signals) -> None:
        self._target.agent.send_signal(self._target.pod_uid, self._target.run_name, signal_number)
