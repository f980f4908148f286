"""Amounts in words."""

from __future__ import annotations

from pliant.autoscale.model import Shape

_UNITS = (("TiB", 2**40), ("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10))


def needs_in_words(shape: Shape) -> str:
    """What a pod asks for: `5 CPU and 8 GiB`."""
    words = [amount_in_words(name, amount) for name, amount in shape.needs if name != "pods"]
    if not words:
        return "room for a pod"
    return " and ".join([", ".join(words[:-1]), words[-1]] if words[1:] else words)


def amount_in_words(name: str, amount: int) -> str:
    """So much of a resource: `5 CPU`, `8 GiB`, `2 nvidia.com/gpu`."""
    if name == "cpu":
        return f"{amount / 1000:g} CPU"
    if name != "memory":
        return f"{amount} {name}"
    for unit, size in _UNITS:
        if amount >= size:
            return f"{round(amount / size, 1):g} {unit}"
    return f"{amount} bytes of memory"


def several(number: int, what: str) -> str:
    """`1 pod`, `12 pods`."""
    return f"{number} {what}{'' if number == 1 else 's'}"
