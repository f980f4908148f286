"""Addresses and hostnames of pods on the host network, which have no cluster DNS."""

from __future__ import annotations

import re
from collections import defaultdict
from typing import Final

from pliant.embedded.network.service_index import API_SERVICE_KEY, ServiceIndex
from pliant.embedded.object_views import ServiceView, pod_hostname

_MAX_ADDRESSES = 256 * 256 - 3
"""Addresses of a /16 block without the first two and the last."""
_SERVICE_IP_PREFIX = "10.96."


class LoopbackAddressAllocator:
    """Assigns addresses of a block `127.N.0.0/16` to hostnames, and keeps them while there are enough.

    So a replica that is restarted keeps its address, and the address of a future replica is known in advance.
    """

    def __init__(self, first_address: str) -> None:
        self._block = first_address.removesuffix(".0.1")
        self._numbers: dict[str, int] = {}
        """Host number by name, the least recently used first."""
        self._holders: dict[int, dict[str, str]] = defaultdict(dict)
        """Pods that use a number: pod key by uid."""
        self._next = 2

    def starts_at(self, first_address: str) -> bool:
        return first_address == f"{self._block}.0.1"

    def hostname_address(self, name: str) -> str:
        return self._format_address(self._number_of(name))

    def allocate(self, name: str, pod_uid: str, pod_key: str) -> str:
        """Return an address for a pod: the address of its hostname, unless another pod has the same hostname."""
        number = self._number_of(name)
        if any(other != pod_key for other in self._holders[number].values()):
            number = self._number_of(f"{name} {pod_key}")
        self._holders[number][pod_uid] = pod_key
        return self._format_address(number)

    def release(self, pod_uid: str) -> None:
        for number in [number for number, pods in self._holders.items() if pod_uid in pods]:
            del self._holders[number][pod_uid]
            if not self._holders[number]:
                del self._holders[number]

    def map_service_address(self, cluster_ip: str) -> str:
        """Return the loopback address that stands for a cluster IP; other addresses stay as they are."""
        if not cluster_ip.startswith(_SERVICE_IP_PREFIX):
            return cluster_ip
        head, block = self._block.split(".")
        return f"{head}.{int(block) + 1}.{cluster_ip.removeprefix(_SERVICE_IP_PREFIX)}"

    def _number_of(self, name: str) -> int:
        number = self._numbers.pop(name, None) or self._next_free_number()
        self._numbers[name] = number
        return number

    def _next_free_number(self) -> int:
        if self._next <= _MAX_ADDRESSES:
            self._next += 1
            return self._next - 1
        unused = next((name for name, number in self._numbers.items() if number not in self._holders), "")
        if not unused:
            raise OSError(0, f"every address of {self._block}.0.0/16 is in use")
        return self._numbers.pop(unused)

    def _format_address(self, number: int) -> str:
        return f"{self._block}.{number >> 8}.{number & 255}"


_LABEL: Final = r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?"
_QUALIFIED_NAME: Final = re.compile(rf"(?<![\w.-])(?<![^/]/)(?<!^/){_LABEL}(?:\.{_LABEL})+(?![\w-])")
"""A candidate for a hostname: not the end of a path, and not a part of a longer word."""
_SHORT_NAME: Final = re.compile(rf"(?:(?<=//)|(?<![\w./-])){_LABEL}(?![\w.-])")
_CLUSTER_SUFFIXES: Final = (".svc.cluster.local", ".svc")
_HEADLESS = "None"


class ClusterHostnameRewriter:
    """Resolves cluster hostnames to addresses, also before the pod of a name exists."""

    def __init__(self, service_index: ServiceIndex, address_allocator: LoopbackAddressAllocator) -> None:
        self._service_index = service_index
        self._address_allocator = address_allocator

    def rewrite_hostnames(self, text: str) -> str:
        return _QUALIFIED_NAME.sub(lambda match: self.resolve_hostname(match[0]) or match[0], text)

    def rewrite_hostnames_and_services(self, text: str, namespace: str) -> str:
        """Also replace bare names of services in the pod's own namespace."""
        return _SHORT_NAME.sub(
            lambda match: self.resolve_hostname(f"{match[0]}.{namespace}") or match[0], self.rewrite_hostnames(text)
        )

    def rewrite_hostnames_in_bytes(self, content: bytes) -> bytes:
        try:
            return self.rewrite_hostnames(content.decode()).encode()
        except UnicodeDecodeError:
            return content

    def resolve_hostname(self, name: str) -> str:
        """Return the address of a name; empty if it is not a cluster hostname."""
        for suffix in _CLUSTER_SUFFIXES:
            name = name.removesuffix(suffix)
        match name.split("."):
            case [service, namespace]:
                return self._service_address(self._service_index.service(namespace, service))
            case [host, service, namespace]:
                return self._pod_address(host, self._service_index.service(namespace, service))
            case _:
                return ""

    def _service_address(self, service: ServiceView | None) -> str:
        # Programs find the API server by environment variables: on the host network it has another port.
        if service is None or (service.metadata.namespace, service.metadata.name) == API_SERVICE_KEY:
            return ""
        if service.spec.cluster_ip != _HEADLESS:
            return service.spec.external_name or self._address_allocator.map_service_address(service.spec.cluster_ip)
        name, pods = service.metadata.name, self._service_index.routable_pods(service)
        if pods and not any(pod_hostname(pod) == name for pod in pods):
            return pods[0].status.pod_ip
        return self._address_allocator.hostname_address(f"{service.metadata.namespace}/{name}")

    def _pod_address(self, host: str, service: ServiceView | None) -> str:
        if service is None or service.spec.cluster_ip != _HEADLESS:
            return ""
        return self._address_allocator.hostname_address(f"{service.metadata.namespace}/{host}")
