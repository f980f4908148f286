"""The preStop hook by which a replica saves its state before any deletion of its pod, whoever decides it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import timedelta
from typing import Any

from pliant.model.job import Job, ReplicaGroup

SIGNAL_DIR = "/var/run/pliant"
"""The directory in which the hook and the program exchange files."""
SIGNAL_VOLUME = "pliant-run"
TERMINATION_MARGIN = timedelta(seconds=5)
"""How much longer than the checkpoint the termination may take: the program still has to exit."""
DEFAULT_TERMINATION_GRACE_SECONDS = 30

# A program that does not create `acknowledges` is not waited for. The kubelet ends the hook with the grace period.
_SCRIPT = (
    f"cd {SIGNAL_DIR} && [ -e acknowledges ] || exit 0; : > checkpoint-requested; "
    "until [ -e checkpoint-done ]; do sleep 0.1 || sleep 1; done"
)
_HOOK: Mapping[str, Any] = {"exec": {"command": ["sh", "-c", _SCRIPT]}}
_PARENT_DIRS = ("/var/run", "/var", "/run")  # /var/run is a link to /run in most images
_READ_ONLY_SOURCES = frozenset({"configMap", "secret", "projected", "downwardAPI", "image"})


def add_checkpoint_hook(spec: dict[str, Any], job: Job, group: ReplicaGroup) -> None:
    """Add the hook to the containers of a pod that have none, and time for it to the grace period.

    Elastic groups have the hook, and all groups of a job that sets a grace period for checkpoints.
    """
    if (
        group.is_master
        or group.is_control
        or not (group.is_elastic or job.checkpoint_grace is not None)
        or not spec.get("containers")
    ):
        return
    volumes, before = spec.get("volumes") or (), spec["containers"]
    name = free_volume_name(SIGNAL_VOLUME, spec)
    read_only = {volume.get("name") for volume in volumes if _READ_ONLY_SOURCES & {*volume}}
    spec["containers"] = [
        _with_hook(container, name) if _can_have_hook(container, group, read_only) else container
        for container in before
    ]
    if spec["containers"] == before:
        return
    spec["volumes"] = [*volumes, {"name": name, "emptyDir": {}}]
    spec["terminationGracePeriodSeconds"] = _termination_grace(job, spec.get("terminationGracePeriodSeconds"))


def _termination_grace(job: Job, configured: Any) -> Any:
    """Return the grace period of a pod: the user may set a shorter one if the job leaves the time to save open."""
    needed = int((job.effective_checkpoint_grace + TERMINATION_MARGIN).total_seconds())
    if configured is None:
        return max(needed, DEFAULT_TERMINATION_GRACE_SECONDS)
    return max(needed, configured) if job.checkpoint_grace is not None and isinstance(configured, int) else configured


def free_volume_name(name: str, spec: Mapping[str, Any]) -> str:
    """Return the name, with a suffix if the pod has another volume of that name."""
    used = {volume.get("name") for volume in spec.get("volumes") or () if isinstance(volume, Mapping)}
    while name in used:
        name += "-0"
    return name


def _can_have_hook(container: Mapping[str, Any], group: ReplicaGroup, read_only_volumes: Collection[Any]) -> bool:
    """Return whether a container of the program has no such hook, and a place for the files.

    A container cannot be created if the directory must first be made in a volume that is read-only.
    """
    if group.main_containers and container.get("name") not in group.main_containers:
        return False
    if (container.get("lifecycle") or {}).get("preStop"):
        return False
    mounts = {(mount.get("mountPath") or "").rstrip("/"): mount for mount in container.get("volumeMounts") or ()}
    parents = [mounts[path] for path in _PARENT_DIRS if path in mounts]
    is_read_only = any(mount.get("readOnly") or mount.get("name") in read_only_volumes for mount in parents)
    return not (is_read_only or {SIGNAL_DIR, "/run/pliant"} & mounts.keys())


def _with_hook(container: Mapping[str, Any], volume: str) -> Mapping[str, Any]:
    mount = {"name": volume, "mountPath": SIGNAL_DIR}
    return {
        **container,
        "lifecycle": {**(container.get("lifecycle") or {}), "preStop": _HOOK},
        "volumeMounts": [*(container.get("volumeMounts") or ()), mount],
    }
