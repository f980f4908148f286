"""Run one container of a pod, again and again as its restart policy says."""

from __future__ import annotations

import asyncio
from pathlib import Path

from pliant.embedded.node.environment import Missing, Unusable, command_line, environment
from pliant.embedded.node.lastwords import last_words, mount_of, note_beside
from pliant.embedded.node.link import Command, Ending, StartFailed
from pliant.embedded.node.podscope import PodScope
from pliant.embedded.node.podstatus import ContainerRecord

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

    async def keep(self, policy: str) -> bool:
        """Run the container until its policy or the pod's end says stop; whether it ended well.

        The report has been told to hold back for its first start.
        """
        pause, loop = 0.0, asyncio.get_running_loop()
        while True:
            began = loop.time()
            ending = await self._started()
            self._pod.report.release()
            await self._pod.report.publish()
            if ending is not None:
                self._note_end(await ending)
            if loop.time() - began > _STEADY:
                pause = 0.0
            if not self._is_wanted(policy) or not await self._has_backed_off(pause):
                await self._pod.report.publish()
                return self._record.has_succeeded
            pause = min(pause * 2 or _FIRST_PAUSE, _LONGEST_PAUSE)
            self._pod.report.hold(1)

    def _note_end(self, ending: Ending) -> None:
        said = last_words(self._record.spec, self._log, has_failed=ending.code != 0)
        self._record.note_end(self._pod.now(), ending, message=said)

    def _is_wanted(self, policy: str) -> bool:
        """Whether to start it anew."""
        if self._pod.stopping.is_set() or policy == "Never":
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
        run = f"{record.name}/{record.restarts}"
        try:
            ending = await pod.services.agent.start(pod.meta.uid, run, self._command(path))
        except BaseException:
            pod.services.logs.end(path)
            raise
        record.note_running(pod.now(), f"pliant://{pod.meta.uid}/{run}")
        ending.add_done_callback(lambda _: self._note_over(run, path))
        pod.note_running(run)
        return ending

    def _note_over(self, run: str, path: Path) -> None:
        self._pod.running.discard(run)
        self._pod.services.logs.end(path)

    def _command(self, log: Path) -> Command:
        pod, spec = self._pod, self._record.spec
        assert pod.facts is not None
        furnishing = pod.services.furnishing
        variables = environment(spec, pod.facts, furnishing.variables(pod.host))
        variables |= pod.services.gpus.variables(pod.meta.uid, pod.facts.pod["spec"], self._record.name)
        argv = command_line(spec, variables)
        if not argv:
            kind = "initContainers" if self._record.is_init else "containers"
            raise Unusable(f"images are not run here: set `command` of container {spec['name']!r} in spec.{kind}")
        return Command(
            argv=argv,
            env=variables,
            folder=str(spec.get("workingDir") or furnishing.workspace),
            log=str(log),
            mounts=[*furnishing.mounts(spec, pod.meta, pod.laid, variables), mount_of(spec, note_beside(log))],
        )
