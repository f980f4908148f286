"""The files, mounts and variables that give pods access to the network, in the private and the host network mode."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Protocol

import msgspec

from pliant.embedded.agent.container.config import Mount
from pliant.embedded.kubelet.environment.command_rewriter import is_path_mentioned, mount_variable
from pliant.embedded.kubelet.environment.variables import PodObject, ResolvedPod
from pliant.embedded.kubelet.volumes import beneath
from pliant.embedded.kubelet.volumes.hardlinks import HardlinkCache
from pliant.embedded.kubelet.volumes.pod_credentials import SERVICE_ACCOUNT_PATH
from pliant.embedded.network.service_discovery import render_hosts_file, render_resolv_conf

_NSSWITCH_HOSTS_LINE: Final = re.compile(r"^hosts:.*$", re.MULTILINE)
_KUBECONFIG_FILE = "kubeconfig"
_FILE_MODE = 0o644
_PROXY_VARIABLES = ("http_proxy", "https_proxy", "all_proxy")
_DEFAULT_NO_PROXY = "localhost,127.0.0.0/8,::1"


class PodNetworkSetup(Protocol):
    """What a network mode adds to the files, mounts and variables of pods."""

    def write_network_files(self, pod: PodObject, hostname: str, pod_ip: str, pod_dir: Path) -> None:
        """Write the network files of a pod to its directory."""

    def network_file_mounts(self, pod_dir: Path) -> Iterator[Mount]:
        """Yield the mounts of these files."""

    def network_variables(self, resolved_pod: ResolvedPod) -> Mapping[str, str]:
        """Return the variables for services, the API server and the egress of a pod."""

    def rewrite_hostnames(self, content: bytes) -> bytes:
        """Return the content of a configuration file with host names that pods can use."""

    def unmountable_path_warnings(self, pod_spec: Mapping[str, Any]) -> list[str]:
        """Return a warning for each volume mount that the containers will not find."""


@dataclass(frozen=True, slots=True)
class PrivatePodNetworkSetup:
    """Pods have their own network, with a DNS server and an egress proxy."""

    dns_address: str
    data_dir: Path
    egress_variables: Callable[[str], Mapping[str, str]]
    """Returns the egress proxy variables of a namespace."""
    service_variables: Callable[[PodObject], Mapping[str, str]]
    hardlinks: HardlinkCache = field(default_factory=HardlinkCache)

    def write_network_files(self, pod: PodObject, hostname: str, pod_ip: str, pod_dir: Path) -> None:
        beneath.write_file(pod_dir, "hostname", f"{hostname}\n".encode(), _FILE_MODE)
        beneath.write_file(pod_dir, "hosts", render_hosts_file(pod, hostname, pod_ip).encode(), _FILE_MODE)
        self.hardlinks.write_file(pod_dir / "resolv.conf", render_resolv_conf(pod, self.dns_address).encode())

    def network_file_mounts(self, pod_dir: Path) -> Iterator[Mount]:
        yield readonly_mount(pod_dir / "hosts", "/etc/hosts")
        yield readonly_mount(pod_dir / "resolv.conf", "/etc/resolv.conf")
        if Path("/etc/hostname").exists():
            yield readonly_mount(pod_dir / "hostname", "/etc/hostname")
        nsswitch = Path("/etc/nsswitch.conf")
        if nsswitch.exists():
            # The host's file may name a resolver that does not know pods.
            text = _NSSWITCH_HOSTS_LINE.sub("hosts: files dns", nsswitch.read_text())
            shared = self.data_dir / "etc" / "nsswitch.conf"
            if not shared.exists() or shared.read_text() != text:
                shared.parent.mkdir(parents=True, exist_ok=True)
                shared.write_text(text)
            yield readonly_mount(shared, "/etc/nsswitch.conf")
        if Path("/run/nscd").exists():
            yield Mount(target="/run/nscd", memory_name="nscd", readonly=False, pod_owned=True)
        yield Mount(target="/dev/shm", memory_name="shm", readonly=False, pod_owned=True)  # noqa: S108

    def network_variables(self, resolved_pod: ResolvedPod) -> Mapping[str, str]:
        pod = resolved_pod.pod
        return {**self.service_variables(pod), **self.egress_variables(pod["metadata"]["namespace"])}

    def rewrite_hostnames(self, content: bytes) -> bytes:
        return content  # The DNS server resolves host names.

    def unmountable_path_warnings(self, pod_spec: Mapping[str, Any]) -> list[str]:
        return []


class HostnameRewriter(Protocol):
    """Replaces host names by addresses."""

    def rewrite_hostnames_in_bytes(self, content: bytes) -> bytes: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class HostPodNetworkSetup:
    """Pods share the network and files of the host: host names are rewritten, and mounts become variables."""

    api_url: str
    hostname_rewriter: HostnameRewriter
    service_variables: Callable[[PodObject], Mapping[str, str]]
    process_env: Mapping[str, str] = field(default_factory=dict)
    """The environment of the cluster's process, for its proxy variables."""

    def write_network_files(self, pod: PodObject, hostname: str, pod_ip: str, pod_dir: Path) -> None:
        """Write a kubeconfig beside the token, for clients that do not find the token at its usual path."""
        account_dir = pod_dir / "account"
        if account_dir.exists():
            kubeconfig = _build_kubeconfig(self.api_url, account_dir, pod["metadata"]["namespace"])
            beneath.write_file(account_dir, _KUBECONFIG_FILE, msgspec.json.encode(kubeconfig), 0o600)

    def network_file_mounts(self, pod_dir: Path) -> Iterator[Mount]:
        yield from ()

    def network_variables(self, resolved_pod: ResolvedPod) -> Mapping[str, str]:
        variables = {**self.service_variables(resolved_pod.pod), "POD_IP": resolved_pod.address}
        if resolved_pod.pod["spec"].get("automountServiceAccountToken") is not False:
            variables["KUBECONFIG"] = f"{SERVICE_ACCOUNT_PATH}/{_KUBECONFIG_FILE}"
        return variables | self._proxy_variables()

    def rewrite_hostnames(self, content: bytes) -> bytes:
        return self.hostname_rewriter.rewrite_hostnames_in_bytes(content)

    def unmountable_path_warnings(self, pod_spec: Mapping[str, Any]) -> list[str]:
        """Return a warning for each mount path that its container neither mentions nor has on the host."""
        volumes = pod_spec.get("volumes") or ()
        host_paths = {(volume["name"], volume["hostPath"]["path"]) for volume in volumes if volume.get("hostPath")}
        containers = (*(pod_spec.get("initContainers") or ()), *(pod_spec.get("containers") or ()))
        return [
            f"mountPath {path} of container {container['name']!r} cannot be mounted in the host network mode: use the "
            f"variable {mount_variable(path)}, or name the path in `command`, `args` or `env`, where it is replaced"
            for container in containers
            for volume, path in ((mount["name"], mount["mountPath"]) for mount in container.get("volumeMounts") or ())
            if (volume, path) not in host_paths and not is_path_mentioned(path.rstrip("/"), _container_texts(container))
        ]

    def _proxy_variables(self) -> dict[str, str]:
        names = [name for lower in _PROXY_VARIABLES for name in (lower, lower.upper()) if self.process_env.get(name)]
        if not names:
            return {}
        own_no_proxy = self.process_env.get("no_proxy") or self.process_env.get("NO_PROXY") or ""
        no_proxy = ",".join(filter(None, (own_no_proxy, _DEFAULT_NO_PROXY)))
        return {name: self.process_env[name] for name in names} | {"no_proxy": no_proxy, "NO_PROXY": no_proxy}


def readonly_mount(source: Path, target: str) -> Mount:
    """Return a read-only mount of a path of the host."""
    return Mount(target=target, source=str(source), readonly=True, pod_owned=False)


def _container_texts(container: Mapping[str, Any]) -> list[str]:
    values = [str(variable.get("value") or "") for variable in container.get("env") or ()]
    command_line = [*(container.get("command") or ()), *(container.get("args") or ())]
    return [*command_line, *values, str(container.get("workingDir") or "")]


def _build_kubeconfig(api_url: str, account_dir: Path, namespace: str) -> dict[str, Any]:
    cluster = {"server": api_url, "certificate-authority": str(account_dir / "ca.crt")}
    context = {"cluster": "pliant", "user": "pod", "namespace": namespace}
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "pliant",
        "clusters": [{"name": "pliant", "cluster": cluster}],
        "users": [{"name": "pod", "user": {"tokenFile": str(account_dir / "token")}}],
        "contexts": [{"name": "pliant", "context": context}],
    }
