"""Addresses for pods that share this machine's network: one for every name, before anybody has it."""

from __future__ import annotations

from collections import defaultdict

_MAX_ADDRESSES = 256 * 256 - 3
"""Addresses of a block, less the first two and the last."""
_SERVICE_IP_PREFIX = "10.96."


class LoopbackAddressAllocator:
    """Gives names addresses of a block `127.N.0.0/16`, always the same ones while there is room for all.

    A member that is started anew is found where it was before, and one that is yet to come where it will be.
    """

    def __init__(self, first_address: str) -> None:
        self._block = first_address.removesuffix(".0.1")
        self._numbers: dict[str, int] = {}
        """The number of every name, those that were asked for least recently first."""
        self._holders: dict[int, dict[str, str]] = defaultdict(dict)
        """Who has a number now: pods by their ids, and as which member."""
        self._next = 2

    def starts_at(self, first_address: str) -> bool:
        """Whether this is the block with that first address."""
        return first_address == f"{self._block}.0.1"

    def address_of(self, name: str) -> str:
        """The address of a name, whether anybody has it or not."""
        return self._format_address(self._number_of(name))

    def allocate(self, name: str, pod_uid: str, pod_key: str) -> str:
        """The address for a pod: that of the name, unless another member has the same name."""
        number = self._number_of(name)
        if any(other != pod_key for other in self._holders[number].values()):
            number = self._number_of(f"{name} {pod_key}")
        self._holders[number][pod_uid] = pod_key
        return self._format_address(number)

    def release(self, pod_uid: str) -> None:
        """A pod is gone."""
        for number in [number for number, held in self._holders.items() if pod_uid in held]:
            del self._holders[number][pod_uid]
            if not self._holders[number]:
                del self._holders[number]

    def map_service_address(self, cluster_ip: str) -> str:
        """Where this machine listens in place of the address of a service; other addresses stay what they are."""
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
        forgotten = next((name for name, number in self._numbers.items() if number not in self._holders), "")
        if not forgotten:
            raise OSError(0, f"every address of {self._block}.0.0/16 is in use")
        return self._numbers.pop(forgotten)

    def _format_address(self, number: int) -> str:
        return f"{self._block}.{number >> 8}.{number & 255}"
