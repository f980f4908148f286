"""Addresses for pods that share this machine's network: one for every name, before anybody has it."""

from __future__ import annotations

from collections import defaultdict

_MOST = 256 * 256 - 3
"""Addresses of a block, less the first two and the last."""
_SERVICES = "10.96."


class Allotment:
    """Gives names addresses of a block `127.N.0.0/16`, always the same ones while there is room for all.

    A member that is started anew is found where it was before, and one that is yet to come where it will be.
    """

    def __init__(self, first: str) -> None:
        self._block = first.removesuffix(".0.1")
        self._numbers: dict[str, int] = {}
        """The number of every name, those that were asked for least recently first."""
        self._holders: dict[int, dict[str, str]] = defaultdict(dict)
        """Who has a number now: pods by their ids, and as which member."""
        self._next = 2

    def begins_at(self, first: str) -> bool:
        """Whether this is the block with that first address."""
        return first == f"{self._block}.0.1"

    def named(self, name: str) -> str:
        """The address of a name, whether anybody has it or not."""
        return self._written(self._number(name))

    def take(self, name: str, pod: str, member: str) -> str:
        """The address for a pod: that of the name, unless another member has the same name."""
        number = self._number(name)
        if any(other != member for other in self._holders[number].values()):
            number = self._number(f"{name} {member}")
        self._holders[number][pod] = member
        return self._written(number)

    def release(self, pod: str) -> None:
        """A pod is gone."""
        for number in [number for number, held in self._holders.items() if pod in held]:
            del self._holders[number][pod]
            if not self._holders[number]:
                del self._holders[number]

    def of_service(self, address: str) -> str:
        """Where this machine listens in place of the address of a service; other addresses stay what they are."""
        if not address.startswith(_SERVICES):
            return address
        head, block = self._block.split(".")
        return f"{head}.{int(block) + 1}.{address.removeprefix(_SERVICES)}"

    def _number(self, name: str) -> int:
        number = self._numbers.pop(name, None) or self._free()
        self._numbers[name] = number
        return number

    def _free(self) -> int:
        if self._next <= _MOST:
            self._next += 1
            return self._next - 1
        forgotten = next((name for name, number in self._numbers.items() if number not in self._holders), "")
        if not forgotten:
            raise OSError(0, f"every address of {self._block}.0.0/16 is in use")
        return self._numbers.pop(forgotten)

    def _written(self, number: int) -> str:
        return f"{self._block}.{number >> 8}.{number & 255}"
