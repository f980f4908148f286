"""Put addresses in place of the cluster's names, for pods that cannot ask for them."""

from __future__ import annotations

import re
from typing import Final

from pliant.embedded.names import API, Names
from pliant.embedded.network.allotment import Allotment
from pliant.embedded.views import ServiceView, host_name

_LABEL: Final = r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?"
_NAME: Final = re.compile(rf"(?<![\w.-])(?<![^/]/)(?<!^/){_LABEL}(?:\.{_LABEL})+(?![\w-])")
"""What may be a name: not the end of a path, nor a part of a longer word."""
_NEARBY: Final = re.compile(rf"(?:(?<=//)|(?<![\w./-])){_LABEL}(?![\w.-])")
_WHOLE: Final = (".svc.cluster.local", ".svc")
_HEADLESS = "None"


class Directory:
    """Knows where a name of the cluster is found, also before anybody is there."""

    def __init__(self, names: Names, allotment: Allotment) -> None:
        self._names = names
        self._allotment = allotment

    def spoken(self, text: str) -> str:
        """A text with addresses for all names of the cluster in it."""
        return _NAME.sub(lambda match: self.address_of(match[0]) or match[0], text)

    def spoken_nearby(self, text: str, namespace: str) -> str:
        """The same where services of one's own namespace are called by their bare names, too."""
        return _NEARBY.sub(lambda match: self.address_of(f"{match[0]}.{namespace}") or match[0], self.spoken(text))

    def spoken_bytes(self, content: bytes) -> bytes:
        """The same for what may be a text."""
        try:
            return self.spoken(content.decode()).encode()
        except UnicodeDecodeError:
            return content

    def address_of(self, name: str) -> str:
        """Where a name is found; nothing when it is none of ours."""
        for ending in _WHOLE:
            name = name.removesuffix(ending)
        match name.split("."):
            case [service, namespace]:
                return self._of_service(self._names.service(namespace, service))
            case [host, service, namespace]:
                return self._of_host(host, self._names.service(namespace, service))
            case _:
                return ""

    def _of_service(self, service: ServiceView | None) -> str:
        # Where the API is, programs are told by variables: it has another port here.
        if service is None or (service.metadata.namespace, service.metadata.name) == API:
            return ""
        if service.spec.cluster_ip != _HEADLESS:
            return service.spec.external_name or self._allotment.of_service(service.spec.cluster_ip)
        name, pods = service.metadata.name, self._names.pods_behind(service)
        if pods and not any(host_name(pod) == name for pod in pods):
            return pods[0].status.pod_ip
        return self._allotment.named(f"{service.metadata.namespace}/{name}")

    def _of_host(self, host: str, service: ServiceView | None) -> str:
        if service is None or service.spec.cluster_ip != _HEADLESS:
            return ""
        return self._allotment.named(f"{service.metadata.namespace}/{host}")
