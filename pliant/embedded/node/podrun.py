"""The life of one pod on a node, from its first process to its last."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from pliant.embedded.gpus import GPU, asked_for_by_pod
from pliant.embedded.node.confignews import ConfigKey
from pliant.embedded.node.containerrun import ContainerRun, grace_of
from pliant.embedded.node.environment import Missing, PodFacts, Unusable, mounted
from pliant.embedded.node.link import Ending, StartFailed
from pliant.embedded.node.podscope import PodScope
from pliant.embedded.node.podstatus import ContainerRecord, restored
from pliant.embedded.patience import patiently
from pliant.kube.resources import PODS

_KILLED = Ending(137, int(signal.SIGKILL))
_RESTARTED = "NodeRestarted"

Records = Sequence[ContainerRecord]


class PodRun:
    """Brings a pod up, keeps it as its restart policy says, and takes it down."""

    def __init__(self, scope: PodScope, fate: str = "the cluster that ran {} has ended") -> None:
        self.scope = scope
        self._fate = fate
        """What became of those who ran it before, if anybody did."""
        self._policy = "Always"
        self._grace = 30.0

    async def run(self) -> None:
        """Live until nothing of the pod runs or will run; its object then tells how it ended."""
        pod = self.scope
        raw = await patiently(partial(pod.services.client.get, PODS, pod.meta.namespace, pod.meta.name))
        if raw["metadata"]["uid"] != pod.meta.uid:
            return
        self._policy = raw["spec"].get("restartPolicy") or "Always"
        self._grace = grace_of(raw["spec"])
        inits, mains = restored(raw["spec"], raw.get("status") or {})
        pod.report.begin(raw, inits, mains)
        if self._may_run(inits, mains):
            await self._live(raw, inits, mains)
        pod.forget_deadline()
        pod.report.close()
        await pod.report.publish()

    def _may_run(self, inits: Records, mains: Records) -> bool:
        """Whether to run the pod: one whose processes ended with an earlier cluster may be over."""
        records = (*inits, *mains)
        lost = [each for each in records if each.is_running]
        for each in lost:
            each.note_end(self.scope.now(), _KILLED, _RESTARTED, self._fate.format("it"))
        if lost and self._policy == "Never":
            self.scope.report.fail(_RESTARTED, self._fate.format("this pod"))
            return False
        if self.scope.stopping.is_set():
            return False
        for each in records:
            if each.ended is not None and not each.has_succeeded:
                each.note_restart()
        return True

    async def _live(self, raw: Mapping[str, Any], inits: Records, mains: Records) -> None:
        pod, services = self.scope, self.scope.services
        await services.surveyed.wait()
        try:
            own_network = not raw["spec"].get("hostNetwork")
            member = f"{pod.meta.namespace}/{pod.meta.name}"
            address = await services.agent.make_pod(pod.meta.uid, pod.host, own_network=own_network, member=member)
            services.furnishing.settle(raw, pod.host, address)
        except (StartFailed, OSError) as problem:
            await self._refuse(mains, "FailedCreatePodSandBox", f"the pod's network could not be made: {problem}")
            return
        pod.report.address = address
        limit = raw["spec"].get("activeDeadlineSeconds")
        expiry = asyncio.get_running_loop().call_later(limit, self._expire) if limit else None
        shown = [ConfigKey(kind, pod.meta.namespace, name) for kind, name in mounted(raw["spec"])]
        with services.news.of(shown) as news:
            if await self._is_furnished(raw, address, mains) and await self._has_gpus(raw["spec"]):
                for caveat in services.furnishing.locality.caveats(raw["spec"]):
                    await pod.warn("NotMounted", caveat)
                await self._run_containers(inits, mains, news)
        if expiry is not None:
            expiry.cancel()
        await services.agent.remove_pod(pod.meta.uid)
        await services.gpus.release(pod.meta.uid)
        await services.furnishing.clear(pod.meta.uid)

    async def _run_containers(self, inits: Records, mains: Records, news: asyncio.Event) -> None:
        """Run init containers in order and then the others; those that stay beside them end last, in reverse."""
        async with asyncio.TaskGroup() as tasks:
            following = tasks.create_task(self._keep_volumes_current(news))
            sidecars: list[ContainerRun] = []
            if await self._is_prepared(inits, sidecars, tasks):
                await self._run_mains(mains)
            # Nothing is started any more, and who stays beside the others has the pod's grace period to leave.
            self.scope.stop(self._grace)
            for each in reversed(sidecars):
                await each.dismissed()
            following.cancel()

    async def _keep_volumes_current(self, news: asyncio.Event) -> None:
        """Show changes of mounted configuration to the pod; one that cannot be shown leaves what was there."""
        pod = self.scope
        while True:
            await news.wait()
            news.clear()
            assert pod.facts is not None
            pod.facts = pod.facts.with_found(await pod.configuration.found(pod.facts.pod["spec"]))
            with suppress(Missing, Unusable, OSError):
                pod.services.furnishing.refresh(pod.facts)

    async def _is_prepared(self, inits: Records, sidecars: list[ContainerRun], tasks: asyncio.TaskGroup) -> bool:
        """Run the init containers; whether the others may start."""
        pod = self.scope
        for each in inits:
            pod.report.hold(1)
            run = ContainerRun(pod, each)
            if each.is_sidecar:
                sidecars.append(run)
                tasks.create_task(run.keep("Always"))
                if not await run.has_come_up():
                    return False
            elif not await run.keep("Never" if self._policy == "Never" else "OnFailure"):
                return False
        return not pod.stopping.is_set()

    async def _run_mains(self, mains: Records) -> None:
        wanted = [each for each in mains if self._policy == "Always" or not each.has_succeeded]
        self.scope.report.hold(len(wanted))
        async with asyncio.TaskGroup() as tasks:
            for each in wanted:
                tasks.create_task(ContainerRun(self.scope, each).keep(self._policy))

    async def _is_furnished(self, raw: Mapping[str, Any], address: str, mains: Records) -> bool:
        """Lay out volumes as soon as all they are made of is there; false when the pod is stopped before that."""
        pod = self.scope
        while not pod.stopping.is_set():
            pod.facts = PodFacts(
                pod=raw,
                address=address,
                host_address=pod.services.agent.address,
                capacity=pod.capacity,
                found=await pod.configuration.found(raw["spec"]),
            )
            try:
                pod.laid = pod.services.furnishing.lay_out(pod.facts)
            except Missing as problem:
                await pod.warn("FailedMount", f"MountVolume.SetUp failed: {problem}")
                await pod.until_stopped(pod.configuration.changed(problem.kind, problem.name, pod.facts.found))
            except (Unusable, OSError) as problem:
                await self._refuse(mains, "FailedMount", str(problem))
            else:
                return True
        return False

    async def _has_gpus(self, spec: Mapping[str, Any]) -> bool:
        """Wait until nobody else has the GPUs that are meant for the pod; false when it will not have them."""
        pod, gpus = self.scope, self.scope.services.gpus
        wanted, there = asked_for_by_pod(spec), len(gpus.of_nodes.get(spec["nodeName"], ()))
        if wanted > there:
            why = f"Allocate failed due to requested number of devices unavailable for {GPU}. "
            pod.report.fail(
                "UnexpectedAdmissionError", f"{why}Requested: {wanted}, Available: {there}, which is unexpected"
            )
            return False
        if wanted:
            await pod.until_stopped(gpus.take(pod.meta.uid, spec["nodeName"], wanted))
        return not pod.stopping.is_set()

    async def _refuse(self, mains: Records, reason: str, problem: str) -> None:
        """Tell why the pod cannot run and wait for somebody to take it away."""
        for each in mains:
            each.note_waiting("CreateContainerError", problem)
        await self.scope.warn(reason, problem)
        await self.scope.report.publish()
        await self.scope.stopping.wait()

    def _expire(self) -> None:
        self.scope.report.fail("DeadlineExceeded", "Pod was active on the node longer than the specified deadline")
        self.scope.stop(self._grace)
