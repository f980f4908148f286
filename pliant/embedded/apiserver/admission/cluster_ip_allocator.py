"""Cluster addresses of services: each given to one service at a time, never guessed twice."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence

from pliant.embedded.storage.stored_objects import ObjectChange, StoredObject
from pliant.errors import ServerError

SERVICES = "/services"
SERVICE_CIDR = ipaddress.ip_network("10.96.0.0/16")
FIRST_CLUSTER_IP_OFFSET = 10
"""Lower addresses are left to the cluster itself: its API and its names."""

_CLUSTER_IP_FIELD_INDEX = 0  # where `spec.clusterIP` stands among a service's indexed fields


class ClusterIpAllocator:
    """Hands out addresses in turn and takes them back when their service is gone.

    An address is taken as soon as it is handed out, before its service is committed.
    """

    def __init__(self) -> None:
        self._next_offset = FIRST_CLUSTER_IP_OFFSET
        self._allocated: set[str] = set()

    def load(self, services: Sequence[StoredObject]) -> None:
        """Note the addresses of services that exist."""
        self._allocated.update(service.indexed_values[_CLUSTER_IP_FIELD_INDEX] for service in services)

    def on_commit(self, events: Sequence[ObjectChange]) -> None:
        """Follow what became of services."""
        for event in events:
            if event.after.key.resource == SERVICES:
                if event.is_deleted:
                    self._allocated.discard(event.after.indexed_values[_CLUSTER_IP_FIELD_INDEX])
                else:
                    self._allocated.add(event.after.indexed_values[_CLUSTER_IP_FIELD_INDEX])

    def is_allocated(self, address: str) -> bool:
        """Whether a service has this address."""
        return address in self._allocated

    def allocate(self) -> str:
        """An address nobody has."""
        for _ in range(SERVICE_CIDR.num_addresses):
            address = str(SERVICE_CIDR[self._next_offset])
            self._next_offset = (
                self._next_offset + 1 if self._next_offset < SERVICE_CIDR.num_addresses - 2 else FIRST_CLUSTER_IP_OFFSET
            )
            if address not in self._allocated:
                self._allocated.add(address)
                return address
        raise ServerError(500, "InternalError", f"every address of {SERVICE_CIDR} is in use by a service")
