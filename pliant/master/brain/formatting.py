"""Amounts and names in words for people."""

from __future__ import annotations

from collections.abc import Sequence

from pliant.master.model import MIB, PodResources

GIB = 1024 * MIB
_MAX_NAMES = 5


def format_memory(memory: int | None) -> str:
    """`1.5 GiB`, `512 MiB`."""
    if memory is None:
        return "no limit"
    return f"{memory / GIB:.3g} GiB" if memory >= GIB else f"{memory / MIB:.3g} MiB"


def format_resources(resources: PodResources) -> str:
    """`0.5 cores and 1 GiB`."""
    cores = None if resources.cpu is None else f"{resources.cpu:g} core{'' if resources.cpu == 1 else 's'}"
    parts = [part for part in (cores, None if resources.memory is None else format_memory(resources.memory)) if part]
    return " and ".join(parts) or "whatever there is"


def format_names(names: Sequence[object]) -> str:
    """All of them if they are few, else the first ones and how many more."""
    shown = ", ".join(map(str, names[:_MAX_NAMES]))
    return shown if len(names) <= _MAX_NAMES else f"{shown} and {len(names) - _MAX_NAMES} more"


def format_count(number: int, noun: str) -> str:
    """`1 worker`, `2 workers`, `2 ps`."""
    return f"{number} {noun}{'' if number == 1 or noun.endswith('s') else 's'}"
