"""One training framework per file: which environment and ports a rank needs."""

from __future__ import annotations

from pliant.frameworks.generic import Generic
from pliant.model.framework import Framework

_GENERIC = Generic()
_KNOWN: tuple[Framework, ...] = (_GENERIC,)

FRAMEWORKS: dict[str, Framework] = {each.name: each for each in _KNOWN}
"""Every framework with a contract of its own, by the word users write."""


def framework_for(name: str) -> Framework:
    """The framework of that name in any case; one we do not know gets the generic contract."""
    return FRAMEWORKS.get(name.lower(), _GENERIC)


__all__ = ["FRAMEWORKS", "framework_for"]
