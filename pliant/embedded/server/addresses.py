"""Cluster addresses of services: each given to one service at a time, never guessed twice."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence

from pliant.embedded.storage.records import Event, Record
from pliant.errors import ServerError

SERVICES = "/services"
NETWORK = ipaddress.ip_network("10.96.0.0/16")
FIRST = 10
"""Lower addresses are left to the cluster itself: its API and its names."""

_CLUSTER_IP = 0  # where `spec.clusterIP` stands among a service's indexed fields


class Addresses:
    """Hands out addresses in turn and takes them back when their service is gone.

    An address is taken as soon as it is handed out, before its service is committed.
    """

    def __init__(self) -> None:
        self._next = FIRST
        self._taken: set[str] = set()

    def load(self, services: Sequence[Record]) -> None:
        """Note the addresses of services that exist."""
        self._taken.update(service.indexed[_CLUSTER_IP] for service in services)

    def committed(self, events: Sequence[Event]) -> None:
        """Follow what became of services."""
        for event in events:
            if event.after.key.resource == SERVICES:
                if event.gone:
                    self._taken.discard(event.after.indexed[_CLUSTER_IP])
                else:
                    self._taken.add(event.after.indexed[_CLUSTER_IP])

    def is_taken(self, address: str) -> bool:
        """Whether a service has this address."""
        return address in self._taken

    def take(self) -> str:
        """An address nobody has."""
        for _ in range(NETWORK.num_addresses):
            address = str(NETWORK[self._next])
            self._next = self._next + 1 if self._next < NETWORK.num_addresses - 2 else FIRST
            if address not in self._taken:
                self._taken.add(address)
                return address
        raise ServerError(500, "InternalError", f"every address of {NETWORK} is in use by a service")
