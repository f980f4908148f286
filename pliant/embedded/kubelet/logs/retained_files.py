"""The files of the logs of deleted pods.

The directory of a pod is `<owner UID>/<namespace>_<name>_<pod UID>`. It contains `<container>/<run>.log`, as below
/var/log/pods of a node, and the last state of the pod as `pod.json`.
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from operator import itemgetter
from pathlib import Path

import msgspec

from pliant.embedded.kubelet.volumes import beneath
from pliant.embedded.kubelet.volumes.pod_volumes import remove_forcibly
from pliant.embedded.storage.stored_objects import Object

POD_FILE = "pod.json"
CONTAINER_PATTERN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
RUN_FILE_PATTERN = re.compile(r"\d+\.log")
_LOG_FILE_PATTERN = re.compile(r"(\d+)\.log(\.\d+)?(\.times)?")
_KEPT_METADATA = ("name", "namespace", "uid", "labels", "ownerReferences", "creationTimestamp")
_BLOCK_BYTES = 512  # the unit of st_blocks

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class RetainedPod:
    """A deleted pod whose logs exist."""

    owner_uid: str
    directory_name: str
    size: int
    """The size on the disk in bytes."""

    @property
    def replaced_key(self) -> tuple[str, str]:
        """What the pods that replace each other have in common: owner, and namespace with name."""
        return self.owner_uid, self.directory_name.rpartition("_")[0]


def scan_pods(root: Path) -> list[RetainedPod]:
    """Return the pods whose logs are below a directory, in the order in which these were retained."""
    found = []
    for owner in list_entries(root) if root.exists() else ():
        for pod in list_entries(owner):
            try:
                retained_at = Path(pod, POD_FILE).stat().st_mtime_ns
                found.append((retained_at, RetainedPod(owner.name, pod.name, _size_on_disk(pod))))
            except OSError:  # The cluster ended while it moved these logs.
                remove_forcibly(Path(pod))
    return [pod for _, pod in sorted(found, key=itemgetter(0))]


def list_entries(directory: os.PathLike[str]) -> list[os.DirEntry[str]]:
    with os.scandir(directory) as entries:
        return list(entries)


def move_logs(logs_dir: Path, root: Path, path: Sequence[str], pod: Object) -> int:
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
    for container in list_entries(directory):
        if not container.is_dir(follow_symlinks=False) or not CONTAINER_PATTERN.fullmatch(container.name):
            _remove(container)
            continue
        runs = []
        for file in list_entries(container):
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


def _size_on_disk(directory: os.PathLike[str]) -> int:
    # Without Path objects, which make the start of a cluster with thousands of logs slow.
    size = Path(directory).stat().st_blocks * _BLOCK_BYTES
    for entry in list_entries(directory):
        is_directory = entry.is_dir(follow_symlinks=False)
        size += _size_on_disk(entry) if is_directory else entry.stat(follow_symlinks=False).st_blocks * _BLOCK_BYTES
    return size


def remove_directories(root: Path, pods: Sequence[RetainedPod]) -> None:
    for pod in pods:
        remove_forcibly(root / pod.owner_uid / pod.directory_name)
        with suppress(OSError):  # The directory of the owner contains other pods.
            (root / pod.owner_uid).rmdir()
