"""What a pod finds of the network around it, as files and variables: one of its own, or this machine's."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Protocol

import msgspec

from pliant.embedded.kubelet.environment.command_rewriter import is_path_mentioned, mount_variable
from pliant.embedded.kubelet.environment.variables import ResolvedPod
from pliant.embedded.kubelet.runtime.messages import Mount
from pliant.embedded.kubelet.volumes.hardlinks import HardlinkCache
from pliant.embedded.kubelet.volumes.pod_credentials import SERVICE_ACCOUNT_PATH
from pliant.embedded.network.service_discovery import render_hosts_file, render_resolv_conf

_NSSWITCH_HOSTS_LINE: Final = re.compile(r"^hosts:.*$", re.MULTILINE)
_KUBECONFIG_FILE = "kubeconfig"
_PROXY_VARIABLES = ("http_proxy", "https_proxy", "all_proxy")
_DEFAULT_NO_PROXY = "localhost,127.0.0.0/8,::1"

PodObject = Mapping[str, Any]


class PodNetwork(Protocol):
    """What the network of pods needs in their folders, mounts and variables."""

    def write_files(self, pod: PodObject, hostname: str, pod_ip: str, pod_dir: Path) -> None:
        """Write down for a pod who it is and whom to ask for others."""

    def mounts(self, pod_dir: Path) -> Iterator[Mount]:
        """What its containers see of that."""

    def network_variables(self, resolved_pod: ResolvedPod) -> Mapping[str, str]:
        """What its containers are told."""

    def rewrite_hostnames(self, content: bytes) -> bytes:
        """A file as pods are to read it."""

    def mount_warnings(self, pod_spec: PodObject) -> list[str]:
        """What a pod asks for that it will not find as it expects."""


@dataclass(frozen=True, slots=True)
class PrivatePodNetwork:
    """A network of the pod's own, with a resolver and a way out at one address."""

    dns_address: str
    data_dir: Path
    """Where files are kept that all pods share."""
    egress_variables: Callable[[str], Mapping[str, str]]
    """Variables that tell programs of a namespace how to get out of the cluster."""
    service_variables: Callable[[PodObject], Mapping[str, str]]
    """Variables that tell a pod's programs of services."""
    hardlinks: HardlinkCache = field(default_factory=HardlinkCache)

    def write_files(self, pod: PodObject, hostname: str, pod_ip: str, pod_dir: Path) -> None:
        """Write the files in which programs look for names."""
        (pod_dir / "hostname").write_text(hostname + "\n")
        (pod_dir / "hosts").write_text(render_hosts_file(pod, hostname, pod_ip))
        self.hardlinks.write_file(pod_dir / "resolv.conf", render_resolv_conf(pod, self.dns_address).encode())

    def mounts(self, pod_dir: Path) -> Iterator[Mount]:
        """Those files in their usual places, and memory that is shared within the pod alone."""
        yield readonly_mount(pod_dir / "hosts", "/etc/hosts")
        yield readonly_mount(pod_dir / "resolv.conf", "/etc/resolv.conf")
        if Path("/etc/hostname").exists():
            yield readonly_mount(pod_dir / "hostname", "/etc/hostname")
        switch = Path("/etc/nsswitch.conf")
        if switch.exists():
            # Otherwise a resolver of the host may be asked, which knows nothing of pods.
            text = _NSSWITCH_HOSTS_LINE.sub("hosts: files dns", switch.read_text())
            yield readonly_mount(self._write_shared_file("nsswitch.conf", text), "/etc/nsswitch.conf")
        if Path("/run/nscd").exists():
            yield Mount(target="/run/nscd", memory="nscd", readonly=False, private=True)
        yield Mount(target="/dev/shm", memory="shm", readonly=False, private=True)  # noqa: S108

    def network_variables(self, resolved_pod: ResolvedPod) -> Mapping[str, str]:
        """Services, and the way out."""
        return {
            **self.service_variables(resolved_pod.pod),
            **self.egress_variables(resolved_pod.pod["metadata"]["namespace"]),
        }

    def rewrite_hostnames(self, content: bytes) -> bytes:
        """As it is: names are answered."""
        return content

    def mount_warnings(self, pod_spec: PodObject) -> list[str]:
        """Everything is as expected."""
        return []

    def _write_shared_file(self, name: str, text: str) -> Path:
        path = self.data_dir / "etc" / name
        if not path.exists() or path.read_text() != text:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return path


class BytesRewriter(Protocol):
    """Puts addresses in place of names."""

    def rewrite_bytes(self, content: bytes) -> bytes: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class HostPodNetwork:
    """This machine's network and files: names and mounts are only told of."""

    api_url: str
    """Where the API is."""
    hostname_rewriter: BytesRewriter
    service_variables: Callable[[PodObject], Mapping[str, str]]
    """Variables that tell a pod's programs of services."""
    process_env: Mapping[str, str] = field(default_factory=dict)
    """That of whoever started the cluster, for the proxies in it."""

    def write_files(self, pod: PodObject, hostname: str, pod_ip: str, pod_dir: Path) -> None:
        """Write a kubeconfig beside the token, for clients that find no token in its usual place."""
        account = pod_dir / "account"
        if account.exists():
            content = _build_kubeconfig(self.api_url, account, pod["metadata"]["namespace"])
            (account / _KUBECONFIG_FILE).write_bytes(msgspec.json.encode(content))

    def mounts(self, pod_dir: Path) -> Iterator[Mount]:
        """Nothing: this machine's own files are what they are."""
        yield from ()

    def network_variables(self, resolved_pod: ResolvedPod) -> Mapping[str, str]:
        """Services, the pod's own address, a way to the API, and the proxies of this machine."""
        told = {**self.service_variables(resolved_pod.pod), "POD_IP": resolved_pod.address}
        if resolved_pod.pod["spec"].get("automountServiceAccountToken") is not False:
            told["KUBECONFIG"] = f"{SERVICE_ACCOUNT_PATH}/{_KUBECONFIG_FILE}"
        return told | self._proxy_variables()

    def rewrite_hostnames(self, content: bytes) -> bytes:
        """With addresses in place of names."""
        return self.hostname_rewriter.rewrite_bytes(content)

    def mount_warnings(self, pod_spec: PodObject) -> list[str]:
        """Mounts that the words of a container do not name: it may look for them in vain."""
        real = {
            (each["name"], each["hostPath"]["path"]) for each in pod_spec.get("volumes") or () if each.get("hostPath")
        }
        return [
            f"mountPath {wanted['mountPath']} of container {each['name']!r} cannot be made where pods share this "
            f"machine's files: use the variable {mount_variable(wanted['mountPath'])}, or name the path in "
            "`command`, `args` or `env`, where it is replaced"
            for kind in ("initContainers", "containers")
            for each in pod_spec.get(kind) or ()
            for wanted in each.get("volumeMounts") or ()
            if (wanted["name"], wanted["mountPath"]) not in real
            and not is_path_mentioned(wanted["mountPath"].rstrip("/"), _container_texts(each))
        ]

    def _proxy_variables(self) -> dict[str, str]:
        names = [name for one in _PROXY_VARIABLES for name in (one, one.upper()) if self.process_env.get(name)]
        if not names:
            return {}
        direct = self.process_env.get("no_proxy") or self.process_env.get("NO_PROXY") or ""
        without = ",".join(filter(None, (direct, _DEFAULT_NO_PROXY)))
        return {name: self.process_env[name] for name in names} | {"no_proxy": without, "NO_PROXY": without}


def readonly_mount(source: Path, target: str) -> Mount:
    """A file or folder that can be read."""
    return Mount(target=target, source=str(source), readonly=True, private=False)


def _container_texts(container: Mapping[str, Any]) -> list[str]:
    values = [str(each.get("value") or "") for each in container.get("env") or ()]
    written = [*(container.get("command") or ()), *(container.get("args") or ())]
    return [*written, *values, str(container.get("workingDir") or "")]


def _build_kubeconfig(api_url: str, account_dir: Path, namespace: str) -> dict[str, Any]:
    cluster = {"server": api_url, "certificate-authority": str(account_dir / "ca.crt")}
    place = {"cluster": "pliant", "user": "pod", "namespace": namespace}
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "pliant",
        "clusters": [{"name": "pliant", "cluster": cluster}],
        "users": [{"name": "pod", "user": {"tokenFile": str(account_dir / "token")}}],
        "contexts": [{"name": "pliant", "context": place}],
    }
