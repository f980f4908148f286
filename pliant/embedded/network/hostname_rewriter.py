"""Put addresses in place of the cluster's names, for pods that cannot ask for them."""

from __future__ import annotations

import re
from typing import Final

from pliant.embedded.network.loopback_addresses import LoopbackAddressAllocator
from pliant.embedded.network.service_index import API_SERVICE_KEY, ServiceIndex
from pliant.embedded.object_views import ServiceView, pod_hostname

_LABEL: Final = r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?"
_QUALIFIED_NAME: Final = re.compile(rf"(?<![\w.-])(?<![^/]/)(?<!^/){_LABEL}(?:\.{_LABEL})+(?![\w-])")
"""What may be a name: not the end of a path, nor a part of a longer word."""
_SHORT_NAME: Final = re.compile(rf"(?:(?<=//)|(?<![\w./-])){_LABEL}(?![\w.-])")
_CLUSTER_SUFFIXES: Final = (".svc.cluster.local", ".svc")
_HEADLESS = "None"


class ClusterHostnameRewriter:
    """Knows where a name of the cluster is found, also before anybody is there."""

    def __init__(self, service_index: ServiceIndex, address_allocator: LoopbackAddressAllocator) -> None:
        self._service_index = service_index
        self._address_allocator = address_allocator

    def rewrite_hostnames(self, text: str) -> str:
        """A text with addresses for all names of the cluster in it."""
        return _QUALIFIED_NAME.sub(lambda match: self.resolve(match[0]) or match[0], text)

    def rewrite_service_names(self, text: str, namespace: str) -> str:
        """The same where services of one's own namespace are called by their bare names, too."""
        return _SHORT_NAME.sub(
            lambda match: self.resolve(f"{match[0]}.{namespace}") or match[0], self.rewrite_hostnames(text)
        )

    def rewrite_bytes(self, content: bytes) -> bytes:
        """The same for what may be a text."""
        try:
            return self.rewrite_hostnames(content.decode()).encode()
        except UnicodeDecodeError:
            return content

    def resolve(self, name: str) -> str:
        """Where a name is found; nothing when it is none of ours."""
        for ending in _CLUSTER_SUFFIXES:
            name = name.removesuffix(ending)
        match name.split("."):
            case [service, namespace]:
                return self._service_address(self._service_index.service(namespace, service))
            case [host, service, namespace]:
                return self._pod_address(host, self._service_index.service(namespace, service))
            case _:
                return ""

    def _service_address(self, service: ServiceView | None) -> str:
        # Where the API is, programs are told by variables: it has another port here.
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
