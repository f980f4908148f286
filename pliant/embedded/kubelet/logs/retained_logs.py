"""Keeps the logs of deleted pods until the controller of the pods is deleted, too.

The directory of a pod is `<owner UID>/<namespace>_<name>_<pod UID>`. It contains `<container>/<run>.log`, as below
/var/log/pods of a node, and the last state of the pod as `pod.json`.
"""

from __future__ import annotations

import asyncio
import logging
import os
import re
import shutil
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from pliant.embedded.apiserver.streaming.logs import LogOptions
from pliant.embedded.kubelet.logs.pod_logs import PodLogStore
from pliant.embedded.kubelet.volumes import beneath
from pliant.embedded.kubelet.volumes.pod_volumes import remove_forcibly
from pliant.embedded.storage.store import Store
from pliant.embedded.storage.stored_objects import Object, ObjectChange, StoredObject

MAX_RETAINED_PODS_PER_NAME = 5
"""As many attempts as runs of a container; a job that restarts for days keeps the latest ones."""
MAX_RETAINED_BYTES = 1 << 30
"""Twenty logs of the maximum size, a small part of the disk of a laptop."""
POD_FILE = "pod.json"
_SETTLE_TIMEOUT_SECONDS = 1.0
_PODS_RESOURCE_KEY = "/pods"
_LOG_FILE_PATTERN = re.compile(r"(\d+)\.log(\.\d+)?(\.times)?")
_CONTAINER_PATTERN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_RUN_PATTERN = re.compile(r"\d+\.log")
_KEPT_METADATA = ("name", "namespace", "uid", "labels", "ownerReferences", "creationTimestamp")
_BLOCK_BYTES = 512  # the unit of st_blocks

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _RetainedPod:
    owner_uid: str
    directory_name: str
    size: int
    """The size on the disk in bytes."""

    @property
    def replaced_key(self) -> tuple[str, str]:
        """What the pods that replace each other have in common: owner, and namespace with name."""
        return self.owner_uid, self.directory_name.rpartition("_")[0]


class RetainedLogStore:
    """Keeps and reads the logs of deleted pods; those of the oldest pods are deleted when there are too many."""

    def __init__(self, root: Path, store: Store, pod_logs: PodLogStore) -> None:
        self._root = root
        self._index = store.committed
        self._pod_logs = pod_logs
        self._pods: dict[str, _RetainedPod] = {}
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
        found = await asyncio.to_thread(_scan_pods, self._root)
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
        size = await asyncio.to_thread(_move_logs, logs_dir, self._root, (owner_uid, name), pod)
        if size:
            retained = _RetainedPod(owner_uid, name, size)
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
        with os.scandir(directory) as entries:
            names = [f"{entry.name}/" if entry.is_dir(follow_symlinks=False) else entry.name for entry in entries]
        # The other files of a run belong to its log.
        return sorted(name for name in names if name.endswith("/") or name == POD_FILE or _RUN_PATTERN.fullmatch(name))

    def read_file(self, path: Sequence[str], options: LogOptions) -> AsyncIterator[bytes] | None:
        """Return the chunks of a file; None if it does not exist."""
        directory = self._find_directory(path[:-1]) if path else None
        if directory is None:
            return None
        if len(path) == 2 and path[-1] == POD_FILE:
            return _read_whole_file(directory / POD_FILE)
        has_log = len(path) == 3 and _RUN_PATTERN.fullmatch(path[-1]) and any(directory.glob(f"{path[-1]}*"))
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
        if pod is None or len(path) > 2 or not all(map(_CONTAINER_PATTERN.fullmatch, path[1:])):
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

    def _has_owner(self, pod: _RetainedPod) -> bool:
        return self._index.find_key_by_uid(pod.owner_uid) is not None

    def _add(self, pod: _RetainedPod) -> None:
        self._pods[pod.directory_name] = pod
        self._names[pod.replaced_key].append(pod.directory_name)
        self._owners[pod.owner_uid] += 1
        self._total_size += pod.size

    def _surplus_pods(self, added: _RetainedPod) -> list[_RetainedPod]:
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

    async def _delete(self, pods: Sequence[_RetainedPod]) -> None:
        for pod in pods:
            if self._pods.pop(pod.directory_name, None) is not None:
                self._names[pod.replaced_key].remove(pod.directory_name)
                if not self._names[pod.replaced_key]:
                    del self._names[pod.replaced_key]
                self._owners -= Counter([pod.owner_uid])  # without the owners that have no pods left
                self._total_size -= pod.size
        if pods:
            await asyncio.to_thread(_remove_directories, self._root, pods)


def _controller_uid(pod: Mapping[str, Any]) -> str:
    references = (pod.get("metadata") or {}).get("ownerReferences") or ()
    return next((str(each["uid"]) for each in references if each.get("controller")), "")


def _node_name(pod: StoredObject) -> str:
    return pod.indexed_values[0]


def _scan_pods(root: Path) -> list[_RetainedPod]:
    """Return the pods whose logs are below a directory, in the order in which these were retained."""
    found = []
    for directory in root.glob("*/*"):
        try:
            found.append(((directory / POD_FILE).stat().st_mtime_ns, directory))
        except OSError:  # The cluster ended while it moved these logs.
            remove_forcibly(directory)
    return [_RetainedPod(path.parent.name, path.name, _size_on_disk(path)) for _, path in sorted(found)]


def _move_logs(logs_dir: Path, root: Path, path: Sequence[str], pod: Object) -> int:
    """Move the logs of a pod below `root` and return their size; return 0 if the pod has written none."""
    directory = root.joinpath(*path)
    try:
        if logs_dir.is_symlink() or not any(map(_has_content, logs_dir.glob("*/*.log*"))):
            return 0
        beneath.make_directory(root, *path[:-1])
        logs_dir.rename(directory)
        runs = dict(_keep_only_logs(directory))
        (directory / POD_FILE).write_bytes(msgspec.json.encode(_reduce_pod(pod, runs)))
        return _size_on_disk(directory)
    except OSError as error:  # The disk is full, or a container has changed the permissions.
        log.warning("logs of a deleted pod are lost", extra={"pod": path[-1], "error": str(error)})
        remove_forcibly(directory)
        return 0


def _has_content(path: Path) -> bool:
    return not path.name.endswith(".times") and path.lstat().st_size > 0


def _keep_only_logs(directory: Path) -> Iterator[tuple[str, int]]:
    """Remove everything but regular log files; yield each container with the number of its last run."""
    for container in list(os.scandir(directory)):
        if not container.is_dir(follow_symlinks=False) or not _CONTAINER_PATTERN.fullmatch(container.name):
            _remove(container)
            continue
        runs = []
        for file in list(os.scandir(container)):
            match = _LOG_FILE_PATTERN.fullmatch(file.name)
            if match and file.is_file(follow_symlinks=False):
                runs.append(int(match[1]))
            else:
                _remove(file)
        if runs:
            yield container.name, max(runs)


def _remove(entry: os.DirEntry[str]) -> None:
    if entry.is_dir(follow_symlinks=False):
        remove_forcibly(Path(entry))
    else:
        Path(entry).unlink()


def _reduce_pod(pod: Object, last_runs: Mapping[str, int]) -> Object:
    """Return what identifies a pod and its containers, without the environment, which may contain secrets."""
    spec, status = pod["spec"], dict(pod.get("status") or {})
    containers = {
        group: [{"name": container["name"]} for container in spec.get(group) or ()]
        for group in ("initContainers", "containers")
    }
    for group, field in (("initContainers", "initContainerStatuses"), ("containers", "containerStatuses")):
        reported = {each["name"]: each for each in status.get(field) or ()}
        names = [container["name"] for container in containers[group] if container["name"] in last_runs]
        status[field] = [{**reported.get(name, {}), "name": name, "restartCount": last_runs[name]} for name in names]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {field: pod["metadata"][field] for field in _KEPT_METADATA if field in pod["metadata"]},
        "spec": {"nodeName": spec.get("nodeName", ""), **containers},
        "status": status,
    }


def _size_on_disk(directory: Path) -> int:
    paths = [directory, *directory.rglob("*")]
    return sum(path.lstat().st_blocks * _BLOCK_BYTES for path in paths)


def _remove_directories(root: Path, pods: Sequence[_RetainedPod]) -> None:
    for pod in pods:
        remove_forcibly(root / pod.owner_uid / pod.directory_name)
        with suppress(OSError):  # The directory of the owner contains other pods.
            (root / pod.owner_uid).rmdir()


async def _read_whole_file(path: Path) -> AsyncIterator[bytes]:
    with beneath.open_regular_file(path) as file:
        yield file.read()
