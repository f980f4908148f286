"""Loopback addresses of pods on the host network: one for every hostname, before its pod exists."""

from __future__ import annotations

from collections import defaultdict

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

    def address_of(self, name: str) -> str:
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
