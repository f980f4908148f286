"""Formats amounts and names for messages."""

from __future__ import annotations

from collections.abc import Sequence

from pliant.master.model import MIB, PodResources

GIB = 1024 * MIB
_MAX_NAMES = 5


def format_memory(memory: int | None) -> str:
    """Format bytes as `1.5 GiB` or `512 MiB`."""
    if memory is None:
        return "no limit"
    return f"{memory / GIB:.3g} GiB" if memory >= GIB else f"{memory / MIB:.3g} MiB"


def format_resources(resources: PodResources) -> str:
    """Format resources as `0.5 cores and 1 GiB`."""
    cores = None if resources.cpu is None else f"{resources.cpu:g} core{'' if resources.cpu == 1 else 's'}"
    parts = [part for part in (cores, None if resources.memory is None else format_memory(resources.memory)) if part]
    return " and ".join(parts) or "unspecified resources"


def format_names(names: Sequence[object]) -> str:
    """List the first names and the number of the others."""
    shown = ", ".join(map(str, names[:_MAX_NAMES]))
    return shown if len(names) <= _MAX_NAMES else f"{shown} and {len(names) - _MAX_NAMES} more"


def format_count(number: int, noun: str) -> str:
    """Format a number with its noun: `1 worker`, `2 workers`, `2 ps`."""
    return f"{number} {noun}{'' if number == 1 or noun.endswith('s') else 's'}"
