"""What a pod finds of the network around it, as files and variables: one of its own, or this machine's."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Protocol

import msgspec

from pliant.embedded.network.podfiles import hosts_text, resolver_text
from pliant.embedded.node.alike import Alike
from pliant.embedded.node.commands import Mount
from pliant.embedded.node.credentials import PLACE
from pliant.embedded.node.environment import PodFacts
from pliant.embedded.node.wording import is_named, variable_of

_HOSTS_LINE: Final = re.compile(r"^hosts:.*$", re.MULTILINE)
_KUBECONFIG = "kubeconfig"
_PROXIES = ("http_proxy", "https_proxy", "all_proxy")
_ALWAYS_DIRECT = "localhost,127.0.0.0/8,::1"

Pod = Mapping[str, Any]


class Locality(Protocol):
    """What the network of pods needs in their folders, mounts and variables."""

    def settle(self, pod: Pod, host: str, address: str, folder: Path) -> None:
        """Write down for a pod who it is and whom to ask for others."""

    def mounts(self, folder: Path) -> Iterator[Mount]:
        """What its containers see of that."""

    def variables(self, facts: PodFacts) -> Mapping[str, str]:
        """What its containers are told."""

    def spoken(self, content: bytes) -> bytes:
        """A file as pods are to read it."""

    def caveats(self, spec: Pod) -> list[str]:
        """What a pod asks for that it will not find as it expects."""


@dataclass(frozen=True, slots=True)
class OwnNetwork:
    """A network of the pod's own, with a resolver and a way out at one address."""

    resolver: str
    data: Path
    """Where files are kept that all pods share."""
    outward: Callable[[str], Mapping[str, str]]
    """Variables that tell programs of a namespace how to get out of the cluster."""
    links: Callable[[Pod], Mapping[str, str]]
    """Variables that tell a pod's programs of services."""
    alike: Alike = field(default_factory=Alike)

    def settle(self, pod: Pod, host: str, address: str, folder: Path) -> None:
        """Write the files in which programs look for names."""
        (folder / "hostname").write_text(host + "\n")
        (folder / "hosts").write_text(hosts_text(pod, host, address))
        self.alike.put(folder / "resolv.conf", resolver_text(pod, self.resolver).encode())

    def mounts(self, folder: Path) -> Iterator[Mount]:
        """Those files in their usual places, and memory that is shared within the pod alone."""
        yield shown(folder / "hosts", "/etc/hosts")
        yield shown(folder / "resolv.conf", "/etc/resolv.conf")
        if Path("/etc/hostname").exists():
            yield shown(folder / "hostname", "/etc/hostname")
        switch = Path("/etc/nsswitch.conf")
        if switch.exists():
            # Otherwise a resolver of the host may be asked, which knows nothing of pods.
            text = _HOSTS_LINE.sub("hosts: files dns", switch.read_text())
            yield shown(self._kept("nsswitch.conf", text), "/etc/nsswitch.conf")
        if Path("/run/nscd").exists():
            yield Mount(target="/run/nscd", memory="nscd", readonly=False, private=True)
        yield Mount(target="/dev/shm", memory="shm", readonly=False, private=True)  # noqa: S108

    def variables(self, facts: PodFacts) -> Mapping[str, str]:
        """Services, and the way out."""
        return {**self.links(facts.pod), **self.outward(facts.pod["metadata"]["namespace"])}

    def spoken(self, content: bytes) -> bytes:
        """As it is: names are answered."""
        return content

    def caveats(self, spec: Pod) -> list[str]:
        """Everything is as expected."""
        return []

    def _kept(self, name: str, text: str) -> Path:
        path = self.data / "etc" / name
        if not path.exists() or path.read_text() != text:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return path


class Speaker(Protocol):
    """Puts addresses in place of names."""

    def spoken_bytes(self, content: bytes) -> bytes: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class HostNetwork:
    """This machine's network and files: names and mounts are only told of."""

    url: str
    """Where the API is."""
    directory: Speaker
    links: Callable[[Pod], Mapping[str, str]]
    """Variables that tell a pod's programs of services."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """That of whoever started the cluster, for the proxies in it."""

    def settle(self, pod: Pod, host: str, address: str, folder: Path) -> None:
        """Write a kubeconfig beside the token, for clients that find no token in its usual place."""
        account = folder / "account"
        if account.exists():
            content = _kubeconfig(self.url, account, pod["metadata"]["namespace"])
            (account / _KUBECONFIG).write_bytes(msgspec.json.encode(content))

    def mounts(self, folder: Path) -> Iterator[Mount]:
        """Nothing: this machine's own files are what they are."""
        yield from ()

    def variables(self, facts: PodFacts) -> Mapping[str, str]:
        """Services, the pod's own address, a way to the API, and the proxies of this machine."""
        told = {**self.links(facts.pod), "POD_IP": facts.address}
        if facts.pod["spec"].get("automountServiceAccountToken") is not False:
            told["KUBECONFIG"] = f"{PLACE}/{_KUBECONFIG}"
        return told | self._proxies()

    def spoken(self, content: bytes) -> bytes:
        """With addresses in place of names."""
        return self.directory.spoken_bytes(content)

    def caveats(self, spec: Pod) -> list[str]:
        """Mounts that the words of a container do not name: it may look for them in vain."""
        real = {
            (each["name"], each["hostPath"]["path"]) for each in spec.get("volumes") or () if each.get("hostPath")
        }
        return [
            f"mountPath {wanted['mountPath']} of container {each['name']!r} cannot be made where pods share this "
            f"machine's files: use the variable {variable_of(wanted['mountPath'])}, or name the path in "
            "`command`, `args` or `env`, where it is replaced"
            for kind in ("initContainers", "containers")
            for each in spec.get(kind) or ()
            for wanted in each.get("volumeMounts") or ()
            if (wanted["name"], wanted["mountPath"]) not in real
            and not is_named(wanted["mountPath"].rstrip("/"), _words(each))
        ]

    def _proxies(self) -> dict[str, str]:
        names = [name for one in _PROXIES for name in (one, one.upper()) if self.environment.get(name)]
        if not names:
            return {}
        direct = self.environment.get("no_proxy") or self.environment.get("NO_PROXY") or ""
        without = ",".join(filter(None, (direct, _ALWAYS_DIRECT)))
        return {name: self.environment[name] for name in names} | {"no_proxy": without, "NO_PROXY": without}


def shown(source: Path, target: str) -> Mount:
    """A file or folder that can be read."""
    return Mount(target=target, source=str(source), readonly=True, private=False)


def _words(container: Mapping[str, Any]) -> list[str]:
    values = [str(each.get("value") or "") for each in container.get("env") or ()]
    written = [*(container.get("command") or ()), *(container.get("args") or ())]
    return [*written, *values, str(container.get("workingDir") or "")]


def _kubeconfig(url: str, account: Path, namespace: str) -> dict[str, Any]:
    cluster = {"server": url, "certificate-authority": str(account / "ca.crt")}
    place = {"cluster": "pliant", "user": "pod", "namespace": namespace}
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "pliant",
        "clusters": [{"name": "pliant", "cluster": cluster}],
        "users": [{"name": "pod", "user": {"tokenFile": str(account / "token")}}],
        "contexts": [{"name": "pliant", "context": place}],
    }
