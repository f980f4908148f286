"""The preStop hook by which a replica saves its state before any deletion of its pod, whoever decides it."""

from __future__ import annotations

from collections.abc import Mapping
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
_VOLUME: Mapping[str, Any] = {"name": SIGNAL_VOLUME, "emptyDir": {}}
_MOUNT: Mapping[str, Any] = {"name": SIGNAL_VOLUME, "mountPath": SIGNAL_DIR}


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
    spec["containers"] = [_with_hook(container, group) for container in spec["containers"]]
    if not any(_MOUNT in (container.get("volumeMounts") or ()) for container in spec["containers"]):
        return
    spec["volumes"] = [*(spec.get("volumes") or ()), _VOLUME]
    spec["terminationGracePeriodSeconds"] = _termination_grace(job, spec.get("terminationGracePeriodSeconds"))


def _termination_grace(job: Job, configured: Any) -> Any:
    """Return the grace period of a pod: the user may set a shorter one if the job leaves the time to save open."""
    needed = int((job.effective_checkpoint_grace + TERMINATION_MARGIN).total_seconds())
    if configured is None:
        return max(needed, DEFAULT_TERMINATION_GRACE_SECONDS)
    return max(needed, configured) if job.checkpoint_grace is not None and isinstance(configured, int) else configured


def _with_hook(container: Mapping[str, Any], group: ReplicaGroup) -> Mapping[str, Any]:
    lifecycle, mounts = container.get("lifecycle") or {}, container.get("volumeMounts") or ()
    is_main = not group.main_containers or container.get("name") in group.main_containers
    has_mount = any((mount.get("mountPath") or "").rstrip("/") == SIGNAL_DIR for mount in mounts)
    if not is_main or lifecycle.get("preStop") or has_mount:
        return container
    return {**container, "lifecycle": {**lifecycle, "preStop": _HOOK}, "volumeMounts": [*mounts, _MOUNT]}
