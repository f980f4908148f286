"""The allocation of cluster IPs to services."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence

from pliant.embedded.storage.stored_objects import ObjectChange, StoredObject
from pliant.errors import ServerError

SERVICES_RESOURCE_KEY = "/services"
SERVICE_CIDR = ipaddress.ip_network("10.96.0.0/16")
FIRST_CLUSTER_IP_OFFSET = 10
"""Lower addresses are reserved for the API server and DNS."""
_CLUSTER_IP_FIELD_INDEX = 0  # the position of `spec.clusterIP` in the indexed fields of a service


class ClusterIpAllocator:
    """Allocates cluster IPs round-robin; an IP is taken before its service is committed."""

    def __init__(self) -> None:
        self._next_offset = FIRST_CLUSTER_IP_OFFSET
        self._allocated: set[str] = set()

    def mark_existing_allocated(self, services: Sequence[StoredObject]) -> None:
        """Mark the cluster IPs of existing services as allocated."""
        self._allocated.update(service.indexed_values[_CLUSTER_IP_FIELD_INDEX] for service in services)

    def on_commit(self, changes: Sequence[ObjectChange]) -> None:
        for change in changes:
            if change.after.key.resource == SERVICES_RESOURCE_KEY:
                address = change.after.indexed_values[_CLUSTER_IP_FIELD_INDEX]
                if change.is_deleted:
                    self._allocated.discard(address)
                else:
                    self._allocated.add(address)

    def is_allocated(self, address: str) -> bool:
        return address in self._allocated

    def release(self, address: str) -> None:
        self._allocated.discard(address)

    def allocate(self) -> str:
        for _ in range(SERVICE_CIDR.num_addresses):
            address = str(SERVICE_CIDR[self._next_offset])
            self._next_offset += 1
            if self._next_offset == SERVICE_CIDR.num_addresses - 1:  # the broadcast address
                self._next_offset = FIRST_CLUSTER_IP_OFFSET
            if address not in self._allocated:
                self._allocated.add(address)
                return address
        message = "Internal error occurred: failed to allocate a serviceIP: range is full"
        raise ServerError(500, "InternalError", message)
