"""Run one container of a pod, again and again as its restart policy says."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pliant.embedded.node.checks import Target, require_ways
from pliant.embedded.node.environment import Missing, Unusable, command_line, environment
from pliant.embedded.node.health import Health
from pliant.embedded.node.lastwords import last_words, mount_of, note_beside
from pliant.embedded.node.leaving import Manners
from pliant.embedded.node.link import Command, Ending, StartFailed
from pliant.embedded.node.podscope import PodScope
from pliant.embedded.node.podstatus import ContainerRecord
from pliant.kube.amounts import amount

_NOT_STARTED = Ending(128)
_FIRST_PAUSE = 10.0
_LONGEST_PAUSE = 300.0
_STEADY = 600.0
"""A container that ran for this many seconds before it ended starts with a clean slate."""


class ContainerRun:
    """Starts a container, waits for its end, and starts it anew where that is wanted."""

    def __init__(self, pod: PodScope, record: ContainerRecord) -> None:
        self._pod = pod
        self._record = record
        self._log = Path()
        """Where the present run writes."""
        self._is_up = asyncio.Event()
        self._is_over = asyncio.Event()
        self._leave = asyncio.Event() if record.is_sidecar else pod.stopping
        """The container is to end: most do with the pod, those that stay beside others when they are told."""

    async def has_come_up(self) -> bool:
        """Wait until the container has started in the sense of its startup probe; false when nobody needs it."""
        waits = [asyncio.ensure_future(each.wait()) for each in (self._is_up, self._is_over, self._pod.stopping)]
        try:
            await _first(*waits)
        finally:
            for each in waits:
                each.cancel()
        return self._is_up.is_set() and not self._is_over.is_set()

    async def dismissed(self) -> None:
        """Tell a container that stays beside the others to end, and wait until it has."""
        self._leave.set()
        await self._is_over.wait()

    async def keep(self, policy: str) -> bool:
        """Run the container until its policy or the pod's end says stop; whether it ended well.

        The report has been told to hold back for its first start.
        """
        pause, loop = 0.0, asyncio.get_running_loop()
        self._record.policy = policy
        try:
            while True:
                began = loop.time()
                await self._run_once()
                if loop.time() - began > _STEADY:
                    pause = 0.0
                if not self._is_wanted(policy) or not await self._has_backed_off(pause):
                    await self._pod.report.publish()
                    return self._record.has_succeeded
                pause = min(pause * 2 or _FIRST_PAUSE, _LONGEST_PAUSE)
                self._pod.report.hold(1)
        finally:
            self._is_over.set()

    async def _run_once(self) -> None:
        """Start the container and stay with it until it ends; its record tells how that went."""
        ending = await self._started()
        if ending is None:
            self._pod.report.release()
            await self._pod.report.publish()
            return
        manners = Manners(self._pod, self._target())
        async with asyncio.TaskGroup() as tasks:
            keepers = [tasks.create_task(self._see_off(manners))]
            if manners.greets:
                keepers.append(tasks.create_task(self._greet(manners, ending)))
                await _first(keepers[-1], ending)
            if not (manners.greets and ending.done()):
                self._note_running()
            keepers.append(tasks.create_task(self._health(manners).watch()))
            self._pod.report.release()
            await self._pod.report.publish()
            self._note_end(await ending)
            for each in keepers:
                each.cancel()

    async def _see_off(self, manners: Manners) -> None:
        await self._leave.wait()
        await manners.see_off(None)

    async def _greet(self, manners: Manners, ending: asyncio.Future[Ending]) -> None:
        """Do what follows the start; a container that fails at it must go, and is not told of until it has."""
        if not await manners.greet():
            await manners.see_off(self._grace())
            await asyncio.wait([ending])

    def _note_running(self) -> None:
        self._record.note_running(self._pod.now(), f"pliant://{self._pod.meta.uid}/{self._run}")
        if self._record.has_started:
            self._note_up()

    def _health(self, manners: Manners) -> Health:
        async def end(grace: float | None) -> None:
            await manners.see_off(self._grace() if grace is None else grace)

        return Health(pod=self._pod, record=self._record, target=self._target(), came_up=self._note_up, end=end)

    def _note_up(self) -> None:
        self._record.has_come_up = True
        self._is_up.set()

    @property
    def _run(self) -> str:
        """What the agent calls the present run."""
        return f"{self._record.name}/{self._record.restarts}"

    def _target(self) -> Target:
        pod = self._pod
        assert pod.facts is not None
        return Target(
            agent=pod.services.agent,
            pod=pod.meta.uid,
            run=self._run,
            address=pod.facts.address,
            spec=self._record.spec,
        )

    def _grace(self) -> float:
        """Seconds the container has to leave when the pod stays."""
        assert self._pod.facts is not None
        return grace_of(self._pod.facts.pod["spec"])

    def _note_end(self, ending: Ending) -> None:
        said = last_words(self._record.spec, self._log, has_failed=ending.code != 0)
        reason = "OOMKilled" if ending.is_outgrown else ""
        self._record.note_end(self._pod.now(), ending, reason, said)

    def _is_wanted(self, policy: str) -> bool:
        """Whether to start it anew."""
        if self._pod.stopping.is_set() or self._leave.is_set() or policy == "Never":
            return False
        return policy == "Always" or not self._record.has_succeeded

    async def _has_backed_off(self, pause: float) -> bool:
        """Wait before the next start; whether it is still wanted then."""
        record, pod = self._record, self._pod
        if pause:
            ended, whole = record.state, f"{pod.meta.name}_{pod.meta.namespace}({pod.meta.uid})"
            message = f"back-off {pause:.0f}s restarting failed container={record.name} pod={whole}"
            record.note_waiting("CrashLoopBackOff", message)
            await pod.warn("BackOff", f"Back-off restarting failed container {record.name} in pod {whole}")
            await pod.report.publish()
            await pod.until_stopped(asyncio.sleep(pause))
            if pod.stopping.is_set():
                record.state = ended
                return False
        record.note_restart()
        return True

    async def _started(self) -> asyncio.Future[Ending] | None:
        """Start it; None when that is impossible, and then its record says why."""
        while not self._pod.stopping.is_set():
            try:
                return await self._start()
            except Missing as problem:
                await self._wait_for_change(problem)
            except (Unusable, OSError) as problem:
                await self._tell_waiting("CreateContainerError", problem)
                await self._pod.stopping.wait()
            except StartFailed as problem:
                if not self._pod.stopping.is_set():
                    self._record.note_end(self._pod.now(), _NOT_STARTED, "StartError", str(problem))
                    await self._pod.warn("Failed", f"container {self._record.name!r} did not start: {problem}")
                break
        return None

    async def _wait_for_change(self, problem: Missing) -> None:
        """Wait until a missing piece of configuration may have come."""
        pod = self._pod
        assert pod.facts is not None
        await self._tell_waiting("CreateContainerConfigError", problem)
        await pod.until_stopped(pod.configuration.changed(problem.kind, problem.name, pod.facts.found))
        found = await pod.configuration.found(pod.facts.pod["spec"])
        pod.facts = pod.facts.with_found(found)

    async def _tell_waiting(self, reason: str, problem: Exception) -> None:
        self._record.note_waiting(reason, str(problem))
        await self._pod.warn("Failed", f"container {self._record.name!r}: {problem}")
        await self._pod.report.publish(even_held=True)

    async def _start(self) -> asyncio.Future[Ending]:
        pod, record = self._pod, self._record
        path = self._log = pod.services.logs.begin(pod.meta.uid, record.name, record.restarts)
        run = self._run
        try:
            require_ways(record.spec)
            command = self._command(path)
            if record.spec.get("stdin") or record.spec.get("tty"):
                pod.services.inputs.begin(pod.meta.uid, run, record.spec, path.with_suffix(".input"))
                command["input"] = str(path.with_suffix(".input"))
                command["terminal"] = bool(record.spec.get("tty"))
            ending = await pod.services.agent.start(pod.meta.uid, run, command)
        except BaseException:
            self._note_over(run, path)
            raise
        ending.add_done_callback(lambda _: self._note_over(run, path))
        pod.note_running(run)
        return ending

    def _note_over(self, run: str, path: Path) -> None:
        self._pod.running.discard(run)
        self._pod.services.logs.end(path)
        self._pod.services.inputs.end(self._pod.meta.uid, run)
        self._pod.services.cpus.give_back((self._pod.meta.uid, run))

    def _command(self, log: Path) -> Command:
        pod, spec = self._pod, self._record.spec
        assert pod.facts is not None
        furnishing = pod.services.furnishing
        variables = environment(spec, pod.facts, furnishing.variables(pod.host, pod.facts))
        variables |= pod.services.gpus.variables(pod.meta.uid, pod.facts.pod["spec"], self._record.name)
        if spec.get("tty"):
            variables.setdefault("TERM", "xterm")
        argv = command_line(spec, variables)
        if not argv:
            kind = "initContainers" if self._record.is_init else "containers"
            raise Unusable(f"images are not run here: set `command` of container {spec['name']!r} in spec.{kind}")
        limits = (spec.get("resources") or {}).get("limits") or {}
        return Command(
            argv=argv,
            env=variables,
            folder=str(spec.get("workingDir") or furnishing.workspace),
            log=str(log),
            mounts=[*furnishing.mounts(spec, pod.meta, pod.laid, variables), mount_of(spec, note_beside(log))],
            memory=math.ceil(amount(limits.get("memory") or 0)),
            cpu=float(amount(limits.get("cpu") or 0)),
            cpus=pod.services.cpus.take((pod.meta.uid, self._run), amount(limits.get("cpu") or 0)),
        )


def grace_of(spec: Mapping[str, Any]) -> float:
    """Seconds that the containers of a pod have to leave."""
    grace = spec.get("terminationGracePeriodSeconds")
    return 30.0 if grace is None else float(grace)


async def _first(*futures: asyncio.Future[Any]) -> None:
    await asyncio.wait(futures, return_when=asyncio.FIRST_COMPLETED)
