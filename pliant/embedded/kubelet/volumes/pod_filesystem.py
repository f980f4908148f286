"""Everything a pod finds around it: folders, volumes, names and variables."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pliant.embedded.kubelet.environment.pod_network import PodNetwork, readonly_mount
from pliant.embedded.kubelet.environment.variables import ResolvedPod
from pliant.embedded.kubelet.runtime.node_agent import Mount
from pliant.embedded.kubelet.volumes import pod_volumes
from pliant.embedded.kubelet.volumes.pod_credentials import SERVICE_ACCOUNT_PATH, PodCredentials
from pliant.embedded.kubelet.volumes.pod_volumes import PreparedVolume, VolumeLocations
from pliant.embedded.object_views import PodObjectMeta


@dataclass(frozen=True, slots=True, kw_only=True)
class PodFilesystem:
    """Prepares what pods need outside of their processes, under `data`."""

    data_dir: Path
    default_working_dir: Path
    """Where containers start when they name no folder, and what hostPath volumes may show."""
    allowed_host_paths: tuple[Path, ...] = ()
    """What else hostPath volumes may show."""
    default_mounts: tuple[Mount, ...] = ()
    """What every container sees, unless it has a volume there."""
    base_env: Mapping[str, str]
    """Variables that every container has."""
    pod_network: PodNetwork
    """What pods are given of the network."""
    credentials: PodCredentials | None = None
    """What pods prove themselves with to the API server."""

    def write_pod_files(self, pod: Mapping[str, Any], hostname: str, pod_ip: str) -> None:
        """Write down for a pod who it is and whom to ask for others."""
        folder = self._pod_dir(pod["metadata"]["uid"])
        folder.mkdir(parents=True, exist_ok=True)
        if self.credentials is not None:
            self.credentials.write_service_account(pod, folder / "account")
        self.pod_network.write_files(pod, hostname, pod_ip, folder)

    def prepare_volumes(self, resolved_pod: ResolvedPod) -> dict[str, PreparedVolume]:
        """Make the pod's volumes."""
        ground = self._volume_locations(resolved_pod)
        laid = pod_volumes.prepare_volumes(resolved_pod, ground)
        if self.credentials is not None:
            self.credentials.write_projected_tokens(resolved_pod.pod, ground.volumes_dir)
        return laid

    def refresh_volumes(self, resolved_pod: ResolvedPod) -> None:
        """Bring the configuration in the pod's volumes up to date."""
        pod_volumes.refresh_config_volumes(resolved_pod, self._volume_locations(resolved_pod))

    def _volume_locations(self, resolved_pod: ResolvedPod) -> VolumeLocations:
        return VolumeLocations(
            volumes_dir=self._pod_dir(resolved_pod.pod["metadata"]["uid"]) / "volumes",
            host_path_roots=(self.default_working_dir, *self.allowed_host_paths),
            claims_dir=self.data_dir / "claims",
            rewrite_hostnames=self.pod_network.rewrite_hostnames,
        )

    def base_variables(self, hostname: str, resolved_pod: ResolvedPod) -> dict[str, str]:
        """What a container's environment starts from."""
        return {**self.base_env, **self.pod_network.network_variables(resolved_pod), "HOSTNAME": hostname}

    def container_mounts(
        self,
        container: Mapping[str, Any],
        pod: PodObjectMeta,
        prepared_volumes: Mapping[str, PreparedVolume],
        variables: Mapping[str, str],
    ) -> list[Mount]:
        """All that a container sees beside the host's files."""
        chosen = list(pod_volumes.container_volume_mounts(container, prepared_volumes, variables))
        taken = {mount["target"] for mount in chosen}
        usual = (*self._pod_mounts(pod), *self.default_mounts)
        return [*(each for each in usual if each["target"] not in taken), *chosen]

    async def remove_volumes(self, pod_uid: str) -> None:
        """Take away the volumes of a pod that has ended; its logs stay."""
        if self.credentials is not None:
            self.credentials.stop_renewing(pod_uid)
        # In a thread: a pod may have left more files than a loop can wait for.
        await asyncio.to_thread(self._remove_volume_dirs, self._pod_dir(pod_uid))

    def _remove_volume_dirs(self, pod_dir: Path) -> None:
        pod_volumes.remove_forcibly(pod_dir / "account")
        pod_volumes.remove_forcibly(pod_dir / "volumes")

    def remove_pod(self, pod_uid: str) -> None:
        """Take away everything about a pod."""
        pod_volumes.remove_forcibly(self._pod_dir(pod_uid))

    def remove_unknown_pods(self, known_uids: set[str]) -> None:
        """Take away what pods that no longer exist have left."""
        for folder in (self.data_dir / "pods").glob("*"):
            if folder.name not in known_uids:
                pod_volumes.remove_forcibly(folder)

    def remove_claim(self, claim_uid: str) -> None:
        """Take away what was kept under a claim."""
        pod_volumes.remove_forcibly(self.data_dir / "claims" / claim_uid)

    def _pod_dir(self, pod_uid: str) -> Path:
        return self.data_dir / "pods" / pod_uid

    def _pod_mounts(self, pod: PodObjectMeta) -> Iterator[Mount]:
        if (self._pod_dir(pod.uid) / "account").exists():
            yield readonly_mount(self._pod_dir(pod.uid) / "account", SERVICE_ACCOUNT_PATH)
        yield from self.pod_network.mounts(self._pod_dir(pod.uid))
