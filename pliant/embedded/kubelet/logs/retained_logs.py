"""Keeps the logs of deleted pods until the controller of the pods is deleted, too."""

from __future__ import annotations

import asyncio
import shutil
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from pliant.embedded.apiserver.streaming.logs import LogOptions
from pliant.embedded.kubelet.logs.pod_logs import PodLogStore
from pliant.embedded.kubelet.logs.retained_files import (
    CONTAINER_PATTERN,
    POD_FILE,
    RUN_FILE_PATTERN,
    RetainedPod,
    list_entries,
    move_logs,
    remove_directories,
    scan_pods,
)
from pliant.embedded.kubelet.volumes import beneath
from pliant.embedded.storage.store import Store
from pliant.embedded.storage.stored_objects import Object, ObjectChange, StoredObject

MAX_RETAINED_PODS_PER_NAME = 5
"""As many attempts as runs of a container; a job that restarts for days keeps the latest ones."""
MAX_RETAINED_BYTES = 1 << 30
"""Twenty logs of the maximum size, a small part of the disk of a laptop."""
_SETTLE_TIMEOUT_SECONDS = 1.0
_PODS_RESOURCE_KEY = "/pods"


class RetainedLogStore:
    """Keeps and reads the logs of deleted pods; those of the oldest pods are deleted when there are too many."""

    def __init__(self, root: Path, store: Store, pod_logs: PodLogStore) -> None:
        self._root = root
        self._index = store.committed
        self._pod_logs = pod_logs
        self._pods: dict[str, RetainedPod] = {}
        """Pods by the name of their directory, oldest first."""
        self._names: dict[tuple[str, str], list[str]] = defaultdict(list)
        """The directories of pods that replaced each other, oldest first."""
        self._owners: Counter[str] = Counter()
        """The number of pods of each owner."""
        self._total_size = 0
        self._deleted_pods: dict[str, StoredObject] = {}
        """Deleted pods whose logs have not been taken over yet, by uid."""
        self._is_settled = asyncio.Event()
        """Set while there are no such pods."""
        self._deleted_owners: asyncio.Queue[str] = asyncio.Queue()
        store.add_listener(self._on_commit)

    async def run(self) -> None:
        """Delete the logs of each owner that is deleted, until cancelled."""
        while True:
            owner_uid = await self._deleted_owners.get()
            await self._delete([pod for pod in self._pods.values() if pod.owner_uid == owner_uid])

    async def load(self) -> None:
        """Find the logs of an earlier start of the cluster, and delete those whose owner does not exist any more."""
        found = await asyncio.to_thread(scan_pods, self._root)
        for pod in found:
            self._add(pod)
        await self._delete([pod for pod in found if not self._has_owner(pod)])

    async def retain(self, pod_uid: str, logs_dir: Path) -> None:
        """Take over the logs of a deleted pod, if its controller still exists."""
        record = self._deleted_pods.get(pod_uid)
        if record is not None:
            try:
                await self._retain(record.decode(), pod_uid, logs_dir)
            finally:
                self._deleted_pods.pop(pod_uid, None)
                if not self._deleted_pods:
                    self._is_settled.set()

    async def _retain(self, pod: Object, pod_uid: str, logs_dir: Path) -> None:
        owner_uid = _controller_uid(pod)
        if not owner_uid or self._index.find_key_by_uid(owner_uid) is None:
            return
        metadata = pod["metadata"]
        name = f"{metadata['namespace']}_{metadata['name']}_{pod_uid}"
        size = await asyncio.to_thread(move_logs, logs_dir, self._root, (owner_uid, name), pod)
        if size:
            retained = RetainedPod(owner_uid, name, size)
            self._add(retained)
            # The owner may have been deleted meanwhile.
            await self._delete(self._surplus_pods(retained) if self._has_owner(retained) else [retained])

    async def list_directory(self, path: Sequence[str]) -> list[str] | None:
        """Return the sorted names in a directory, those of directories with a slash; None if it does not exist."""
        if not path:
            await self._wait_until_settled()
            return [f"{name}/" for name in sorted(self._pods)]
        directory = self._find_directory(path)
        if directory is None:
            return None
        entries = list_entries(directory)
        directories = [f"{entry.name}/" for entry in entries if entry.is_dir(follow_symlinks=False)]
        # The other files of a run belong to its log.
        files = [each.name for each in entries if each.name == POD_FILE or RUN_FILE_PATTERN.fullmatch(each.name)]
        return sorted([*directories, *files])

    def read_file(self, path: Sequence[str], options: LogOptions) -> AsyncIterator[bytes] | None:
        """Return the chunks of a file; None if it does not exist."""
        directory = self._find_directory(path[:-1]) if path else None
        if directory is None:
            return None
        if len(path) == 2 and path[-1] == POD_FILE:
            return _read_whole_file(directory / POD_FILE)
        has_log = len(path) == 3 and RUN_FILE_PATTERN.fullmatch(path[-1]) and any(directory.glob(f"{path[-1]}*"))
        return self._pod_logs.read_log(directory / path[-1], options) if has_log else None

    async def _wait_until_settled(self) -> None:
        """Wait for the logs of pods that were deleted just now; those on a node that does not respond are left out."""
        with suppress(TimeoutError):
            async with asyncio.timeout(_SETTLE_TIMEOUT_SECONDS):
                while self._deleted_pods:
                    self._is_settled.clear()
                    await self._is_settled.wait()

    def _find_directory(self, path: Sequence[str]) -> Path | None:
        """Return the directory of a pod or of one of its containers."""
        pod = self._pods.get(path[0]) if path else None
        if pod is None or len(path) > 2 or not all(map(CONTAINER_PATTERN.fullmatch, path[1:])):
            return None
        directory = self._root.joinpath(pod.owner_uid, *path)
        return directory if directory.is_dir() and not directory.is_symlink() else None

    def _on_commit(self, changes: Sequence[ObjectChange]) -> None:
        for change in changes:
            record = change.after
            if not change.is_deleted:
                continue
            if record.uid in self._owners:
                self._deleted_owners.put_nowait(record.uid)
            if record.key.resource == _PODS_RESOURCE_KEY and record.owner_uids and _node_name(record):
                self._deleted_pods[record.uid] = record

    def _has_owner(self, pod: RetainedPod) -> bool:
        return self._index.find_key_by_uid(pod.owner_uid) is not None

    def _add(self, pod: RetainedPod) -> None:
        self._pods[pod.directory_name] = pod
        self._names[pod.replaced_key].append(pod.directory_name)
        self._owners[pod.owner_uid] += 1
        self._total_size += pod.size

    def _surplus_pods(self, added: RetainedPod) -> list[RetainedPod]:
        """Return the oldest pods of the same name, and of all, that exceed the limits."""
        surplus = [self._pods[name] for name in self._names[added.replaced_key][:-MAX_RETAINED_PODS_PER_NAME]]
        # Logs of deleted pods leave at least half of the free space to running ones.
        free = shutil.disk_usage(self._root).free
        excess = self._total_size - min(MAX_RETAINED_BYTES, (free + self._total_size) // 2)
        excess -= sum(pod.size for pod in surplus)
        for pod in self._pods.values():
            if excess <= 0:
                break
            if pod not in surplus:
                surplus.append(pod)
                excess -= pod.size
        return surplus

    async def _delete(self, pods: Sequence[RetainedPod]) -> None:
        for pod in pods:
            if self._pods.pop(pod.directory_name, None) is not None:
                self._names[pod.replaced_key].remove(pod.directory_name)
                if not self._names[pod.replaced_key]:
                    del self._names[pod.replaced_key]
                self._owners -= Counter([pod.owner_uid])  # without the owners that have no pods left
                self._total_size -= pod.size
        if pods:
            await asyncio.to_thread(remove_directories, self._root, pods)


def _controller_uid(pod: Mapping[str, Any]) -> str:
    references = (pod.get("metadata") or {}).get("ownerReferences") or ()
    return next((str(each["uid"]) for each in references if each.get("controller")), "")


def _node_name(pod: StoredObject) -> str:
    return pod.indexed_values[0]


async def _read_whole_file(path: Path) -> AsyncIterator[bytes]:
    with beneath.open_regular_file(path) as file:
        yield file.read()
