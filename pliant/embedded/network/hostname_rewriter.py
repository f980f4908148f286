"""Replaces cluster hostnames by addresses, for pods on the host network, which have no cluster DNS."""

from __future__ import annotations

import re
from typing import Final

from pliant.embedded.network.loopback_addresses import LoopbackAddressAllocator
from pliant.embedded.network.service_index import API_SERVICE_KEY, ServiceIndex
from pliant.embedded.object_views import ServiceView, pod_hostname

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
        return _QUALIFIED_NAME.sub(lambda match: self.resolve(match[0]) or match[0], text)

    def rewrite_service_names(self, text: str, namespace: str) -> str:
        """Also replace bare names of services in the pod's own namespace."""
        return _SHORT_NAME.sub(
            lambda match: self.resolve(f"{match[0]}.{namespace}") or match[0], self.rewrite_hostnames(text)
        )

    def rewrite_bytes(self, content: bytes) -> bytes:
        try:
            return self.rewrite_hostnames(content.decode()).encode()
        except UnicodeDecodeError:
            return content

    def resolve(self, name: str) -> str:
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
        name, pods = service.metadata.name, self._service_index.backend_pods(service)
        if pods and not any(pod_hostname(pod) == name for pod in pods):
            return pods[0].status.pod_ip
        return self._address_allocator.address_of(f"{service.metadata.namespace}/{name}")

    def _pod_address(self, host: str, service: ServiceView | None) -> str:
        if service is None or service.spec.cluster_ip != _HEADLESS:
            return ""
        return self._address_allocator.address_of(f"{service.metadata.namespace}/{host}")
