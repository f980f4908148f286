"""Everything a pod finds around it: folders, volumes, names and variables."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from pliant.embedded.network.podfiles import hosts_text, resolver_text
from pliant.embedded.node import volumes
from pliant.embedded.node.credentials import PLACE, Credentials
from pliant.embedded.node.environment import PodFacts
from pliant.embedded.node.link import Mount
from pliant.embedded.node.volumes import Ground, Laid
from pliant.embedded.views import PodMeta

_HOSTS_LINE: Final = re.compile(r"^hosts:.*$", re.MULTILINE)


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
    resolver: str
    """Where pods ask for addresses of names."""
    outward: Callable[[str], Mapping[str, str]] = lambda namespace: {}
    """Variables that tell programs of a namespace how to get out of the cluster."""
    credentials: Credentials | None = None
    """What pods prove themselves with to the API server."""

    def settle(self, pod: Mapping[str, Any], host: str, address: str) -> None:
        """Write down for a pod who it is and whom to ask for others."""
        folder = self._folder(pod["metadata"]["uid"])
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "hostname").write_text(host + "\n")
        (folder / "hosts").write_text(hosts_text(pod, host, address))
        (folder / "resolv.conf").write_text(resolver_text(pod, self.resolver))
        if self.credentials is not None:
            self.credentials.lay_out(pod, folder / "account")

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
        )

    def variables(self, host: str, namespace: str) -> dict[str, str]:
        """What a container's environment starts from."""
        return {**self.base, **self.outward(namespace), "HOSTNAME": host}

    def mounts(
        self, container: Mapping[str, Any], pod: PodMeta, laid: Mapping[str, Laid], variables: Mapping[str, str]
    ) -> list[Mount]:
        """All that a container sees beside the host's files."""
        chosen = list(volumes.mounts(container, laid, variables))
        taken = {mount["target"] for mount in chosen}
        usual = (*self._usual_mounts(pod), *self.shown)
        return [*(each for each in usual if each["target"] not in taken), *chosen]

    def clear(self, uid: str) -> None:
        """Take away the volumes of a pod that has ended; its logs stay."""
        if self.credentials is not None:
            self.credentials.forget(uid)
        volumes.remove(self._folder(uid) / "account")
        volumes.remove(self._folder(uid) / "volumes")

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
        yield _shown(self._folder(pod.uid) / "hosts", "/etc/hosts")
        yield _shown(self._folder(pod.uid) / "resolv.conf", "/etc/resolv.conf")
        if (self._folder(pod.uid) / "account").exists():
            yield _shown(self._folder(pod.uid) / "account", PLACE)
        if Path("/etc/hostname").exists():
            yield _shown(self._folder(pod.uid) / "hostname", "/etc/hostname")
        switch = Path("/etc/nsswitch.conf")
        if switch.exists():
            # Otherwise a resolver of the host may be asked, which knows nothing of pods.
            text = _HOSTS_LINE.sub("hosts: files dns", switch.read_text())
            yield _shown(self._kept("nsswitch.conf", text), "/etc/nsswitch.conf")
        if Path("/run/nscd").exists():
            yield Mount(target="/run/nscd", memory="nscd", readonly=False, private=True)
        yield Mount(target="/dev/shm", memory="shm", readonly=False, private=True)  # noqa: S108

    def _kept(self, name: str, text: str) -> Path:
        path = self.data / "etc" / name
        if not path.exists() or path.read_text() != text:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return path


def _shown(source: Path, target: str) -> Mount:
    return Mount(target=target, source=str(source), readonly=True, private=False)
