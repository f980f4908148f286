"""Amounts in words."""

from __future__ import annotations

from pliant.autoscale.model import PodShape

_MEMORY_UNITS = (("TiB", 2**40), ("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10))


def format_requests(shape: PodShape) -> str:
    """What a pod asks for: `5 CPU and 8 GiB`."""
    words = [format_amount(name, amount) for name, amount in shape.requests if name != "pods"]
    if not words:
        return "room for a pod"
    return " and ".join([", ".join(words[:-1]), words[-1]] if words[1:] else words)


def format_amount(resource: str, amount: int) -> str:
    """So much of a resource: `5 CPU`, `8 GiB`, `2 nvidia.com/gpu`."""
    if resource == "cpu":
        return f"{amount / 1000:g} CPU"
    if resource != "memory":
        return f"{amount} {resource}"
    for unit, size in _MEMORY_UNITS:
        if amount >= size:
            return f"{round(amount / size, 1):g} {unit}"
    return f"{amount} bytes of memory"


def format_count(count: int, noun: str) -> str:
    """`1 pod`, `12 pods`."""
    return f"{count} {noun}{'' if count == 1 else 's'}"
