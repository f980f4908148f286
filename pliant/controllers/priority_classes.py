"""The PriorityClasses of the cluster, which are watched once a job names one."""

from __future__ import annotations

import asyncio
import dataclasses
import logging
import re
from typing import Any

from pliant.errors import Forbidden, NotFound, RetryLater
from pliant.kube.cache.informer import Informer
from pliant.kube.client import KubeClient
from pliant.kube.resources import PRIORITY_CLASSES
from pliant.model.job import Job

SYSTEM_PRIORITY_CLASSES = frozenset({"system-cluster-critical", "system-node-critical"})
"""Every cluster has these; not every API server lists them."""
SYNC_TIMEOUT_SECONDS = 10.0
MAX_CONFIRMED_ABSENCES = 4096
_NAME_PATTERN = re.compile(r"[a-z0-9]([-.a-z0-9]{0,251}[a-z0-9])?")

log = logging.getLogger(__name__)


class PriorityClassWatch:
    def __init__(self, client: KubeClient) -> None:
        self._client = client
        self._informer: Informer[dict[str, Any]] = Informer(client, PRIORITY_CLASSES, dict)
        self._tasks: asyncio.TaskGroup | None = None
        self._start_lock = asyncio.Lock()
        self._may_list: bool | None = None  # None until the first job names a class
        self._confirmed_absences: set[tuple[str, str]] = set()
        """Job UIDs and names of classes that did not exist when the job was first reconciled."""

    def attach(self, tasks: asyncio.TaskGroup) -> None:
        """Let the watch run in this task group; without one, all classes are assumed to exist."""
        self._tasks = tasks

    async def mark_missing(self, job: Job, class_path: str) -> Job:
        """Return the job with the classes that the cluster does not have, and a warning for each.

        `class_path` is the field that names the class of the job. If the operator may not list classes, all are
        assumed to exist, and the API server rejects pods with others.
        """
        named = {job.priority_class: class_path} if job.priority_class else {}
        for group in job.groups:
            if group.priority_class:
                named.setdefault(group.priority_class, f"{group.path}.priority")
        named = {name: path for name, path in named.items() if name not in SYSTEM_PRIORITY_CLASSES}
        if not named or self._tasks is None or not await self._is_started(self._tasks):
            return job
        missing = {name: path for name, path in named.items() if not await self._exists(name, job)}
        warnings = (
            f"{path}: PriorityClass {name} not found, so pods are created without it; "
            f"create it, for example: kubectl create priorityclass {name} --value=1000"
            for name, path in missing.items()
        )
        return dataclasses.replace(
            job, missing_priority_classes=frozenset(missing), warnings=(*job.warnings, *warnings)
        )

    async def _is_started(self, tasks: asyncio.TaskGroup) -> bool:
        """Start the watch if it does not run; return whether the operator may list classes."""
        async with self._start_lock:
            if self._may_list is None:
                try:
                    await self._client.get_raw(f"{PRIORITY_CLASSES.path(None)}?limit=1")
                except (Forbidden, NotFound) as error:
                    log.warning("cannot list PriorityClasses: they are not checked", extra={"error": str(error)})
                    self._may_list = False
                else:
                    self._may_list = True
                    tasks.create_task(self._informer.run())
        if self._may_list:
            try:
                async with asyncio.timeout(SYNC_TIMEOUT_SECONDS):
                    await self._informer.wait_synced()
            except TimeoutError:
                raise RetryLater("the PriorityClasses of the cluster are not listed yet") from None
        return self._may_list

    async def _exists(self, name: str, job: Job) -> bool:
        """Return whether a class exists; the watch may be behind if a class is created together with its first job."""
        if self._informer.store.get("", name) is not None:
            return True
        if (job.owner.uid, name) in self._confirmed_absences or not _NAME_PATTERN.fullmatch(name):
            return False
        try:
            await self._client.get(PRIORITY_CLASSES, None, name)
        except (NotFound, Forbidden):
            if len(self._confirmed_absences) >= MAX_CONFIRMED_ABSENCES:
                self._confirmed_absences.clear()
            self._confirmed_absences.add((job.owner.uid, name))
            return False
        return True
