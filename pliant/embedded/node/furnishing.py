"""Everything a pod finds around it: folders, volumes, names and variables."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pliant.embedded.node import volumes
from pliant.embedded.node.credentials import PLACE, Credentials
from pliant.embedded.node.environment import PodFacts
from pliant.embedded.node.link import Mount
from pliant.embedded.node.locality import Locality, shown
from pliant.embedded.node.volumes import Ground, Laid
from pliant.embedded.views import PodMeta


@dataclass(frozen=True, slots=True, kw_only=True)
class Furnishing:
    """Prepares what pods need outside of their processes, under `data`."""

    data: Path
    workspace: Path
    """Where containers start when they name no folder, and what hostPath volumes may show."""
    host_paths: tuple[Path, ...] = ()
    """What else hostPath volumes may show."""
    shown: tuple[Mount, ...] = ()
    """What every container sees, unless it has a volume there."""
    base: Mapping[str, str]
    """Variables that every container has."""
    locality: Locality
    """What pods are given of the network."""
    credentials: Credentials | None = None
    """What pods prove themselves with to the API server."""

    def settle(self, pod: Mapping[str, Any], host: str, address: str) -> None:
        """Write down for a pod who it is and whom to ask for others."""
        folder = self._folder(pod["metadata"]["uid"])
        folder.mkdir(parents=True, exist_ok=True)
        if self.credentials is not None:
            self.credentials.lay_out(pod, folder / "account")
        self.locality.settle(pod, host, address, folder)

    def lay_out(self, facts: PodFacts) -> dict[str, Laid]:
        """Make the pod's volumes."""
        ground = self._ground(facts)
        laid = volumes.lay_out(facts, ground)
        if self.credentials is not None:
            self.credentials.project(facts.pod, ground.folder)
        return laid

    def refresh(self, facts: PodFacts) -> None:
        """Bring the configuration in the pod's volumes up to date."""
        volumes.refresh(facts, self._ground(facts))

    def _ground(self, facts: PodFacts) -> Ground:
        return Ground(
            folder=self._folder(facts.pod["metadata"]["uid"]) / "volumes",
            roots=(self.workspace, *self.host_paths),
            claims=self.data / "claims",
            spoken=self.locality.spoken,
        )

    def variables(self, host: str, facts: PodFacts) -> dict[str, str]:
        """What a container's environment starts from."""
        return {**self.base, **self.locality.variables(facts), "HOSTNAME": host}

    def mounts(
        self, container: Mapping[str, Any], pod: PodMeta, laid: Mapping[str, Laid], variables: Mapping[str, str]
    ) -> list[Mount]:
        """All that a container sees beside the host's files."""
        chosen = list(volumes.mounts(container, laid, variables))
        taken = {mount["target"] for mount in chosen}
        usual = (*self._usual_mounts(pod), *self.shown)
        return [*(each for each in usual if each["target"] not in taken), *chosen]

    async def clear(self, uid: str) -> None:
        """Take away the volumes of a pod that has ended; its logs stay."""
        if self.credentials is not None:
            self.credentials.forget(uid)
        # In a thread: a pod may have left more files than a loop can wait for.
        await asyncio.to_thread(self._clear, self._folder(uid))

    def _clear(self, folder: Path) -> None:
        volumes.remove(folder / "account")
        volumes.remove(folder / "volumes")

    def forget(self, uid: str) -> None:
        """Take away everything about a pod."""
        volumes.remove(self._folder(uid))

    def forget_all_but(self, uids: set[str]) -> None:
        """Take away what pods that no longer exist have left."""
        for folder in (self.data / "pods").glob("*"):
            if folder.name not in uids:
                volumes.remove(folder)

    def forget_claim(self, uid: str) -> None:
        """Take away what was kept under a claim."""
        volumes.remove(self.data / "claims" / uid)

    def _folder(self, uid: str) -> Path:
        return self.data / "pods" / uid

    def _usual_mounts(self, pod: PodMeta) -> Iterator[Mount]:
        if (self._folder(pod.uid) / "account").exists():
            yield shown(self._folder(pod.uid) / "account", PLACE)
        yield from self.locality.mounts(self._folder(pod.uid))
