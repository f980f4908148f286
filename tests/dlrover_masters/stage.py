"""One namespace with jobs of DLRover's masters, their plans, and ways to wait for what becomes of them."""

from __future__ import annotations

import asyncio
import os
import re
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from functools import cache
from pathlib import Path

import pytest

from pliant.errors import BadRequest, NotFound
from pliant.kube.client import KubeClient
from pliant.kube.codec import WatchEventType
from pliant.kube.resources import CONFIG_MAPS, PERSISTENT_VOLUME_CLAIMS, PODS, Resource
from tests.dlrover_masters.jobs import ENOUGH, Master, claim, manual_plan, programs
from tests.dlrover_masters.versions import RELEASES
from tests.real_frameworks.environments import missing
from tests.scenarios.laws import Object
from tests.scenarios.scene import MARK, Scene, fresh_name

GROUP, VERSION = "elastic.iml.github.io", "v1alpha1"
ELASTIC_JOBS = Resource(GROUP, VERSION, "elasticjobs", "ElasticJob")
PLANS = Resource(GROUP, VERSION, "scaleplans", "ScalePlan")
TICK = 30.0
"""Seconds after which a master looks whether its job is over."""
LIST = 70.0
"""Seconds between two lists of a master, after which it knows of whatever it has not been told."""
SLOW = 90.0
"""Seconds for what takes a few imports of torch on a busy machine, or one list of the master and what follows."""


class Stage(Scene):
    """A namespace of jobs whose masters are DLRover's."""

    jobs = ELASTIC_JOBS

    async def open(self) -> None:
        await super().open()
        listing = await self.client.list(PLANS, self.namespace)
        self._followers.append(asyncio.create_task(self._follow(PLANS, listing.resource_version)))
        await self.client.create(CONFIG_MAPS, self.namespace, programs())
        await self.client.create(PERSISTENT_VOLUME_CLAIMS, self.namespace, claim())

    @property
    def plans(self) -> dict[str, Object]:
        """Every ScalePlan there is, by name."""
        return self._of_kind("ScalePlan")

    def posted(self) -> list[Object]:
        """Every ScalePlan that ever was, as it was first seen."""
        return [each.object for each in self.history if each.kind == "ScalePlan" and each.type is WatchEventType.ADDED]

    def plans_done(self, *names: str) -> bool:
        """Whether these plans have succeeded, or are no longer there."""
        left = [self.plans[name] for name in names if name in self.plans]
        return all(_phase(plan) == "Succeeded" for plan in left)

    def members(self, job: str) -> dict[str, Object]:
        """The pods of a job that are at work or will be, by name; not its master."""
        return {name: pod for name, pod in self.pods.items() if name.startswith(f"{job}-edljob-") and _is_live(pod)}

    def running(self, job: str, kind: str = "worker") -> set[str]:
        """The members of one kind that run."""
        found = self.members(job)
        return {name for name, pod in found.items() if f"-edljob-{kind}-" in name and _phase(pod) == "Running"}

    def ever(self, job: str) -> list[str]:
        """Every member that ever was, in order."""
        made = (each for each in self.history if each.kind == "Pod" and each.type is WatchEventType.ADDED)
        return [each.name for each in made if each.name.startswith(f"{job}-edljob-")]

    async def until_running(self, job: str, size: int, kind: str = "worker", within: float = SLOW) -> set[str]:
        """Wait until so many members of one kind run, no more; their names."""
        what = f"{size} running {kind}s of {job}"
        await self.until(lambda: len(self.running(job, kind)) == size == self._live(job, kind), what, within)
        return self.running(job, kind)

    async def until_said(self, pod: str, words: str, within: float = SLOW) -> str:
        """Wait until a pod has written something; the last such line."""
        try:
            async with asyncio.timeout(within):
                while not (found := re.findall(f".*{words}.*", await self._said(pod))):  # noqa: ASYNC110 - no watch
                    await asyncio.sleep(1)
                return str(found[-1])
        except TimeoutError:
            story = "\n".join(str(change) for change in self.history[-20:])
            said = (await self._said(pod))[-2000:]
            raise AssertionError(f"{pod} never said {words!r}\n{story}\n{said}") from None

    async def until_over(self, job: str, phase: str = "Succeeded", within: float = TICK + SLOW) -> None:
        """Wait for the end of a job, and until none of its pods is at work."""
        await self.until(lambda: self.phase(job) in ("Succeeded", "Failed"), f"{job} over", within)
        assert self.phase(job) == phase, self.status(job)
        await self.until(lambda: not any(map(_is_live, self.pods_of(job))), f"no pod of {job} left")

    def pods_of(self, job: str) -> list[Object]:
        """Every pod of a job, its master's too."""
        label = "elasticjob.dlrover/name"
        return [pod for pod in self.pods.values() if pod["metadata"].get("labels", {}).get(label) == job]

    async def finish(self) -> None:
        """Tell all trainings that it is enough."""
        await self.client.patch(CONFIG_MAPS, self.namespace, "program", {"data": {ENOUGH: "yes"}})

    async def plan(self, job: str, name: str, workers: int) -> None:
        """Ask for another number of workers, as people do."""
        await self.client.create(PLANS, self.namespace, manual_plan(job, name, workers))

    def kill(self, member: str) -> None:
        """End the processes of a member without a word to anybody."""
        self._kill(member, lambda process: f"POD_NAME={member}".encode() in _words(process / "environ"))

    def kill_master(self, job: str) -> None:
        """End the process of a master without a word to anybody."""
        words = {b"dlrover.python.master.main", self.namespace.encode(), job.encode()}
        self._kill(master_pod(job), lambda process: words <= set(_words(process / "cmdline")))

    def _kill(self, pod: str, is_meant: Callable[[Path], bool]) -> None:
        mark = f"{MARK}={self.namespace}".encode()
        mine = [each for each in Path("/proc").glob("[0-9]*") if mark in _words(each / "environ")]
        victims = [int(each.name) for each in mine if is_meant(each)]
        assert victims, f"no process of {pod}"
        for process in victims:
            with suppress(ProcessLookupError):  # it went with another
                os.kill(process, signal.SIGKILL)

    async def delete_master(self, job: str) -> None:
        """Take the pod of a master away, as a drain does."""
        await self.client.delete(PODS, self.namespace, master_pod(job))

    async def _said(self, pod: str) -> str:
        try:
            return await self.log(pod)
        except (BadRequest, NotFound):
            return ""  # it has not begun, or another takes its place

    def _live(self, job: str, kind: str) -> int:
        return sum(f"-edljob-{kind}-" in name for name in self.members(job))


@asynccontextmanager
async def a_stage(client: KubeClient, *masters: Master) -> AsyncIterator[Stage]:
    """A fresh namespace for jobs of these masters; skips the test where one is not installed."""
    for master in masters:
        if problem := _problem(master.version):
            pytest.skip(f"DLRover {master.version} is not installed: {problem}")
    stage = Stage(client, fresh_name())
    try:
        await stage.open()
        yield stage
        await stage.clear()
    finally:
        await stage.close()


def master_pod(job: str) -> str:
    """The name of the pod of a job's master."""
    return f"elasticjob-{job}-dlrover-master-0"


@cache
def _problem(version: str) -> str:
    """What keeps a release from being used; to find out takes seconds."""
    return missing(RELEASES[version])


def _phase(of: Object) -> str:
    return str((of.get("status") or {}).get("phase") or "")


def _is_live(pod: Object) -> bool:
    return "deletionTimestamp" not in pod["metadata"] and _phase(pod) not in ("Succeeded", "Failed")


def _words(file: Path) -> list[bytes]:
    """What /proc tells of a process, word by word."""
    try:
        return file.read_bytes().split(b"\0")
    except OSError:
        return []  # it has ended, or is somebody else's
