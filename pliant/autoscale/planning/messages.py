"""Renders resource amounts for people."""

from __future__ import annotations

from pliant.autoscale.model import PodShape

_MEMORY_UNITS = (("TiB", 2**40), ("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10))


def format_requests(shape: PodShape) -> str:
    """Render requests, for example `5 CPU and 8 GiB`."""
    amounts = [format_amount(name, amount) for name, amount in shape.requests if name != "pods"]
    if not amounts:
        return "capacity for a pod"
    return " and ".join([", ".join(amounts[:-1]), amounts[-1]] if amounts[1:] else amounts)


def format_amount(resource: str, amount: int) -> str:
    """Render an amount: `5 CPU`, `8 GiB`, `2 nvidia.com/gpu`."""
    if resource == "cpu":
        return f"{amount / 1000:g} CPU"
    if resource != "memory":
        return f"{amount} {resource}"
    for unit, size in _MEMORY_UNITS:
        if amount >= size:
            return f"{round(amount / size, 1):g} {unit}"
    return f"{amount} bytes of memory"


def format_count(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"
