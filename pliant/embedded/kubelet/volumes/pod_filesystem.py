"""The directories of pods in the data directory, and the mounts and base environment of their containers."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pliant.embedded.agent.container.config import Mount
from pliant.embedded.kubelet.environment.pod_network import PodNetworkSetup, readonly_mount
from pliant.embedded.kubelet.environment.variables import PodObject, ResolvedPod, UnsupportedPodSpec
from pliant.embedded.kubelet.volumes import beneath, pod_volumes
from pliant.embedded.kubelet.volumes.pod_credentials import SERVICE_ACCOUNT_PATH, PodCredentials
from pliant.embedded.kubelet.volumes.pod_volumes import PreparedVolumes, VolumeLocations
from pliant.embedded.program_annotations import PATH_ANNOTATION, WORKSPACE_ANNOTATION


@dataclass(frozen=True, slots=True, kw_only=True)
class PodFilesystem:
    """Prepares and removes the files of pods below `data_dir`."""

    data_dir: Path
    default_working_dir: Path
    """The working directory of containers without `workingDir`; hostPath volumes may be inside it.

    An annotation of the pod replaces it.
    """
    allowed_host_paths: tuple[Path, ...] = ()
    """Further directories for hostPath volumes."""
    default_mounts: tuple[Mount, ...] = ()
    """Mounts of every container, unless it has a volume at the same path."""
    base_env: Mapping[str, str]
    pod_network: PodNetworkSetup
    credentials: PodCredentials | None = None

    @property
    def node_annotations(self) -> dict[str, str]:
        """Where containers find their programs and files, as annotations of their nodes."""
        return {PATH_ANNOTATION: self.base_env.get("PATH", ""), WORKSPACE_ANNOTATION: str(self.default_working_dir)}

    def write_pod_files(self, pod: PodObject, hostname: str, pod_ip: str) -> None:
        """Write the service account and the network files of a pod."""
        pod_dir = beneath.make_directory(self.data_dir / "pods", pod["metadata"]["uid"])
        if self.credentials is not None:
            self.credentials.write_service_account(pod, pod_dir / "account")
        self.pod_network.write_network_files(pod, hostname, pod_ip, pod_dir)

    def prepare_volumes(self, resolved_pod: ResolvedPod) -> PreparedVolumes:
        locations = self._volume_locations(resolved_pod)
        volumes = pod_volumes.prepare_volumes(resolved_pod, locations)
        if self.credentials is not None:
            self.credentials.write_projected_tokens(resolved_pod.pod, locations.volumes_dir)
        return volumes

    def refresh_config_volumes(self, resolved_pod: ResolvedPod) -> None:
        """Update the ConfigMaps and Secrets in the volumes of a pod."""
        pod_volumes.refresh_config_volumes(resolved_pod, self._volume_locations(resolved_pod))

    def working_dir(self, pod: PodObject) -> Path:
        """Return the working directory of a pod; raise `UnsupportedPodSpec` if its annotation names none."""
        value = (pod["metadata"].get("annotations") or {}).get(WORKSPACE_ANNOTATION)
        if value is None:
            return self.default_working_dir
        path = Path(value)
        if "\0" in value or not path.is_absolute() or not path.is_dir():
            problem = f"{value!r} is not an existing directory"
            fix = "create it, or submit the job again from an existing directory"
            raise UnsupportedPodSpec(f"metadata.annotations[{WORKSPACE_ANNOTATION}]: {problem}; {fix}")
        return path.resolve()

    def _volume_locations(self, resolved_pod: ResolvedPod) -> VolumeLocations:
        return VolumeLocations(
            volumes_dir=self._pod_dir(resolved_pod.pod["metadata"]["uid"]) / "volumes",
            host_path_roots=(self.working_dir(resolved_pod.pod), *self.allowed_host_paths),
            claims_dir=self.data_dir / "claims",
            rewrite_hostnames=self.pod_network.rewrite_hostnames,
        )

    def base_variables(self, hostname: str, resolved_pod: ResolvedPod) -> dict[str, str]:
        """Return the environment of a container before its own variables are added."""
        return {**self.base_env, **self.pod_network.network_variables(resolved_pod), "HOSTNAME": hostname}

    def container_mounts(
        self, container: Mapping[str, Any], pod_uid: str, prepared_volumes: PreparedVolumes, env: Mapping[str, str]
    ) -> list[Mount]:
        """Return all mounts of a container; its volume mounts replace default mounts at the same path."""
        volume_mounts = list(pod_volumes.container_volume_mounts(container, prepared_volumes, env))
        used_targets = {mount["target"] for mount in volume_mounts}
        defaults = [*self.pod_network.network_file_mounts(self._pod_dir(pod_uid)), *self.default_mounts]
        account_dir = self._pod_dir(pod_uid) / "account"
        if account_dir.exists():
            defaults.insert(0, readonly_mount(account_dir, SERVICE_ACCOUNT_PATH))
        return [*(mount for mount in defaults if mount["target"] not in used_targets), *volume_mounts]

    async def remove_volumes(self, pod_uid: str) -> None:
        """Remove the volumes of a terminated pod; its logs stay."""
        if self.credentials is not None:
            self.credentials.stop_renewing(pod_uid)
        # In a thread: the removal of many files would block the event loop.
        for name in ("account", "volumes"):
            await asyncio.to_thread(pod_volumes.remove_forcibly, self._pod_dir(pod_uid) / name)

    def remove_pod_files(self, pod_uid: str) -> None:
        pod_volumes.remove_forcibly(self._pod_dir(pod_uid))

    def remove_unknown_pod_files(self, known_uids: set[str]) -> None:
        """Remove the files of pods that no longer exist."""
        for pod_dir in (self.data_dir / "pods").glob("*"):
            if pod_dir.name not in known_uids:
                pod_volumes.remove_forcibly(pod_dir)

    def remove_claim_dir(self, claim_uid: str) -> None:
        pod_volumes.remove_forcibly(self.data_dir / "claims" / claim_uid)

    def _pod_dir(self, pod_uid: str) -> Path:
        return self.data_dir / "pods" / pod_uid
